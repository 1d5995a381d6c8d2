"""The methods of torch's process groups that hvd has, by the names that torch calls."""
import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402
from hvd import _collectives, _group  # noqa: E402

Group = _group.ProcessGroupHvd
BASE = dist.ProcessGroup


@pytest.fixture(scope="module", autouse=True)
def group():
    dist.init_process_group("hvd")
    yield dist.distributed_c10d._get_default_group()
    dist.barrier()
    dist.destroy_process_group()


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


def test_gather_into_one_tensor(group, rank, size):
    gather = getattr(group, "gather_single", None) or group.gather_into_tensor
    output, options = torch.zeros(size, 2), dist.GatherOptions()
    options.rootRank = size - 1
    gather(output, torch.full((2,), rank + 1.0), options).wait()
    assert output[:, 1].tolist() == [(i + 1.0) * (rank == size - 1) for i in range(size)]
    with pytest.raises(hvd.HvdError):
        gather(torch.zeros(2 * size + 1), torch.ones(2), options).wait()


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
