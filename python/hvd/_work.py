"""Operations of the backend "hvd" of torch.distributed in flight: works, and their futures."""
import contextlib
import datetime
import os
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch
import torch.distributed as dist

import hvd
from hvd import _job
from hvd._names import Unnamed, unnamed
from hvd.errors import HvdError, MismatchError, StateError, TimedOutError

if TYPE_CHECKING:  # hvd.torch imports what imports this
    from hvd.torch.mpi_ops import SparseHandle

# ---- Futures ------------------------------------------------------------------------------------


class _Completer:
    """One thread that waits for operations, in their order, and completes the futures that torch
    asked for. For tensors on a GPU it has a stream of its own, which waits in place of the
    program's: what that computes meanwhile goes on, until it waits for the future.

    While Python ends it ends any thread that comes back to it, and torch's C++ aborts the process
    if that thread is inside it: so from then on this one does not go there any more."""

    def __init__(self) -> None:
        self._works: "queue.SimpleQueue[Work]" = queue.SimpleQueue()
        self._streams: Dict[torch.device, Any] = {}
        self._pid = 0
        self._in_torch = threading.Lock()
        _job.at_end.append(self._stop)

    def add(self, work: "Work") -> None:
        self._begin()
        self._works.put(work)

    def add_alone(self, work: "Work") -> None:
        """Let it have a thread of its own, because others need not wait for it."""
        self._begin()
        threading.Thread(target=self._complete, args=(work,), daemon=True).start()

    def _begin(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._works = os.getpid(), queue.SimpleQueue()
            threading.Thread(target=self._run, args=(self._works,), daemon=True).start()

    def _run(self, works: "queue.SimpleQueue[Work]") -> None:
        while True:
            self._complete(works.get())

    def _complete(self, work: "Work") -> None:
        work.await_end()
        with self._in_torch, self._in_own_stream(work.device):
            work.complete_future()

    def _stop(self) -> None:
        """Keep the lock for ever, if the callbacks that run now come to an end."""
        if self._pid == os.getpid():
            self._in_torch.acquire(timeout=_LAST_CALLBACKS_S)

    def _in_own_stream(self, device: Optional[torch.device]) -> Any:
        if device is None:
            return contextlib.nullcontext()
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return torch.cuda.stream(self._streams[device])


_LAST_CALLBACKS_S = 5.0
_completer = _Completer()


class Callbacks:
    """The callbacks of one operation. They run on some thread at some time, on each rank another,
    so what they submit has names that are counted within them."""

    _running = threading.local()

    def __init__(self, operation: str):
        self._operation = operation
        self._names: Dict[str, Unnamed] = {}

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Within it this thread runs one of them."""
        outer = getattr(self._running, "callbacks", None)
        self._running.callbacks = self
        try:
            yield
        finally:
            self._running.callbacks = outer

    @classmethod
    def name(cls, kind: str, number: int) -> Unnamed:
        """The name of an operation of this kind in process set [number]."""
        callbacks = getattr(cls._running, "callbacks", None)
        if callbacks is None:
            return unnamed(kind, number)
        place = "%s.then.%s" % (callbacks._operation, kind)
        return callbacks._names.setdefault(kind, Unnamed(place))


class _Failure:
    """The value of a future whose operation failed. DistributedDataParallel reads tensors from it,
    by pickling, without looking for an error first; if nothing is raised then, it crashes."""

    def __init__(self, error: Exception):
        self.error = error

    def __reduce_ex__(self, _: Any) -> Any:
        raise self.error


def _raise(failure: _Failure) -> None:
    raise failure.error


class _Future(torch.futures.Future):
    """The result of an operation, or of a callback that follows it. Callbacks may submit operations
    and wait for them: a thread that waits completes the future itself, as the completer may be the
    thread that waits."""

    def __init__(self, work: "Work", callbacks: Callbacks):
        super().__init__(devices=[] if work.device is None else [work.device])
        self._work, self._callbacks = work, callbacks

    def wait(self) -> Any:
        self._work.complete_future()
        return super().wait()

    def set_exception(self, error: Exception) -> None:
        super()._set_unwrap_func(_raise)  # which Python's wait and value call
        self.set_result(_Failure(error))

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        def run(_: Any) -> None:
            with self._callbacks.run():
                callback(self)

        super().add_done_callback(run)

    def then(self, callback: Callable[[Any], Any]) -> "_Future":
        made = _Future(self._work, self._callbacks)

        def follow(_: Any) -> None:
            try:
                result = callback(self)
            except Exception as error:
                made.set_exception(error)
            else:
                made.set_result(result)

        self.add_done_callback(follow)
        return made


# ---- Timeouts -----------------------------------------------------------------------------------


class WaitTimedOut(TimedOutError, getattr(dist, "DistBackendError", RuntimeError)):
    """What a wait raises at its timeout: an error of hvd, and what torch's own backends raise."""


def seconds_of(timeout: Optional[datetime.timedelta]) -> Optional[float]:
    """A timeout of torch; None where it says that there is none."""
    if timeout is None or timeout.total_seconds() <= 0:
        return None
    return min(timeout.total_seconds(), threading.TIMEOUT_MAX)


class Limit:
    """How long the operations of a group may take. Once one took longer the group is of no use: its
    members do not know any more which operations they have in common."""

    def __init__(self, timeout: Optional[datetime.timedelta]):
        self.seconds = seconds_of(timeout)
        self.broken: Optional[str] = None
        self.is_aborted = False

    def seconds_for(self, opts: Any) -> float:
        """How long an operation with these options may take."""
        seconds = seconds_of(getattr(opts, "timeout", None)) or self.seconds
        return float("inf") if seconds is None else seconds

    def require(self) -> None:
        """Raise, if the group is of no use any more."""
        if self.broken is not None:
            raise self.error()

    def error(self) -> HvdError:
        """Why it is of no use."""
        return (StateError if self.is_aborted else WaitTimedOut)(self.broken)

    def end(self, why: str) -> HvdError:
        """The group is of no use from now on."""
        self.broken = why
        return self.error()

    def expire(self, name: str, seconds: float) -> HvdError:
        """An operation took longer than that."""
        return self.end(
            "%s was not done after %.3g s, the timeout of its group, which is of no use from then "
            "on; see which rank did not call it, or give init_process_group or new_group a longer "
            "time"
            % (name, seconds)
        )


# ---- Works --------------------------------------------------------------------------------------


class _Keeper:
    """Works whose Python part must live on. Where torch's C++ holds a work it does not keep that,
    and without it waits for ever, or finds no future."""

    def __init__(self, least: int, most: int, most_bytes: int):
        self._least, self._most, self._most_bytes = least, most, most_bytes
        self._works: "Dict[int, Work]" = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, work: "Work") -> None:
        """Keep a work, and if there are too many let go of the first ones that are done."""
        gone = []  # dropped after the lock is free: what then runs may want it
        with self._lock:
            self._works[id(work)] = work
            self._bytes += work.bytes
            while self._has_too_many():
                oldest = next(iter(self._works.values()))
                if not oldest.may_go():
                    break
                gone.append(self._take(oldest))

    def remove(self, work: "Work") -> None:
        with self._lock:
            if id(work) in self._works:
                self._take(work)

    def works(self) -> "List[Work]":
        with self._lock:
            return list(self._works.values())

    def _has_too_many(self) -> bool:
        count = len(self._works)
        return count > self._least and (count > self._most or self._bytes > self._most_bytes)

    def _take(self, work: "Work") -> "Work":
        self._bytes -= work.bytes
        return self._works.pop(id(work))


# Those that nobody has waited for: of works that a program ignores, the last ones.
_pending = _Keeper(64, 4096, 1 << 26)
# Small ones that were waited for: C++ may ask for the future after its wait, as the join of
# DistributedDataParallel does for the number of ranks that go on.
_settled = _Keeper(0, 64, 1 << 22)
_SMALL_BYTES = 1 << 16
_LOOK_S = 0.1  # how often one that waits looks whether its group was aborted


def pending_of(limit: Limit) -> "List[Work]":
    """The collectives of a group that nobody has waited for. Messages are not among them: what they
    wait for may come later."""
    return [work for work in _pending.works() if work.limit is limit and work.is_collective]


def abort(limit: Limit) -> None:
    """End a group, and what is in flight of it: a thread that waits is told when it looks."""
    limit.is_aborted = True
    limit.end(
        "the group was aborted on this rank, and is of no use from then on; make another on all "
        "ranks, by new_group, or by destroy_process_group and init_process_group"
    )
    for work in _pending.works():
        if work.limit is limit:
            work.settle(0.0)


def _explained(error: Exception) -> Exception:
    """A rank that refuses its arguments has the others know by an operation of another kind, of
    which libhvd's sentence begins with the name."""
    if not isinstance(error, MismatchError) or not str(error).startswith('"'):
        return error
    return MismatchError(
        "%s; a rank that was given wrong arguments tells the others so by another operation, and "
        "its own error says what is wrong" % error
    )


class Work(dist.Work):
    """What torch gets for an operation. [store] puts its result where the caller wants it;
    [tensors] are those. It may take so many [seconds]."""

    is_collective = True

    def __init__(
        self,
        handle: "Union[hvd.Handle, SparseHandle, _Together]",
        tensors: List[torch.Tensor],
        store: Callable[[Any], Any],
        limit: Limit,
        seconds: float,
    ):
        super().__init__()
        self._handle, self._tensors, self._store = handle, tensors, store
        self._name = str(handle.name)
        self.limit, self._seconds, self._end = limit, seconds, time.monotonic() + seconds
        self._future: Optional[_Future] = None
        self._completes = threading.Lock()  # held for ever by the thread that completes the future
        self._lock = threading.Lock()
        self._is_settled = False  # its result is in its place, or its error known
        self._error: Optional[BaseException] = None
        self.device = next((each.device for each in tensors if each.is_cuda), None)
        self._ready: Any = None  # of tensors on a GPU: where the stream that waited first had them
        dense = [each for each in tensors if not each.is_sparse]
        self.bytes = sum(each.numel() * each.element_size() for each in dense)
        _pending.add(self)

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        seconds = seconds_of(timeout)
        if not self.settle(seconds):
            _job.expect_no_others(self._handle)
            raise WaitTimedOut(
                "%s is not done after a wait of %.3g s; it goes on, and may be waited for again"
                % (self._name, seconds)
            )
        if self._error is not None:
            raise self._error
        if self._ready is not None:
            torch.cuda.current_stream(self.device).wait_event(self._ready)
        return True

    def settle(self, seconds: Optional[float]) -> bool:
        """Wait at most so long, and put the result in its place. False: it is not done by then."""
        if self._is_settled:
            return True
        left = self._end - time.monotonic()
        waits = left if seconds is None else min(left, seconds)
        waits = max(0.0, min(waits, threading.TIMEOUT_MAX))
        if not self._lock.acquire(timeout=waits):
            return False
        try:
            if not self._is_settled and not self._try_settle(waits):
                return False
        finally:
            self._lock.release()
        _pending.remove(self)
        if self.bytes <= _SMALL_BYTES:
            _settled.add(self)
        return True

    def _try_settle(self, seconds: float) -> bool:
        try:
            if self._is_done_within(seconds):
                with torch.no_grad():
                    self._store(self._handle.wait())
                if self.device is not None:
                    self._ready = torch.cuda.current_stream(self.device).record_event()
            elif time.monotonic() < self._end and not self.limit.is_aborted:
                return False
            else:
                _job.expect_no_others(self._handle)
                self._error = self._error_of_limit()
        except (RuntimeError, ValueError) as error:
            self._error = self._explain(error)
        self._is_settled = True
        return True

    def _error_of_limit(self) -> HvdError:
        if self.limit.is_aborted:
            return self.limit.error()
        return self.limit.expire(self._name, self._seconds)

    def _is_done_within(self, seconds: float) -> bool:
        """Wait so long, unless the group is aborted meanwhile."""
        end = time.monotonic() + seconds
        while not self.limit.is_aborted and seconds > _LOOK_S:
            if self._handle.wait_for(_LOOK_S):
                return True
            seconds = end - time.monotonic()
        return self._handle.wait_for(0.0 if self.limit.is_aborted else max(0.0, seconds))

    def await_end(self) -> None:
        """Wait until libhvd is done with it, or its time is over."""
        left = self._end - time.monotonic()
        with contextlib.suppress(Exception):  # complete_future meets it again
            self._is_done_within(max(0.0, min(left, threading.TIMEOUT_MAX)))

    def may_go(self) -> bool:
        """Is it done, so that nobody waits for long?"""
        return self._is_settled or self._handle.done()

    def complete_future(self) -> None:
        """Complete the future, unless another thread does."""
        if not self._completes.acquire(blocking=False):
            return
        try:
            self.wait()
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)

    def end_within(self, seconds: float) -> None:
        """It may take so long from now on, in place of the group's timeout."""
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def get_future(self) -> _Future:
        if self._future is None:
            self._future = _Future(self, Callbacks(self._name))
            if self._is_settled:  # C++ takes the value at once, after its wait
                self.complete_future()
            else:
                self._complete_later()
        return self._future

    def _complete_later(self) -> None:
        _completer.add(self)

    def _explain(self, error: Exception) -> Exception:
        return _explained(error)

    def is_completed(self) -> bool:
        """Is it done? Then its result is in its place, also for those who do not wait."""
        return self._is_settled or (self._handle.done() and self.settle(0.0))

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()


class Message(Work):
    """A send or receive. In libhvd it has another tag than in torch where the members have several
    groups: [tags] are both. [member_of] makes a member of a rank of the job."""

    is_collective = False

    def __init__(
        self,
        handle: hvd.Handle,
        tensor: torch.Tensor,
        limit: Limit,
        tags: Tuple[int, int],
        member_of: Callable[[int], int],
    ):
        self._source: Optional[int] = None
        self._tags, self._member_of = tags, member_of
        super().__init__(handle, [tensor], self._arrived, limit, limit.seconds_for(None))
        self._name = self._with_tag_of_torch(self._name)

    def _arrived(self, source: Optional[int]) -> None:
        self._source = None if source is None else self._member_of(source)

    def _with_tag_of_torch(self, text: str) -> str:
        return text.replace("with tag %d" % self._tags[0], "with tag %d" % self._tags[1])

    def _explain(self, error: Exception) -> Exception:
        text = self._with_tag_of_torch(str(error))
        return error if text == str(error) else type(error)(text)

    def _complete_later(self) -> None:
        _completer.add_alone(self)

    def source_rank(self) -> int:
        """The member that sent what has been received."""
        if self._source is None:
            raise StateError("source_rank: %s has received nothing" % self._name)
        return self._source

    _source_rank = source_rank


class _Together:
    """Several works as the handle of one."""

    name = "a group of coalesced operations"

    def __init__(self, works: List[Work]):
        self._works = works

    def done(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def wait_for(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        return all(work.settle(max(0.0, end - time.monotonic())) for work in self._works)

    def wait(self) -> None:
        for work in self._works:
            work.wait()


class Coalesced(Work):
    """Several works as one, each of which has its own time."""

    is_collective = False  # those that are collectives are known themselves

    def __init__(self, works: List[Work], limit: Limit):
        tensors = [each for work in works for each in work.result()]
        super().__init__(_Together(works), tensors, lambda _: None, limit, float("inf"))

    def _complete_later(self) -> None:
        _completer.add_alone(self)
