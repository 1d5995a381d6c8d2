"""Operations in flight: each keeps alive what libhvd reads and writes, also when its handle is
dropped."""
import os
from collections import deque
from typing import Any, Callable, Deque, Optional, Tuple

from hvd import _abi
from hvd._library import lib
from hvd.errors import error_of, last_sentence

_IN_PROGRESS = _abi.ENUMS["hvd_status"]["HVD_IN_PROGRESS"]
_SHUTDOWN = _abi.ENUMS["hvd_status"]["HVD_ERR_SHUTDOWN"]
_STATE = _abi.ENUMS["hvd_status"]["HVD_ERR_STATE"]
_wait = lib.hvd_wait


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

    __slots__ = ("number", "_call", "_value", "_finish", "_job", "_error", "__weakref__")

    def __init__(
        self, number: int, call: Any, value: Any, finish: Optional[Callable[[Any], Any]] = None
    ):
        self.number = number  # libhvd's handle
        self._call = call  # None as soon as the operation is done and its result is there
        self._value = value
        self._finish = finish
        self._job = _job
        self._error: Optional[Tuple[int, str]] = None

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
            or lib.hvd_test(self.number) != _IN_PROGRESS
        )

    def wait(self) -> Any:
        """Wait until it is done; returns the result, or raises what went wrong."""
        if self._call is not None:
            self.complete()
        if self._error is None:
            return self._value
        raise error_of(*self._error)

    def complete(self) -> None:
        """Wait until it is done, and release everything except the result."""
        call = self._call
        if self._job.end is not None:
            self._end(*self._job.end)
        elif call is not None:
            with call.lock:  # libhvd wants one thread to wait
                if self._call is not None:
                    if call.stream is None:
                        status = _wait(self.number)
                    else:
                        status = lib.hvd_wait_on_stream(self.number, call.stream())
                    if status == 0 and self._finish is None:
                        self._call = None
                    else:
                        self._end(status, "" if status == 0 else last_sentence())

    def _end(self, status: int, sentence: str) -> None:
        value, self._value = self._value, None
        try:
            if status != 0:
                self._error = (status, sentence)
            elif self._finish is None:
                self._value = value
            else:
                self._value = self._finish(value)
        finally:
            self._finish = self._call = None

    def __del__(self) -> None:
        if self._call is not None and self._job.end is None:
            dropped.append(self)


_job = _Job()
dropped: Deque[Handle] = deque()  # in flight, and the program has no reference to them any more
_LOOKS = 4  # dropped handles to look at for each operation, so that they become fewer


def release_dropped(looks: int = _LOOKS) -> None:
    """Release the memory of operations whose handle was dropped, and that are done by now."""
    for _ in range(min(looks, len(dropped))):
        handle = dropped.popleft()
        if handle.done():
            handle.complete()
        else:
            dropped.append(handle)


def begin() -> None:
    """A job has begun."""
    global _job
    _job = _Job()


def _end(status: int, sentence: str) -> None:
    """The job has ended, and with it every operation that was in flight."""
    _job.end = (status, sentence)
    dropped.clear()


def end() -> None:
    """hvd was shut down."""
    _end(_SHUTDOWN, "hvd was shut down while this operation was pending")


def _after_fork() -> None:
    """In a forked child: it has no part in the job, so nothing is in flight here."""
    _end(_STATE, "this process was forked from a rank and has no part in its job")


os.register_at_fork(after_in_child=_after_fork)
