"""Each function of torch's process groups is one of hvd's, or refuses: none does nothing."""
import datetime
import gc
import inspect
import os
import threading
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402
from hvd import _collectives, _group, _untraced  # noqa: E402

pytestmark = pytest.mark.usefixtures("group")

Group = _group.ProcessGroupHvd
BASE = dist.ProcessGroup
FUNCTIONS = sorted(
    name
    for name in set(dir(BASE)) - set(dir(object))
    if callable(getattr(BASE, name)) and not isinstance(getattr(BASE, name), type)
)
# what torch's class does by itself, and what is only another name of what hvd has
OF_TORCH = {
    "_backend_id", "_get_backend", "_id", "_pybind11_conduit_v1_", "_register_backend",
    "_set_default_backend", "_set_group_desc", "_set_group_name", "boxed", "get_backend",
    "get_group_store", "rank", "size", "unbox",
}  # fmt: skip
# what hvd must have on each torch
IMPLEMENTED = {
    "allgather", "allgather_coalesced", "allreduce", "allreduce_coalesced", "alltoall", "barrier",
    "broadcast", "gather", "monitored_barrier", "name", "recv", "recv_anysource", "reduce",
    "reduce_scatter", "scatter", "send", "_end_coalescing", "_get_backend_name",
    "_get_sequence_number_for_group", "_set_sequence_number_for_group", "_start_coalescing",
}  # fmt: skip


def is_refusal(function):
    return getattr(function, "__name__", "") == "refuse"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_works_or_refuses(group, name):
    function = getattr(Group, name)
    if function is getattr(BASE, name):
        new = {old: new for new, old in _collectives.OLD_NAMES.items()}.get(name)
        assert name in OF_TORCH or hasattr(BASE, new)
    elif is_refusal(function):
        assert name not in IMPLEMENTED
        with pytest.raises(hvd.UnsupportedError, match="the backend hvd has no %s; use" % name):
            getattr(group, name)(torch.ones(1), timeout=1)


def test_what_hvd_has():
    assert IMPLEMENTED <= {name for name in FUNCTIONS if not is_refusal(getattr(Group, name))}


def test_a_new_function_refuses():
    class Newer(dist.ProcessGroup):
        def teleport(self):
            return "nothing was moved"

        def reconfigure(self, opts):
            return "nothing was formed"

    class Ours(_collectives.Collectives, Newer):
        def barrier(self):
            return "kept"

    refusing = type("Refusing", (Ours,), {})
    original, dist.ProcessGroup = dist.ProcessGroup, Newer
    try:
        _group._refusing_the_rest(refusing)
    finally:
        dist.ProcessGroup = original
    with pytest.raises(hvd.UnsupportedError, match="hvd has no teleport"):
        refusing(0, 1).teleport()
    with pytest.raises(hvd.UnsupportedError, match=r"no reconfigure; call hvd.distributed.reform"):
        refusing(0, 1).reconfigure(None)
    assert refusing(0, 1).barrier() == "kept" and not is_refusal(refusing.allreduce)


def test_groups_of_handles_are_refused(group):
    assert group.supports_reconfigure is False
    with pytest.raises(hvd.UnsupportedError, match=r"leave it out, and call hvd.distributed.refor"):
        dist.init_process_group("hvd", enable_reconfigure=True)
    dist.barrier()  # the group that was there goes on


def both_names():
    return type("Both", (), {name: lambda self, name=name: name for name in _collectives.OLD_NAMES})


@pytest.mark.parametrize("known", [True, False])
def test_no_class_has_both_names_of_a_pair(known):
    """torch refuses such a class; it calls the new one where it has that."""

    class Torch:
        pass

    for name in _collectives.OLD_NAMES if known else ():
        setattr(Torch, name, None)
    kind = _collectives.named_as_in(Torch)(both_names())
    for name, old in _collectives.OLD_NAMES.items():
        assert (hasattr(kind, name), hasattr(kind, old)) == (known, not known)
        assert getattr(kind(), name if known else old)() == name
        assert (name in vars(Group) or old in vars(Group)) is False
        assert (name in vars(_collectives.Collectives)) == hasattr(BASE, name)


def test_places_and_accounts(group, rank, size):
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    dist.broadcast(torch.ones(1), 0)
    assert group._get_sequence_number_for_group() == before + 2
    outputs = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(outputs, torch.full((1,), float(rank)), async_op=True)
    group._wait_for_pending_works()
    assert [each.item() for each in outputs] == list(range(size))
    assert (group._has_hooks(), group.shutdown()) == (False, None)


def test_gather_into_one_tensor(group, rank, size):
    gather = getattr(group, "gather_single", None) or group.gather_into_tensor
    output, options = torch.zeros(size, 2), dist.GatherOptions()
    options.rootRank = size - 1
    gather(output, torch.full((2,), rank + 1.0), options).wait()
    assert output[:, 1].tolist() == [(i + 1.0) * (rank == size - 1) for i in range(size)]
    with pytest.raises(hvd.HvdError):
        gather(torch.zeros(2 * size + 1), torch.ones(2), options).wait()


@pytest.mark.parametrize("place", ["last", "named"])
def test_short_forms_with_a_timeout(group, rank, size, place):
    if size == 1:
        pytest.skip("one rank waits for nobody")
    there = dist.new_group()
    limit = datetime.timedelta(seconds=0.2 if rank == 0 else 60)
    forms = {
        "last": lambda: there.broadcast(torch.ones(1), 0, limit),
        "named": lambda: there.allreduce(torch.ones(1), dist.ReduceOp.SUM, timeout=limit),
    }
    if rank == 0:
        with pytest.raises(RuntimeError, match="was not done after 0.2 s"):
            forms[place]().wait()
    hvd.barrier()
    if rank:
        forms[place]().wait()
    hvd.barrier()
    there.set_timeout(datetime.timedelta(seconds=9))
    assert there.limit.seconds == 9


# ---- By way of C++ ------------------------------------------------------------------------------


def waited(result):
    """The tensors of a functional collective, which are there once somebody looks at them."""
    many = result if isinstance(result, (list, tuple)) else [result]
    return [each.clone().tolist() for each in many]


def functional_results(functional, group, rank, size):
    mine, rows = torch.full((2,), rank + 1.0), torch.arange(2.0 * size).view(size, 2)
    total = size * (size + 1) / 2
    every = [[each + 1.0] * 2 for each in range(size)]
    gathered = [number for row in every for number in row]
    share = [2.0 * rank, 2.0 * rank + 1]
    total_share = [[size * each for each in share]]
    evenly = [1] * size
    return [
        (functional.all_reduce(mine, "sum", group), [[total] * 2]),
        (functional.all_reduce_coalesced([mine, mine[:1]], "sum", group), [[total] * 2, [total]]),
        (functional.all_gather_tensor(mine, 0, group), [gathered]),
        (functional.all_gather_into_tensor_coalesced([mine, mine], group), [gathered] * 2),
        (functional.reduce_scatter_tensor(rows, "sum", 0, group), [total_share]),
        (functional.reduce_scatter_tensor_coalesced([rows], "sum", [0], group), [total_share]),
        (functional.all_to_all_single(rows, evenly, evenly, group), [[share] * size]),
        (functional.broadcast(mine, size - 1, group), [[size] * 2]),
    ]  # fmt: skip


def test_functional_collectives(group, rank, size):
    """C++ asks the group for these, by its name."""
    name = "torch.distributed._functional_collectives"
    functional = pytest.importorskip(name, reason="torch 2 has functional collectives")
    for i, (found, expected) in enumerate(functional_results(functional, group, rank, size)):
        assert waited(found) == expected, i


def test_tensors_that_several_ranks_hold(rank, size):
    """DTensor shards, gathers and reduces by them."""
    reason = "torch 2.5 has torch.distributed.tensor"
    tensor = pytest.importorskip("torch.distributed.tensor", reason=reason)
    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    whole = torch.arange(4.0 * size).view(2 * size, 2)
    there = tensor.distribute_tensor(whole, mesh, [tensor.Shard(0)])
    assert there.to_local().tolist() == whole[2 * rank : 2 * rank + 2].tolist()
    assert there.full_tensor().tolist() == whole.tolist()
    assert float(there.sum().full_tensor()) == float(whole.sum())


def test_a_compiled_model(rank, size):
    """torch leaves hvd's functions as they are, which a compiled model calls."""
    pytest.importorskip("torch._dynamo", reason="torch 2 compiles")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        model.zero_grad()
        compiled(torch.full((1, 3), rank + 1.0)).sum().backward()
        assert model.module.weight.grad.tolist() == [[(size + 1) / 2] * 3]


def test_torch_leaves_all_functions_of_the_package_alone():
    folder = os.path.join(os.path.dirname(hvd.__file__), "")
    functions = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
    there = {each.__code__ for each in functions if each.__code__.co_filename.startswith(folder)}
    found = list(_untraced._codes_of("hvd"))
    assert len(there) > 100 and there <= set(found) and len(found) == len(set(map(id, found)))
    assert all(each.co_filename.startswith(folder) for each in found)


# ---- Groups that end, and parts of groups -------------------------------------------------------


@pytest.mark.parametrize("group", [None, dist.group.WORLD])
def test_a_monitored_barrier_is_a_barrier(rank, size, group):
    for _ in range(3):
        assert dist.monitored_barrier(group, datetime.timedelta(seconds=60)) is None
    some = dist.new_group(sorted({0, size - 1}))
    dist.monitored_barrier(some, wait_all_ranks=True)
    last = torch.full((1,), float(rank))
    if rank:
        dist.send(last, 0, tag=2)
    dist.monitored_barrier()  # passes by messages that others have not received yet
    for each in range(1, size) if rank == 0 else ():
        dist.recv(last, each, tag=2)
        assert last.item() == each


@pytest.mark.parametrize("absent", ["first", "last"])
def test_a_monitored_barrier_names_those_that_do_not_come(rank, size, absent):
    if size == 1:
        pytest.skip("one rank waits for nobody")
    group, missing = dist.new_group(), 0 if absent == "first" else size - 1
    match = "barrier: rank %d did not call it within its timeout, .*; the group is of" % missing
    limit = datetime.timedelta(seconds=0.5)
    if rank != missing:
        with pytest.raises(hvd.TimedOutError, match=match):
            dist.monitored_barrier(group, limit)
        with pytest.raises(hvd.TimedOutError, match=match):
            group.send([torch.ones(1)], 0, 0)
    hvd.barrier()
    if rank == missing and rank:  # the others have gone
        with pytest.raises(hvd.TimedOutError, match=match):
            dist.monitored_barrier(group, datetime.timedelta(seconds=60))
    elif rank == missing:
        others = ", ".join(str(each) for each in range(1, size))
        with pytest.raises(hvd.TimedOutError, match="rank %s did not call" % others):
            dist.monitored_barrier(group, limit)
    hvd.barrier()
    if missing == 0 and rank:  # so that nothing is left at the end
        hvd.send(torch.empty(0), 0, group._tag_base + _group._BARRIER_TAG)
    dist.monitored_barrier()  # other groups go on


def test_a_monitored_barrier_of_gloo_is_that_of_gloo(rank, size):
    dist.monitored_barrier(dist.new_group(backend="gloo"))


def test_an_aborted_group(rank, size):
    """A wait in another thread ends as well. The others are not told, and may wait on."""
    if size == 1:
        pytest.skip("one rank waits for nobody")
    group, total, into = dist.new_group(), torch.ones(1), torch.zeros(1)
    match = "the group was aborted on this rank"
    if rank == 0:
        work = dist.all_reduce(total, group=group, async_op=True)
        message, errors, begins = group.recv([into], 1, 0), [], threading.Event()

        def wait():
            begins.set()
            try:
                work.wait()
            except hvd.StateError as error:
                errors.append(str(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        begins.wait()
        group.abort()
        waiting.join(60)
        assert len(errors) == 1 and match in errors[0]
        for call in (work.wait, message.wait, work.get_future().wait, lambda: reduced(group)):
            with pytest.raises(hvd.StateError, match=match):
                call()
    hvd.barrier()
    if rank:
        dist.all_reduce(torch.ones(1), group=group)  # rank 0 has submitted it
        with pytest.raises(hvd.MismatchError, match="rank 0 "):
            reduced(group)
    if rank == 1:
        group.send([torch.ones(1)], 0, 0)
    dist.all_reduce(total)  # other groups go on


def reduced(group):
    dist.all_reduce(torch.ones(1), group=group)


def split(*arguments, **named):
    if not hasattr(dist, "split_group"):
        pytest.skip("torch 2.4 has split_group")
    return dist.split_group(*arguments, **named)


def test_parts_of_a_group(group, rank, size):
    part = split(split_ranks=[[each] for each in range(size)], group_desc="alone")
    assert dist.device_mesh.split_group is dist.split_group  # for groups bound to a device
    assert (part.size(), part.group_desc) == (1, "alone")
    part = split(group, [[*range(size)][::-1]], datetime.timedelta(seconds=9))
    total = torch.ones(1)
    dist.all_reduce(total, group=part)
    assert (total.item(), part.limit.seconds) == (size, 9)
    assert (split(group, [[0]]) is None) == (rank != 0)
    with pytest.raises(hvd.InvalidError, match="expected a list of lists of ranks"):
        split(group)
    with pytest.raises(hvd.InvalidError, match="expected members of the group"):
        split(group, [[0], [size]])


# ---- Groups that only their members create ------------------------------------------------------


def by_members(ranks):
    return dist.new_group(ranks, use_local_synchronization=True)


members_alone = pytest.mark.skipif(
    "use_local_synchronization" not in inspect.signature(dist.new_group).parameters,
    reason="torch 2.1 has use_local_synchronization",
)


def forget_sets():
    """The process sets of earlier tests."""
    for number in hvd.process_set_ids()[1:]:
        known = hvd.ProcessSet(hvd.process_set_ranks(number))
        known.process_set_id = number
        hvd.remove_process_set(known)


@members_alone
@pytest.mark.parametrize("barrier", [False, True])
def test_later_groups_take_their_members_alone(rank, size, monkeypatch, barrier):
    monkeypatch.setenv("TORCH_DIST_INIT_BARRIER", str(int(barrier)))  # of the members only
    some = sorted({0, size - 1})
    first = dist.new_group(some)
    if rank in some:
        groups = [first, by_members(some[::-1]), by_members(some)]
        totals = [torch.full((1,), 10.0**i) for i in range(3)]
        order = range(3) if rank == 0 else (2, 0, 1)  # of works, which names tell apart
        works = {i: dist.all_reduce(totals[i], group=groups[i], async_op=True) for i in order}
        messages = [torch.full((1,), float(i)) for i in range(3)]
        for i in order if size > 1 else ():
            if rank == 0:
                dist.send(messages[i], size - 1, groups[i], tag=5)
            else:
                dist.recv(messages[i].zero_(), 0, groups[i], tag=5)
        for i in range(3):
            works[i].wait()
            assert totals[i].item() == len(some) * 10.0**i and messages[i].item() == i
    else:
        assert by_members(some) in (None, dist.GroupMember.NON_GROUP_MEMBER)
    last = dist.new_group(some)  # all ranks again, after some have counted more groups
    if rank in some:
        total = torch.ones(1)
        dist.all_reduce(total, group=last)
        assert total.item() == len(some)


@members_alone
def test_the_first_group_takes_its_members_alone(rank, size):
    everyone = by_members([*range(size)])  # whose process set is always there
    total = torch.ones(1)
    dist.all_reduce(total, group=everyone)
    assert total.item() == size
    forget_sets()
    # the sets of even and odd ranks come in any order, and no rank asks for another's
    own = [*range(rank % 2, size, 2)]
    group = by_members(own)
    total = torch.full((1,), float(rank))
    dist.all_reduce(total, group=group)
    assert total.item() == sum(own)
    forget_sets()
    assert hvd.process_set_ids() == [0]


def test_parts_of_a_part_of_the_ranks(rank, size):
    if size == 1:
        pytest.skip("one rank has no part of the ranks")
    if not hasattr(dist, "split_group"):
        pytest.skip("torch 2.4 has split_group")
    forget_sets()
    last, upper = [size - 1], [*range(1, size)]
    parent = dist.new_group(upper)
    if rank in upper:  # rank 0 takes no part
        part = split(parent, [[size - 2]], group_desc="last")
        assert (part is None) == (rank not in last)
        total = torch.ones(1)
        whole = split(parent, [[*range(size - 1)]])
        dist.all_reduce(total, group=whole)
        assert (whole.members, total.item()) == (upper, size - 1)
        if rank in last:
            assert (part.members, part.group_desc) == (last, "last")
