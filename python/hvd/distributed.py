"""The backend "hvd" of torch.distributed.

    import hvd.distributed
    torch.distributed.init_process_group("hvd")

The import is not needed where pip has installed the package and torch is 2.5 or later, which then
knows the backend (TORCH_DEVICE_BACKEND_AUTOLOAD=0 switches that off). import hvd.torch does it too.

Rank and size are those of the job that srun or hvdrun started; MASTER_ADDR and MASTER_PORT are
neither needed nor used. Tensors are in host memory, or on GPUs.

send and recv, their like and batches of them move tensors in host memory and on GPUs; those on
GPUs go through the host, and the two ends may differ in that. Tags are 0 to 1048574, and groups
with the same members have messages of their own; those of the first such group are the messages of
hvd.send and hvd.recv in its process set. Only the two ranks take part, and a barrier does not wait
for messages. One that is small is done when it is on its way; another one waits for its other end:
ranks that send to each other use isend, or batch_isend_irecv.

Sizes and types that the program states must be those that arrive; a list of outputs may have
tensors of different lengths. An operation must be done within the timeout of its group, which is
that of init_process_group or new_group: a wait ends with an error then, and the group is of no use
any more. A wait with a timeout of its own, work.wait(timedelta(...)), ends earlier, and may be
repeated. A rank that has seen an operation time out does not wait for the others when its program
ends.

monitored_barrier names the ranks that do not come. A group's method abort() ends it on this rank,
and every wait in it.

A group is created on all ranks of the job, and so is its process set; with
new_group(use_local_synchronization=True), and by split_group of a group that has not all ranks, on
its members alone. Members that have several such groups in common create them in the same order."""
import contextlib
import datetime
import functools
import sys
import threading
from typing import Any, Callable, Iterator, Optional, Sequence

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import hvd
from hvd import _buckets, _flight, _job
from hvd._group import ProcessGroupHvd
from hvd._rendezvous import (
    add_set_by_members,
    check_place,
    known_set,
    meet,
    rendezvous,
    rendezvous_env,
)
from hvd.elastic import start_next_epoch
from hvd.errors import DuplicateError, InvalidError, RankLostError, StateError, UnsupportedError

_new_group_set = threading.local()  # the process set of the group that torch creates now

# ---- Groups -------------------------------------------------------------------------------------


def _create(store: Any, rank: int, size: int, timeout: Any) -> ProcessGroupHvd:
    """What torch calls for a new group of the backend, on its members."""
    hvd.init()
    number = getattr(_new_group_set, "number", None)
    if number is None and size != hvd.size():
        raise StateError(
            "a group of %d of %d ranks: import hvd.distributed before new_group"
            % (size, hvd.size())
        )
    if number is None:
        check_place(rank, size)
    return ProcessGroupHvd(rank, size, number or 0, timeout)


def _is_hvd(backend: Any) -> bool:
    default = c10d._get_default_group()
    return (backend or dist.get_backend(default)).lower() == "hvd"


def _set_of(ranks: Sequence[int]) -> int:
    """The process set of these ranks. Collective over all ranks of the job."""
    if sorted(ranks) == list(range(hvd.size())):
        return 0
    try:
        return hvd.add_process_set(ranks).process_set_id
    except DuplicateError:
        return known_set(ranks)


def _set_of_members(ranks: Sequence[int], timeout: Any) -> int:
    """The same, collective over the members. All of them know the same sets."""
    number = known_set(ranks)
    return add_set_by_members("new_group", ranks, timeout) if number is None else number


@contextlib.contextmanager
def _meeting_by_hvd(call: str, timeout: Any, number: int = 0) -> Iterator[None]:
    """Within it ranks that have made a group meet by hvd, in process set [number]. torch's own way,
    by the store, waits for a rank that was lost as long as the group's timeout."""
    original = getattr(c10d, "_store_based_barrier", None)
    if original is None:
        yield
        return
    c10d._store_based_barrier = lambda *_, **__: meet(call, timeout, number)
    try:
        yield
    finally:
        c10d._store_based_barrier = original


# What creates groups, also for a DeviceMesh: since torch 2.0 a function behind new_group.
_HAS_TAGS = hasattr(c10d, "_new_group_with_tag")
_create_group = c10d._new_group_with_tag if _HAS_TAGS else c10d.new_group


def _new_group(
    ranks: Any = None,
    timeout: Any = None if _HAS_TAGS else c10d.default_pg_timeout,
    backend: Any = None,
    *args: Any,
    **kwargs: Any
) -> Any:
    """Creates a group, and before that its process set: that takes all ranks, and torch asks a
    backend on the members only."""
    if ranks is None or not _is_hvd(backend):
        return _create_group(ranks, timeout, backend, *args, **kwargs)
    members_only = kwargs.get("use_local_synchronization")
    if members_only and hvd.rank() not in ranks:
        return _create_group(ranks, timeout, backend, *args, **kwargs)
    if not kwargs.get("sort_ranks", True) and list(ranks) != sorted(ranks):
        raise UnsupportedError(
            "the members of a group of the backend hvd are in ascending order, not %s" % list(ranks)
        )
    if not members_only:
        meet("new_group", timeout)
    number = _set_of_members(ranks, timeout) if members_only else _set_of(ranks)
    _new_group_set.number = number
    try:
        with _meeting_by_hvd("new_group", timeout, number if members_only else 0):
            return _create_group(ranks, timeout, backend, *args, **kwargs)
    finally:
        _new_group_set.number = None


def _ranks_of(group: ProcessGroupHvd, members: Sequence[int]) -> Sequence[int]:
    """The job's ranks of these members."""
    for member in members:
        if not 0 <= member < group.size():
            raise InvalidError(
                "split_group: split_ranks has %d; expected members of the group, from 0 to %d"
                % (member, group.size() - 1)
            )
    return sorted(map(group.global_rank, members))


_split = getattr(c10d, "split_group", None)  # since torch 2.4
_barrier_of_gloo = c10d.monitored_barrier


def _split_group(
    parent_pg: Any = None,
    split_ranks: Optional[Sequence[Sequence[int]]] = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: Optional[str] = None,
    **kwargs: Any
) -> Any:
    """A group of each part of a group; returns the one that this rank is in. All ranks create those
    of a group that has all ranks; of others, which exist on its members alone, each its own."""
    parent = c10d._get_default_group() if parent_pg is None else parent_pg
    if not isinstance(parent, ProcessGroupHvd):
        return _split(parent_pg, split_ranks, timeout, pg_options, group_desc, **kwargs)
    if split_ranks is None:
        raise InvalidError("split_group: split_ranks is None; expected a list of lists of ranks")
    parts = [_ranks_of(parent, part) for part in split_ranks]
    members_only = parent.size() != hvd.size()
    wanted = [part for part in parts if hvd.rank() in part or not members_only]
    groups = [
        dist.new_group(
            part,
            timeout,
            "hvd",
            pg_options,
            use_local_synchronization=members_only,
            group_desc=group_desc,
        )
        for part in wanted
    ]
    own = [group for group, part in zip(groups, wanted) if hvd.rank() in part]
    return own[0] if own else None


def _monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Any:
    """torch's own refuses all backends but gloo."""
    found = c10d._get_default_group() if group is None else group
    if isinstance(found, ProcessGroupHvd):
        return found.monitored_barrier(timeout, wait_all_ranks)
    return _barrier_of_gloo(group, timeout, wait_all_ranks)


def reform(timeout: Optional[datetime.timedelta] = None) -> None:
    """Form the default group anew, of the ranks that the job has now: in an elastic job, after a
    rank was lost or others have joined. All ranks call it; those that join may call it in place of
    init_process_group.

    Where the group belongs to the epoch in which the job is, the next one begins first. Inside a
    function that hvd.elastic.run has called it has begun already. All groups that there were end:
    make others again, and wrap models in DistributedDataParallel again, which gives all ranks the
    parameters of rank 0, the oldest. [timeout] is that of init_process_group; None: as before."""
    group = c10d._get_default_group() if dist.is_initialized() else None
    if group is not None and not isinstance(group, ProcessGroupHvd):
        raise StateError(
            "reform: the default group is of the backend %s; expected hvd: only hvd knows which "
            "ranks are left" % dist.get_backend(group)
        )
    if timeout is None:
        timeout = getattr(group, "timeout", None) or c10d.default_pg_timeout
    begins = group is not None and group.job is _flight.current()
    while True:
        if dist.is_initialized():
            dist.destroy_process_group()
        if begins:
            start_next_epoch()
        try:
            return dist.init_process_group("hvd", timeout=timeout)
        except RankLostError:
            if not _job.is_elastic():
                raise
            begins = True


# ---- What torch is told of hvd -------------------------------------------------------------------


def _starting_by_hvd(original: Callable) -> Callable:
    """init_process_group, for which the backend hvd finds the ranks itself: a port that a launcher
    chose may still be in use by the process group before."""

    @functools.wraps(original)
    def init_process_group(
        backend: Any = None, init_method: Optional[str] = None, *args: Any, **kwargs: Any
    ) -> None:
        if str(backend).lower() != "hvd":
            return original(backend, init_method, *args, **kwargs)
        if kwargs.get("enable_reconfigure"):
            raise UnsupportedError(
                "init_process_group: the backend hvd has no enable_reconfigure, as the launcher "
                "decides which ranks form the next epoch: leave it out, and call "
                "hvd.distributed.reform() when ranks were lost or have joined"
            )
        store = kwargs.get("store", args[3] if len(args) > 3 else None)
        if init_method in (None, "env://") and store is None:
            init_method = "hvd://"
        timeout = kwargs.get("timeout", args[0] if args else None)
        with _meeting_by_hvd("init_process_group", timeout):
            return original(backend, init_method, *args, **kwargs)

    return init_process_group


def _put(name: str, function: Callable) -> None:
    """Put a function in place of torch's of that name, also where torch has imported that."""
    for place in (dist, c10d, sys.modules.get("torch.distributed.device_mesh")):
        if hasattr(place, name):
            setattr(place, name, function)


def _register() -> None:
    if not hasattr(dist.Backend, "register_backend"):
        raise ImportError(
            "hvd.distributed needs torch 1.13 or later with torch.distributed; this is %s"
            % torch.__version__
        )
    try:
        dist.Backend.register_backend("hvd", _create, devices=["cpu", "cuda"])
    except TypeError:  # before torch 2.0
        dist.Backend.register_backend("hvd", _create)
    dist.register_rendezvous_handler("hvd", rendezvous)
    handlers = getattr(sys.modules["torch.distributed.rendezvous"], "_rendezvous_handlers", {})
    if "env" in handlers:
        handlers["env"] = rendezvous_env(handlers["env"])
    found = c10d.init_process_group
    original = getattr(found, "without_hvd", found)  # what hvd_torch_backend put there calls this
    dist.init_process_group = c10d.init_process_group = _starting_by_hvd(original)
    _put("_new_group_with_tag" if _HAS_TAGS else "new_group", _new_group)
    _put("split_group", _split_group)
    _put("monitored_barrier", _monitored_barrier)


def buckets_in_window(wanted: bool) -> None:
    """Put buckets of DistributedDataParallel into memory that all ranks of the node reach
    (hvd_alloc), where they are reduced without copies? So it is for models that are wrapped after
    this module was imported; False leaves the buckets of later ones where torch puts them. A forked
    child shares such buckets with its parent: it must not compute gradients of the parent's
    model."""
    _buckets.wanted = wanted


_register()
_buckets.install()
