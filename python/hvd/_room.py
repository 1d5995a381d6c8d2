"""Room on a GPU for results whose size is known only when all ranks have submitted: libhvd asks for
it, on whichever thread makes progress."""
import ctypes
import itertools
import sys
import weakref
from typing import Any, Optional

_numbers = itertools.count(1)
# Those that libhvd may still ask for. It has their numbers, which outlive them without harm.
_waiting: "weakref.WeakValueDictionary[int, Room]" = weakref.WeakValueDictionary()


class Room:
    """The room of one result, once libhvd has asked for it. [like]: a tensor on the same GPU, and
    its adapter."""

    def __init__(self, like: Any, adapter: Any):
        self.memory: Any = None  # what keeps it
        self.like, self.adapter = like, adapter
        self.number = next(_numbers)
        self.function = ctypes.cast(_allocate, ctypes.c_void_p).value
        _waiting[self.number] = self


def _find(count: int, number: int) -> Optional[int]:
    """What libhvd calls: the address of [count] bytes for a room, None where there are none. The
    thread takes the interpreter's lock for it; no thread that has the lock waits for libhvd."""
    try:
        room = _waiting[number]
        address, room.memory = room.adapter.allocate(room.like, count)
        return address
    except Exception as error:  # it must not end in libhvd's thread
        sys.stderr.write("hvd: no room for a result on the GPU: %s\n" % error)
        return None


_allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(_find)
