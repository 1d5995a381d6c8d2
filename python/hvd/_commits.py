"""The commits of a state in the folder of --hvd-state-dir, as bytes: libhvd has the files, the
thread that writes them, and the agreement of the ranks from which one they go on."""
import ctypes
import hashlib
from typing import Iterable, Optional

from hvd import _abi
from hvd._library import lib, libc
from hvd.errors import check


def are_written() -> bool:
    """Is there such a folder?"""
    return lib.hvd_state_dir() is not None


def _name_of(values: Iterable[str]) -> bytes:
    """A state of other values has another name, and so its commits are refused."""
    text = "values: " + ", ".join(sorted(values))
    name = text.encode()
    if len(name) <= _abi.CONSTANTS["HVD_MAX_NAME"]:
        return name
    start = name[:150].decode(errors="ignore")
    return ("%s... %s" % (start, hashlib.sha256(name).hexdigest()[:32])).encode()


class Commits:
    """Those of one state, which has these values."""

    def __init__(self, values: Iterable[str]):
        self._name = _name_of(values)
        self._state = ctypes.c_uint64(0)
        check(lib.hvd_state_create(ctypes.addressof(self._state)))

    def read(self) -> Optional[bytes]:
        """The newest commit, on rank 0. None on others, or if there is none. Collective."""
        data, count = ctypes.c_void_p(None), ctypes.c_int64(0)
        check(
            lib.hvd_state_read(
                self._state.value, self._name, ctypes.addressof(data), ctypes.addressof(count)
            )
        )
        if not data.value:
            return None
        try:
            return ctypes.string_at(data.value, count.value)
        finally:
            libc.free(data)

    def write(self, commit: bytes) -> None:
        """On rank 0: the next one, which reaches the disk later."""
        check(lib.hvd_state_write(self._state.value, self._name, commit, len(commit)))

    def close(self) -> None:
        """The last one has reached the disk when this returns, or there was a warning."""
        check(lib.hvd_state_free(self._state.value))
