"""Operations in flight: each keeps alive what libhvd reads and writes, also when its handle is
dropped."""
import os
import threading
from typing import Any, Callable, Dict, List, Optional

from hvd import _abi
from hvd._library import lib
from hvd.errors import HvdError, error_of, last_sentence

_IN_PROGRESS = _abi.ENUMS["hvd_status"]["HVD_IN_PROGRESS"]
_SHUTDOWN = _abi.ENUMS["hvd_status"]["HVD_ERR_SHUTDOWN"]
_STATE = _abi.ENUMS["hvd_status"]["HVD_ERR_STATE"]


class Operation:
    """An operation that libhvd runs, and the memory that it uses."""

    __slots__ = ("number", "keep", "finish", "status", "sentence", "value", "lock")

    def __init__(self, number: int, keep: Any, finish: Callable[[], Any]):
        self.number = number
        self.keep = keep
        self.finish: Optional[Callable[[], Any]] = finish
        self.status = _IN_PROGRESS
        self.sentence = ""
        self.value: Any = None
        self.lock = threading.Lock()

    def is_done(self) -> bool:
        return self.status != _IN_PROGRESS or lib.hvd_test(self.number) != _IN_PROGRESS

    def complete(self) -> None:
        """Wait until it is done, and release everything except the result."""
        with self.lock:
            if self.status != _IN_PROGRESS:
                return
            status = lib.hvd_wait(self.number)
            self.end(status, "" if status == 0 else last_sentence())

    def end(self, status: int, sentence: str) -> None:
        finish, self.finish = self.finish, None
        self.sentence = sentence
        if status == 0 and finish is not None:
            self.value = finish()
        self.keep = None
        self.status = status
        _operations.pop(self.number, None)


class Handle:
    """An operation that was submitted. wait() gives its result, as often as one asks. A handle may
    be dropped: the operation goes on, and its memory stays alive until it is done."""

    __slots__ = ("_operation", "__weakref__")

    def __init__(self, operation: Operation):
        self._operation = operation

    @property
    def number(self) -> int:
        """libhvd's handle."""
        return self._operation.number

    def done(self) -> bool:
        """Is it done? Never waits."""
        return self._operation.is_done()

    def wait(self) -> Any:
        """Wait until it is done; returns the result, or raises what went wrong."""
        operation = self._operation
        if operation.status == _IN_PROGRESS:
            operation.complete()
        if operation.status != 0:
            raise error_of(operation.status, operation.sentence)
        return operation.value

    def __del__(self) -> None:
        operation = getattr(self, "_operation", None)
        if operation is not None and operation.status == _IN_PROGRESS:
            _dropped.append(operation)


_operations: Dict[int, Operation] = {}  # in flight, by libhvd's handle
_dropped: List[Operation] = []  # in flight, and nobody has the handle any more


def add(number: int, keep: Any, finish: Callable[[], Any]) -> Handle:
    """Note an operation that was just submitted."""
    operation = Operation(number, keep, finish)
    _operations[number] = operation
    if _dropped:
        _release_dropped()
    return Handle(operation)


def find(number: int) -> Optional[Operation]:
    """The operation in flight with this handle of libhvd."""
    return _operations.get(number)


def _release_dropped() -> None:
    """Release the memory of operations whose handle was dropped, and that are done by now."""
    waiting = []
    while _dropped:
        operation = _dropped.pop()
        if operation.is_done():
            operation.complete()
        else:
            waiting.append(operation)
    _dropped.extend(waiting)


def begin() -> None:
    """A job has begun."""
    _operations.clear()
    del _dropped[:]


def end() -> None:
    """The job has ended, and with it every operation that was in flight."""
    for operation in list(_operations.values()):
        with operation.lock:
            operation.end(_SHUTDOWN, "hvd was shut down while this operation was pending")
    del _dropped[:]


def _after_fork() -> None:
    """In a forked child: it has no part in the job, so nothing is in flight here."""
    for operation in list(_operations.values()):
        operation.lock = threading.Lock()
        operation.end(_STATE, "this process was forked from a rank and has no part in its job")
    del _dropped[:]


os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Handle", "HvdError", "Operation", "add", "begin", "end"]
