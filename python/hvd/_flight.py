"""Operations in flight: each keeps alive what libhvd reads and writes, also when its handle is
dropped.

A signal handler of the program may raise an exception between any two steps of this package. So
what libhvd is about to use is kept before the call, and what a call gives is stored by the same
step that makes it: an assignment of map(function, arguments) to a list, where no handler runs."""
import contextlib
import ctypes
import os
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from hvd import _abi
from hvd._library import lib
from hvd.errors import error_of, last_sentence

_IN_PROGRESS = _abi.ENUMS["hvd_status"]["HVD_IN_PROGRESS"]
_SHUTDOWN = _abi.ENUMS["hvd_status"]["HVD_ERR_SHUTDOWN"]
_STATE = _abi.ENUMS["hvd_status"]["HVD_ERR_STATE"]
_wait_for, _wait_on_stream_for = lib.hvd_wait_for, lib.hvd_wait_on_stream_for
_WITHOUT_LIMIT_US = (1 << 63) - 1


class _Job:
    """The job to which operations belong."""

    __slots__ = ("end",)

    def __init__(self) -> None:
        # status and sentence of all that was in flight when the job ended; None until then
        self.end: Optional[Tuple[int, str]] = None


class Handle:
    """An operation that was submitted. wait() gives its result, as often as one asks. A handle may
    be dropped: the operation goes on, and its memory stays alive until it is done. Of tensors on a
    GPU it is the program's stream that waits: what is put into it from then on finds the result."""

    __slots__ = (
        "place", "_call", "_value", "_finish", "_job", "_error", "_outcome", "_kept", "__weakref__",
    )  # fmt: skip

    def __init__(self, call: Any, value: Any, finish: Optional[Callable[[Any], Any]] = None):
        """Made before the operation is submitted; libhvd puts its own handle into [place]."""
        self.place = ctypes.c_uint64(0)
        self._call = call  # None as soon as the operation is done and its result is there
        self._value = value
        self._finish = finish
        self._job = _job
        self._error: Optional[Tuple[int, str]] = None
        self._outcome: List[Any] = []  # the final status, and what finish made of the value
        self._kept: Any = weakref.ref(self, dropped.append)
        _in_flight[self._kept] = (self.place, call, value, finish)

    @property
    def number(self) -> int:
        """libhvd's handle; 0: nothing was submitted."""
        return self.place.value

    @property
    def name(self) -> Optional[str]:
        """The operation's name, until its result is there."""
        call = self._call
        return None if call is None else call.name

    def done(self) -> bool:
        """Is it done? Never waits."""
        return (
            self._call is None
            or self._job.end is not None
            or bool(self._outcome)
            or lib.hvd_test(self.number) != _IN_PROGRESS
        )

    def wait(self) -> Any:
        """Wait until it is done; returns the result, or raises what went wrong."""
        if self._call is not None:
            self.complete()
        if self._error is None:
            return self._value
        raise error_of(*self._error)

    def wait_for(self, seconds: float) -> bool:
        """Wait at most so long; is it done by then? wait() then has its result at once."""
        return self._call is None or self.complete(int(min(seconds, 1e12) * 1e6))

    def complete(self, timeout_us: int = _WITHOUT_LIMIT_US) -> bool:
        """Wait until it is done, and release everything except the result. False: it is not done
        within that time."""
        call = self._call
        if call is None:
            return True
        with call.lock:  # libhvd wants one thread to wait
            if self._call is None:
                return True
            outcome = self._outcome
            if self._job.end is not None and not outcome:
                self._error = self._job.end
            elif not self._settle(outcome, call, timeout_us):
                return False
            self._withdraw()
        return True

    def _settle(self, outcome: List[Any], call: Any, timeout_us: int) -> bool:
        """Fill [outcome], and keep what it says. An exception here leaves the rest to the next
        wait(). False: it is not done within that time."""
        if not outcome:
            outcome[:] = _waiting_for(self.place, call, timeout_us)
        if outcome[0] == _IN_PROGRESS:
            del outcome[:]
            return False
        if outcome[0] == _STATE and call.stream is not None:
            # a stream that is captured cannot wait: the operation goes on
            del outcome[:]
            raise error_of(_STATE, last_sentence())
        if outcome[0] != 0:
            self._error = (outcome[0], last_sentence())
            self._value = None
            return True
        if self._finish is not None and len(outcome) == 1:
            outcome[1:] = map(self._finish, (self._value,))
        if len(outcome) > 1:
            self._value = outcome[1]
        return True

    def _withdraw(self) -> None:
        """libhvd does not use its memory, now or later."""
        _in_flight.pop(self._kept, None)
        self._finish = self._call = self._kept = None


def _waiting_for(place: ctypes.c_uint64, call: Any, timeout_us: int) -> Any:
    """Makes libhvd wait for the operation, once its status is asked for."""
    if call.stream is None:
        return map(_wait_for, (place.value,), (timeout_us,))
    return map(_wait_on_stream_for, (place.value,), (call.stream(),), (timeout_us,))


_job = _Job()
# Of each operation libhvd's handle, its call, value and finish, by a reference to the Handle, which
# comes into [dropped] when the program has no reference to it any more.
_in_flight: Dict[Any, Tuple[ctypes.c_uint64, Any, Any, Optional[Callable[[Any], Any]]]] = {}
dropped: Deque[Any] = deque()
_LOOKS = 4  # dropped handles to look at for each operation, so that they become fewer


def release_dropped(looks: int = _LOOKS) -> None:
    """Release the memory of operations whose handle was dropped, and that are done by now."""
    for _ in range(looks):
        try:
            reference = dropped[0]
        except IndexError:  # another thread was faster, here and below
            return
        if _is_in_use(reference):
            dropped.rotate(-1)
            continue
        kept = _in_flight.pop(reference, None)
        with contextlib.suppress(ValueError):
            dropped.remove(reference)
        if kept is not None and kept[0].value != 0:
            _release(*kept)


def _is_in_use(reference: Any) -> bool:
    kept = _in_flight.get(reference)
    number = 0 if kept is None else kept[0].value
    return number != 0 and lib.hvd_test(number) == _IN_PROGRESS


def _release(
    place: ctypes.c_uint64, call: Any, value: Any, finish: Optional[Callable[[Any], Any]]
) -> None:
    """Give libhvd its handle back, and put the result where the program wanted it."""
    for status in _waiting_for(place, call, _WITHOUT_LIMIT_US):
        if status == 0 and finish is not None:
            finish(value)


def begin() -> None:
    """A job has begun."""
    global _job
    _job = _Job()


def current() -> Any:
    """Stands for the job, or the epoch of an elastic one, in which this process is now."""
    return _job


def _end(status: int, sentence: str) -> None:
    """The job has ended, and with it every operation that was in flight."""
    _job.end = (status, sentence)
    dropped.clear()
    _in_flight.clear()


def end() -> None:
    """hvd was shut down."""
    _end(_SHUTDOWN, "hvd was shut down while this operation was pending")


def _after_fork() -> None:
    """In a forked child: it has no part in the job, so nothing is in flight here."""
    _end(_STATE, "this process was forked from a rank and is not part of its job")


os.register_at_fork(after_in_child=_after_fork)
