"""hvd.elastic: training that goes on when ranks are lost or join, as in Horovod's elastic scripts.

    state = hvd.elastic.ObjectState(weights=weights, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < STEPS:
            ...
            state.step += 1
            state.commit()

    train(state)

The job is started by hvdrun --min-np. hvd.torch.elastic adds the state of models and optimizers."""
import copy
import ctypes
import functools
import os
import queue
from typing import Any, Callable, Dict, Iterable, List, Optional

from hvd import _abi, _flight, _job, _objects, _operations
from hvd._arrays import numpy_adapter
from hvd._library import lib
from hvd.errors import HvdError, RankLostError, ShutdownError, behind, check

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
    """Ranks wait to join, or a notice said that hosts have changed: raised on all ranks together by
    commit and check_host_updates, and caught by run. [skip_sync]: all members keep their state and
    nobody joins, so nothing has to be sent."""

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
        steps. Returns, or raises HostsUpdatedInterrupt, when all have saved it."""
        self.save()
        self.check_host_updates()
        self._losses = 0

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if ranks wait to join, or if any rank got a
        notice. Collective: all ranks call it after the same steps."""
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
    that join are behind the others, so rank 0 has it if anybody has."""
    skips, losses = _reduce("sync", [int(skip_sync), -state._losses], _operations.Min)
    state._losses = -losses
    if not skips:
        state.sync()


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

    Before the function is called the program runs no collectives, because ranks that join do not
    find anybody there. Process sets, persistent operations and handles end with their epoch: make
    process sets inside the function. DistributedOptimizer starts afresh, and forgets gradients that
    backward has computed since the last step."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        return _run_epochs(state, lambda: func(state, *args, **kwargs))

    return wrapper
