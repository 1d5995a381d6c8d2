"""Finds libhvd and opens it."""
import ctypes
import os
from typing import Callable, List

from hvd import _abi

SONAME = "libhvd.so.0"


def _candidates() -> List[str]:
    """Where libhvd may be: HVD_LIBRARY, the installed place, the build tree, the loader's path."""
    named = os.environ.get("HVD_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    found = []
    try:
        from hvd._place import LIBRARY_FOLDER  # written by make install

        found.append(os.path.join(LIBRARY_FOLDER, SONAME))
    except ImportError:
        pass
    for top in (os.environ.get("HVD_BUILD"), os.path.join(here, "..", "..")):
        if top:
            found.append(os.path.join(top, "core", ".libs", SONAME))
    return [path for path in found if os.path.exists(path)] + [SONAME]


def _open() -> ctypes.CDLL:
    failures = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
    raise ImportError(
        "hvd: libhvd cannot be opened (%s); install it, or set HVD_LIBRARY to its file"
        % "; ".join(failures)
    )


class _Library:
    """libhvd's functions. Other Python threads run during those that may wait; the others return at
    once, which giving up the interpreter's lock and getting it back would only delay."""

    def __init__(self) -> None:
        self._library = _open()
        self._at_once = ctypes.PyDLL(self._library._name)
        for name, (result, arguments) in _abi.PROTOTYPES.items():
            try:
                function = self.unchecked(name)
            except AttributeError:
                raise ImportError(
                    "hvd: %s has no %s: it is of another version than this package"
                    % (self._library._name, name)
                ) from None
            function.restype = _abi.ctype_of(result)
            function.argtypes = [_abi.ctype_of(argument) for argument in arguments]
            setattr(self, name, function)

    def unchecked(self, name: str) -> Callable[..., int]:
        """A function that returns an int or a status. It takes None for NULL, numbers for ints, and
        what byref() gives for pointers, and does not convert them, which saves half of a call."""
        return (self._at_once if name in _abi.AT_ONCE else self._library)[name]


lib = _Library()
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
libc.free.restype = None
