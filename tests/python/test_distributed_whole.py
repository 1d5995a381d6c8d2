"""Each function of torch's process groups is one of hvd's, or refuses: none does nothing."""
import datetime

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402
from hvd import _collectives, _group  # noqa: E402

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
    "broadcast", "gather", "name", "recv", "recv_anysource", "reduce", "reduce_scatter", "scatter",
    "send", "_end_coalescing", "_get_backend_name", "_get_sequence_number_for_group",
    "_set_sequence_number_for_group", "_start_coalescing",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def group():
    dist.init_process_group("hvd")
    yield dist.distributed_c10d._get_default_group()
    dist.barrier()
    dist.destroy_process_group()


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
    assert refusing(0, 1).barrier() == "kept" and not is_refusal(refusing.allreduce)


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
