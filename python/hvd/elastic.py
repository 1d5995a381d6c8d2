"""hvd.elastic: training that goes on when ranks are lost or join, as in Horovod's elastic scripts.

    state = hvd.elastic.ObjectState(weights=weights, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < STEPS:
            ...
            state.step += 1
            state.commit()

    train(state)

The job is started by hvdrun --min-np. With --hvd-state-dir=DIR, which any job may have, commits
are written to disk too, and the same command, started again, goes on from the last one.
hvd.torch.elastic adds the state of models and optimizers."""
import copy
import ctypes
import functools
import os
import pickle
import queue
from typing import Any, Callable, Dict, Iterable, List, Optional

from hvd import _abi, _commits, _flight, _job, _objects, _operations
from hvd._arrays import numpy_adapter
from hvd._library import lib
from hvd.errors import (
    HvdError,
    MismatchError,
    RankLostError,
    ShutdownError,
    UnsupportedError,
    behind,
    check,
)

__all__ = [
    "HorovodInternalError",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "run",
]

HorovodInternalError = HvdError

_NEW_RANKS = _abi.ENUMS["hvd_status"]["HVD_NEW_RANKS"]
_LOSSES_MAX = 3  # epochs that end by an error, without a commit; as in hvd_elastic_run


class HostsUpdatedInterrupt(RuntimeError):
    """Ranks wait to join, or are to leave, or a notice said that hosts have changed: raised on all
    ranks together by commit and check_host_updates, and caught by run. [skip_sync]: all members
    keep their state and nobody joins, so nothing has to be sent."""

    def __init__(self, skip_sync: bool = False):
        super().__init__()
        self.skip_sync = skip_sync


class HostUpdateResult:
    """What a notice of changed hosts says, as bits."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


# ---- News of the launcher -----------------------------------------------------------------------


class _News:
    """Asks libhvd whether processes wait to join. The state of libhvd that it needs for it has no
    parts, and is made anew in each epoch: fixed memory, which such a state consists of, does not
    fit values of Python, whose size changes. So what is saved and restored is kept here."""

    def __init__(self) -> None:
        self._state = ctypes.c_uint64(0)
        self._job: Any = None  # to which it belongs

    def ask(self) -> bool:
        """Do processes wait to join? Collective; all ranks get the same answer."""
        if self._job is not _flight.current():
            self._begin()
        status = lib.hvd_state_check(self._state.value)
        if status not in (0, _NEW_RANKS):
            check(status)
        return status == _NEW_RANKS

    def tell_commit(self) -> None:
        """All ranks have saved their state: hvdinfo ps says when."""
        if self._job is _flight.current():
            check(lib.hvd_state_write(self._state.value, b"commit", None, 0))

    def _begin(self) -> None:
        if self._state.value != 0:
            check(lib.hvd_state_free(self._state.value))
            self._state.value = 0
        check(lib.hvd_state_create(ctypes.addressof(self._state)))
        check(lib.hvd_state_sync(self._state.value))
        self._job = _flight.current()


_news = _News()


def _reduce(name: str, numbers: List[int], op: Any) -> List[int]:
    """What all ranks together say; waits for them."""
    words = numpy_adapter().numpy.array(numbers, "int64")
    return [int(each) for each in _operations.allreduce(words, op, "hvd.elastic." + name)]


# ---- State --------------------------------------------------------------------------------------


class State:
    """What ranks have in common. A subclass says how it is saved, restored and sent; ObjectState
    and hvd.torch.elastic.TorchState do. [bcast_object] and [get_rank] are there for Horovod's
    scripts: hvd.broadcast_object and hvd.rank."""

    _losses = 0  # epochs that ended by an error since the last commit
    _is_new = True  # in this process; no other rank has sent its state yet
    _disk: Optional[_commits.Commits] = None  # on disk, while run does

    def __init__(
        self,
        bcast_object: Optional[Callable[..., Any]] = None,
        get_rank: Optional[Callable[[], int]] = None,
    ):
        self._bcast_object = bcast_object or _objects.broadcast_object
        self._rank = get_rank or _job.rank
        self._reset_callbacks: List[Callable[[], None]] = []
        self._host_messages: Any = queue.Queue()
        self._last_updated_timestamp = 0

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these at the start of each epoch but the first of this process, before the state is
        synchronised; hvd.size() is then that of the new epoch. They run no collectives, because
        ranks that join do not call them."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """A new epoch has begun: forget old notices, then reset() and the callbacks."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """A notice that hosts have changed, a HostUpdateResult. It counts at the next commit or
        check_host_updates, whichever rank got it."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Save the state, and see whether ranks wait to join. All ranks commit after the same
        steps. Returns, or raises HostsUpdatedInterrupt, when all have saved it. With
        --hvd-state-dir rank 0 then makes bytes of it, which a thread writes to disk."""
        self.save()
        try:
            self.check_host_updates()
        except HostsUpdatedInterrupt:
            self._write()
            raise
        self._write()
        self._losses = 0

    def _write(self) -> None:
        """All ranks have saved the same state: hand it to those who write it to disk."""
        if self._disk is not None and self._rank() == 0:
            self._disk.write(self.to_bytes())
        else:
            _news.tell_commit()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if ranks wait to join or are to leave, or if any
        rank got a notice. Collective: all ranks call it after the same steps."""
        update = self._take_notices()
        removed, added = HostUpdateResult.removed, HostUpdateResult.added
        found = _reduce("updates", [update & removed, update & added], _operations.Max)
        update = found[0] | found[1]
        if _news.ask():
            update |= added
        if update != HostUpdateResult.no_update:
            raise HostsUpdatedInterrupt(update == removed)

    def _take_notices(self) -> int:
        """What the notices since the last time say together."""
        update = HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, result = self._host_messages.get()
            if timestamp > self._last_updated_timestamp:
                self._last_updated_timestamp = timestamp
                update |= result
        return update

    def save(self) -> None:
        """Keep a copy of the state in this process."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to what was saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give all ranks the state of rank 0, and save it. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """A new epoch has begun: let go of what belonged to the old one. Local."""

    def to_bytes(self) -> bytes:
        """What was saved last, for --hvd-state-dir."""
        raise NotImplementedError

    def from_bytes(self, saved: bytes) -> None:
        """Save what to_bytes has returned, maybe in another process, and restore it."""
        raise NotImplementedError

    def _names(self) -> List[str]:
        """Of its values: a commit on disk must have the same."""
        return []


class ObjectState(State):
    """A state of values that are attributes: ObjectState(step=0) has state.step. They are copied
    deeply when they are saved, and travel as a pickle."""

    def __init__(
        self,
        bcast_object: Optional[Callable[..., Any]] = None,
        get_rank: Optional[Callable[[], int]] = None,
        **values: Any
    ):
        super().__init__(bcast_object, get_rank)
        self._saved_state: Dict[str, Any] = {}
        self._assign(values)
        self._saved_state = copy.deepcopy(values)

    def _assign(self, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def _values(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in self._saved_state}

    def save(self) -> None:
        self._saved_state = copy.deepcopy(self._values())

    def restore(self) -> None:
        self._assign(copy.deepcopy(self._saved_state))

    def to_bytes(self) -> bytes:
        return pickle.dumps(self._saved_state)

    def from_bytes(self, saved: bytes) -> None:
        self._saved_state = pickle.loads(saved)
        self.restore()

    def _names(self) -> List[str]:
        return list(self._saved_state)

    def sync(self) -> None:
        self._receive()
        self.save()

    def _receive(self) -> None:
        """Get the values of rank 0. What is saved stays what it was: if the sender is lost on the
        way, this rank still has a whole state."""
        if self._saved_state:
            values = self._bcast_object(self._values())
            if self._rank() != 0:
                self._assign(values)


# ---- Running ------------------------------------------------------------------------------------


def _synchronize(state: State, skip_sync: bool) -> None:
    """Whether the state is sent is decided over all ranks: if one needs it, all take part. Ranks
    that join are behind the others, so rank 0 has it if anybody has. If nobody has, it may be on
    disk."""
    words = [int(skip_sync), -state._losses, int(state._is_new)]
    skips, losses, all_new = _reduce("sync", words, _operations.Min)
    state._losses = -losses
    if skips:
        return
    is_read = bool(all_new) and _read_from_disk(state)
    state.sync()
    state._is_new = False
    if not is_read:
        state._write()


def _read_from_disk(state: State) -> bool:
    """Give rank 0 the last commit on disk. True there, if there was one."""
    if state._disk is None:
        return False
    saved, failure = state._disk.read(), ""
    if saved is not None:
        try:
            state.from_bytes(saved)
        except Exception as error:  # of whatever the program's values are
            failure = "%s: %s" % (type(error).__name__, error)
    if _reduce("disk", [int(failure != "")], _operations.Max)[0]:
        raise MismatchError(
            "hvd.elastic.run: the commit in --hvd-state-dir does not fit the state of this "
            "program: %s; start the program that wrote it, or name another folder"
            % (failure or "rank 0 says why")
        )
    return saved is not None


def _open_commits(state: State) -> Optional[_commits.Commits]:
    """For --hvd-state-dir; None without it."""
    if not _commits.are_written():
        return None
    if type(state).to_bytes is State.to_bytes:
        raise UnsupportedError(
            "hvd.elastic.run: --hvd-state-dir: %s has no methods to_bytes and from_bytes, by which "
            "its commits are written to disk; add them, or start the job without that option"
            % type(state).__name__
        )
    return _commits.Commits(state._names())


def _tell_place() -> None:
    """This rank's place in the epoch, in the variables that Horovod's scripts read."""
    if not _job.is_elastic():
        return
    place = {
        "RANK": _job.rank(),
        "SIZE": _job.size(),
        "LOCAL_RANK": _job.local_rank(),
        "LOCAL_SIZE": _job.local_size(),
        "CROSS_RANK": _job.cross_rank(),
        "CROSS_SIZE": _job.cross_size(),
    }
    os.environ.update(("HOROVOD_" + name, str(value)) for name, value in place.items())


def start_next_epoch() -> None:
    """Leave this epoch for the next one. Another rank may be lost while that begins."""
    while True:
        _job.shutdown()
        try:
            _job.init()
            return _tell_place()
        except RankLostError:
            if not _job.is_elastic():
                raise


def _go_back(state: State, error: HvdError) -> None:
    """This epoch has ended by an error. Raises it if there is no next one."""
    lost = isinstance(error, RankLostError)
    of_program = type(error) is HvdError  # which raises HorovodInternalError by itself
    if not (of_program or isinstance(error, ShutdownError) or (lost and _job.is_elastic())):
        raise error
    state._losses += 1
    if state._losses >= _LOSSES_MAX:
        raise type(error)(
            "hvd.elastic.run: %d epochs ended by an error, without a commit in between; commit "
            "more often, or see why ranks fail; the last error: %s" % (_LOSSES_MAX, error)
        ) from error
    state.restore()


def _run_epochs(state: State, train: Callable[[], Any]) -> Any:
    _job.init()
    _tell_place()
    state._disk = _open_commits(state)
    try:
        return _run_each_epoch(state, train)
    finally:
        if state._disk is not None:
            state._disk.close()
            state._disk = None


def _run_each_epoch(state: State, train: Callable[[], Any]) -> Any:
    state._losses, skip_sync, is_first = 0, False, True
    while True:
        try:
            if not is_first:
                state.on_reset()
            _synchronize(state, skip_sync)
            return train()
        except HostsUpdatedInterrupt as update:
            state.save()  # a loss while ranks join costs no step
            state._losses, skip_sync = 0, update.skip_sync
        except RuntimeError as error:
            found = behind(error)
            if not isinstance(found, HvdError):
                raise
            _go_back(state, found)
            skip_sync = False
        is_first = False
        start_next_epoch()


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that trains, func(state, ...): it is called again in each epoch, and
    finds in the state how far training is.

    At the start of an epoch all ranks get the state of rank 0, which is the oldest. When a rank is
    lost the others go back to the last commit, and are the next epoch; when ranks wait to join,
    commit and check_host_updates raise HostsUpdatedInterrupt, and nothing is lost. Other exceptions
    end the program. After three epochs that ended by an error, without a commit in between, the
    last error is raised. A loss is raised at once if the launcher cannot go on without a rank;
    hvdrun can, with --min-np.

    With --hvd-state-dir, if no rank has a state yet, rank 0 begins with the last commit on disk;
    and when this returns, its last commit has reached the disk. A program that calls run for
    several states does so in the same order each time.

    Before the function is called the program runs no collectives, because ranks that join do not
    find anybody there. Process sets, persistent operations and handles end with their epoch: make
    process sets inside the function. DistributedOptimizer starts afresh, and forgets gradients that
    backward has computed since the last step."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        return _run_epochs(state, lambda: func(state, *args, **kwargs))

    return wrapper
