"""The job: init and shutdown, ranks, process sets, timeline and stopping."""
import atexit
import ctypes
import json
import os
import sys
import time
import traceback
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from hvd import _abi, _calls, _flight, _names, _plans
from hvd._library import lib
from hvd.errors import HvdError, InvalidError, RankLostError, StateError, as_int, behind, check

_RANK_LOST = _abi.ENUMS["hvd_status"]["HVD_ERR_RANK_LOST"]
_ended_by_exception = False
_last_place: Optional[Tuple[int, int]] = None
_overdue: List[Any] = []  # handles of operations that timed out
# what starts afresh when a job or the next epoch of an elastic one has begun
at_start: List[Callable[[], None]] = [_names.forget, _plans.forget, _calls.forget]
# what ends with the program, after this rank has left the job, if it does
at_end: List[Callable[[], None]] = []


def _ranks_of(ranks_or_comm: Any) -> List[int]:
    """The launcher's ranks in a list, or those of an mpi4py communicator."""
    if hasattr(ranks_or_comm, "Get_group"):
        from mpi4py import MPI

        group = ranks_or_comm.Get_group()
        ranks = MPI.Group.Translate_ranks(
            group, list(range(group.Get_size())), MPI.COMM_WORLD.Get_group()
        )
        return list(ranks)
    return [as_int("a rank", rank) for rank in ranks_or_comm]


class ProcessSet:
    """Some ranks of the job, which run operations among themselves. Known to hvd from
    add_process_set, or from init(process_sets=...), until remove_process_set or shutdown."""

    def __init__(self, ranks_or_comm: Union[Sequence[int], Any]):
        self.process_set_id: Optional[int] = None
        self.ranks: Optional[List[int]] = _ranks_of(ranks_or_comm)

    def _begin(self, number: int) -> None:
        """It is known to hvd by this number."""
        self.process_set_id = number
        self.ranks = process_set_ranks(number)
        _known_sets.add(self)

    def _require_id(self) -> int:
        if self.process_set_id is None:
            raise StateError(
                "process set %s is not known to hvd; pass it to add_process_set or init first, and "
                "again after shutdown or in the next epoch of an elastic job" % self.ranks
            )
        return self.process_set_id

    def size(self) -> Optional[int]:
        """The number of members; None if the set is not known to hvd."""
        return None if self.process_set_id is None else lib.hvd_set_size(self.process_set_id)

    def rank(self) -> Optional[int]:
        """This rank's place among the members; None if the set is not known to hvd; -1 if it is no
        member."""
        return None if self.process_set_id is None else lib.hvd_set_rank(self.process_set_id)

    def included(self) -> Optional[bool]:
        """Is this rank a member? None if the set is not known to hvd."""
        return None if self.process_set_id is None else self.rank() >= 0

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProcessSet)
            and self.process_set_id == other.process_set_id
            and self.ranks == other.ranks
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "ProcessSet(process_set_id=%s, ranks=%s)" % (self.process_set_id, self.ranks)


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0
_known_sets: "weakref.WeakSet[ProcessSet]" = weakref.WeakSet()  # and some that were removed


def set_id(process_set: Union[ProcessSet, int, None]) -> int:
    """The number of a process set; None is all ranks."""
    if process_set is None or process_set is global_process_set:
        return 0
    if isinstance(process_set, ProcessSet):
        return process_set._require_id()
    if isinstance(process_set, int):
        return as_int("process_set", process_set)
    raise InvalidError("process_set=%r: expected a ProcessSet or its number" % (process_set,))


def _int_array(numbers: Sequence[int]):
    return (ctypes.c_int * max(len(numbers), 1))(*numbers)


# ---- Start and end ------------------------------------------------------------------------------


def _make_start(job: Sequence[int], sets: Sequence[ProcessSet], keep: List[Any]) -> _abi.Start:
    ranks = _int_array(job)
    lists = (_abi.Ranks * max(len(sets), 1))()
    keep.extend([ranks, lists])
    for i, each in enumerate(sets):
        members = _int_array(each.ranks or [])
        keep.append(members)
        lists[i] = _abi.Ranks(ctypes.addressof(members), len(each.ranks or []))
    whole = _abi.Ranks(ctypes.addressof(ranks) if job else None, len(job))
    return _abi.Start(whole, ctypes.addressof(lists), len(sets))


def is_elastic() -> bool:
    """Can the launcher go on without a rank that is lost?"""
    return "HVD_EPOCHS" in os.environ


def _is_newcomer() -> bool:
    """Was this process started in place of one that ended?"""
    return os.environ.get("HVD_EPOCHS", "").endswith(" newcomer")


def _join(start: _abi.Start) -> None:
    """The epoch that a newcomer is to join may lose a rank as it begins: then it joins the next."""
    while True:
        status = lib.hvd_init_with(ctypes.addressof(start))
        if status != _RANK_LOST or not _is_newcomer():
            return check(status)


def init(
    comm: Any = None, process_sets: Optional[Sequence[Union[ProcessSet, Sequence[int]]]] = None
) -> None:
    """Join the job that srun, hvdrun, mpirun, jsrun or the environment describes. Collective. Does
    nothing when initialised already. [comm]: the launcher's ranks that form this job, as a list or
    an mpi4py communicator; None: all. [process_sets]: sets to create, by ranks of this job."""
    if is_initialized():
        return
    named = [] if process_sets is None or isinstance(process_sets, str) else process_sets
    sets = [each if isinstance(each, ProcessSet) else ProcessSet(each) for each in named]
    keep: List[Any] = []
    start = _make_start([] if comm is None else _ranks_of(comm), sets, keep)
    _join(start)
    for i, each in enumerate(sets):
        each._begin(i + 1)
    global_process_set.ranks = list(range(size()))
    _keep_place()
    _flight.begin()
    for begin_afresh in at_start:
        begin_afresh()


def _keep_place() -> None:
    global _last_place
    _last_place = (rank(), size())


def last_place() -> Optional[Tuple[int, int]]:
    """This process's rank and the job's size since the last init, also after shutdown; None before
    the first."""
    return _last_place


def _end_sets() -> None:
    """Process sets end with the job, or with their epoch of an elastic one."""
    global_process_set.ranks = []
    for each in list(_known_sets):
        each.process_set_id = None
    _known_sets.clear()


def shutdown() -> None:
    """Leave the job. Collective; operations that are still pending on any rank end with
    ShutdownError. In an elastic job it is no error that a rank was lost: the others may be the next
    epoch, after init."""
    if not is_initialized():
        return
    status = lib.hvd_shutdown()
    _flight.end()
    _end_sets()
    if status != _RANK_LOST or not is_elastic():
        check(status)


def is_initialized() -> bool:
    return bool(lib.hvd_is_initialized())


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def _in_library(file: str) -> bool:
    packages = ("site-packages", "dist-packages")
    return (
        file.startswith(("<frozen ", _STANDARD_LIBRARY))
        or os.path.abspath(file).startswith(_PACKAGE)
        or any(folder in file.split(os.sep) for folder in packages)
    )


def _call_stack(kind: type, value: BaseException, trace: Any) -> str:
    """The traceback down to the program's last call of a library, such as torch or this one: its
    last line is the place that the launcher shows; a line inside a library would help little."""
    frames = traceback.extract_tb(trace)
    own = [i for i, frame in enumerate(frames) if not _in_library(frame.filename)]
    frames = frames[: own[-1] + 1] if own else frames
    lines = ["Traceback (most recent call last):\n"] + traceback.format_list(frames)
    return "".join(lines + traceback.format_exception_only(kind, value))


def write_error_file(kind: type, value: BaseException, trace: Any) -> None:
    """Tell the launcher which exception ended the program, in the format of torch.distributed's
    elastic launcher, whose variable names the file. It stays as it is where the program has written
    it already."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or (os.path.exists(path) and os.path.getsize(path) > 0):
        return
    details = {
        "py_callstack": _call_stack(kind, value, trace),
        "timestamp": str(int(time.time())),
    }
    report = {"message": "%s: %s" % (kind.__name__, value), "extraInfo": details}
    try:
        with open(path, "w") as file:
            json.dump({"message": report}, file)
    except OSError:
        pass  # the traceback on standard error says it too


def _watch_exceptions() -> None:
    """Remember that an exception ends the program. Then the process ends without shutdown, so that
    the launcher and the other ranks see which rank failed first. A rank that ends because another
    one was lost says so in a line, so that the first rank's traceback stays in sight."""
    previous = sys.excepthook

    def hook(kind, value, trace):
        global _ended_by_exception
        _ended_by_exception = True
        if issubclass(kind, Exception):
            write_error_file(kind, value, trace)
        found = behind(value)
        if isinstance(found, RankLostError) and previous is sys.__excepthook__:
            sys.stderr.write("%s: %s\n" % (type(found).__name__, found))
        else:
            previous(kind, value, trace)

    sys.excepthook = hook


def expect_no_others(handle: Any) -> None:
    """An operation has timed out. Unless the other ranks come to it later, this rank does not wait
    for them when the program ends."""
    if handle not in _overdue:
        _overdue.append(handle)


def _leave() -> None:
    """Leave the job. Nobody can catch an exception here: why that failed is said in a line."""
    if not is_initialized() or _ended_by_exception:
        return
    if not all(handle.done() for handle in _overdue):
        sys.stderr.write(
            "hvd.shutdown at exit: an operation that timed out is still in flight, so this rank "
            "does not wait for the others\n"
        )
        return
    try:
        shutdown()
    except HvdError as error:
        sys.stderr.write("hvd.shutdown at exit: %s: %s\n" % (type(error).__name__, error))


def _at_exit() -> None:
    _leave()
    for function in at_end:
        function()


_watch_exceptions()
atexit.register(_at_exit)

# ---- Who am I -----------------------------------------------------------------------------------


def _known(number: int) -> int:
    if number < 0:
        raise StateError("hvd is not initialised; call hvd.init() first")
    return number


def rank() -> int:
    """This process's rank in the job."""
    return _known(lib.hvd_rank())


def size() -> int:
    """The number of ranks in the job."""
    return _known(lib.hvd_size())


def local_rank() -> int:
    """This rank's place among the ranks of its node."""
    return _known(lib.hvd_local_rank())


def local_size() -> int:
    """The number of ranks on this node."""
    return _known(lib.hvd_local_size())


def cross_rank() -> int:
    """This node's number."""
    return _known(lib.hvd_node_rank())


def cross_size() -> int:
    """The number of nodes."""
    return _known(lib.hvd_node_count())


node_rank = cross_rank
node_count = cross_size


def is_homogeneous() -> bool:
    """Have all nodes equally many ranks? Collective the first time."""
    from hvd import _objects

    return _objects.all_equal(local_size())


def version() -> str:
    """The version of libhvd."""
    return lib.hvd_version().decode()


# ---- Process sets -------------------------------------------------------------------------------


def add_process_set(
    process_set: Union[ProcessSet, Sequence[int]], by_members: bool = False
) -> ProcessSet:
    """Create a process set. Collective over all ranks of the job; all pass the same ranks.

    With [by_members] only its members call, all with the same ranks; the others do nothing, and do
    not know the set. Members that have several sets in common add these in the same order."""
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    number = ctypes.c_int(-1)
    ranks = _int_array(added.ranks or [])
    add = lib.hvd_set_add_by_members if by_members else lib.hvd_set_add
    check(add(ctypes.addressof(ranks), len(added.ranks or []), ctypes.addressof(number)))
    _names.begin_anew(number.value)  # an earlier set of that number had other members
    added._begin(number.value)
    return added


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set. Collective over all ranks of the job, or over the members that have
    added it by themselves. False if there is no such set."""
    if process_set.process_set_id is None or lib.hvd_set_size(process_set.process_set_id) < 0:
        return False
    if process_set.process_set_id == 0:
        raise InvalidError("the set of all ranks cannot be removed")
    check(lib.hvd_set_remove(process_set.process_set_id))
    process_set.process_set_id = None
    return True


def process_set_ranks(number: int) -> List[int]:
    """The members of a process set, by its number."""
    count = _known_set(number, lib.hvd_set_size(number))
    ranks = _int_array([0] * count)
    lib.hvd_set_ranks(number, ctypes.addressof(ranks), count)
    return list(ranks)[:count]


def _known_set(number: int, count: int) -> int:
    if count < 0:
        raise InvalidError("there is no process set %d" % number)
    return count


def process_set_ids() -> List[int]:
    """The numbers of all process sets."""
    count = _known(lib.hvd_set_list(None, 0))
    numbers = _int_array([0] * count)
    lib.hvd_set_list(ctypes.addressof(numbers), count)
    return list(numbers)[:count]


# ---- Stopping, observing ------------------------------------------------------------------------


def request_stop() -> None:
    """Ask the job to stop: the next should_stop is true on all ranks. The request ends with the
    job, in shutdown. Allowed in signal handlers."""
    lib.hvd_request_stop()


def should_stop() -> bool:
    """Has any rank called request_stop, or received the stop signal? Collective; all ranks get the
    same answer."""
    stop = ctypes.c_int(0)
    check(lib.hvd_should_stop(ctypes.addressof(stop)))
    return bool(stop.value)


def start_timeline(folder: str) -> None:
    """Write a timeline of this rank into a folder, until stop_timeline."""
    check(lib.hvd_timeline_start(os.fsencode(folder)))


def stop_timeline() -> None:
    check(lib.hvd_timeline_stop())
