"""What people build of torch.distributed, in small: each is held against one process that does all
of it. Pipelines and ring attention are in test_distributed_messages.py."""
import os
import tempfile

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402

pytestmark = pytest.mark.usefixtures("group")


def in_torch(module, version):
    reason = "torch %s has %s" % (version, module)
    return pytest.importorskip("torch.distributed." + module, reason=reason)


def mesh_of(ranks):
    in_torch("tensor", "2.5")
    return dist.device_mesh.DeviceMesh("cpu", list(ranks))


# ---- Experts ------------------------------------------------------------------------------------


class Exchange(torch.autograd.Function):
    """Rows to other ranks; their gradients go the way back."""

    @staticmethod
    def forward(context, rows, sent, received):
        context.splits = sent, received
        result = rows.new_empty(sum(received), rows.size(1))
        dist.all_to_all_single(result, rows.contiguous(), received, sent)
        return result

    @staticmethod
    def backward(context, gradient):
        sent, received = context.splits
        return Exchange.apply(gradient, received, sent), None, None


def expert_of(number):
    torch.manual_seed(20 + number)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5))


def through_experts(tokens, choices, expert, size):
    """Each token goes to the rank of the expert that its choice names, and its result comes back
    to the token's place."""
    order = torch.argsort(choices)
    sent = torch.bincount(choices, minlength=size)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    sent, received = sent.tolist(), received.tolist()
    there = Exchange.apply(tokens[order], sent, received)
    back = Exchange.apply(expert(there), received, sent)
    return torch.empty_like(back).index_copy(0, order, back)


def tokens_of(rank, size, busy):
    """Each rank has another number of tokens; with [busy] all choose one expert."""
    torch.manual_seed(40 + rank)
    choices = torch.randint(size, (9 + rank,))
    return torch.randn(9 + rank, 5), torch.zeros_like(choices) + size - 1 if busy else choices


@pytest.mark.parametrize("busy", [False, True])
def test_experts_on_several_ranks_are_those_of_one(rank, size, busy):
    expert, (tokens, choices) = expert_of(rank), tokens_of(rank, size, busy)
    tokens.requires_grad_()
    result = through_experts(tokens, choices, expert, size)
    result.pow(2).sum().backward()
    whole = [expert_of(each) for each in range(size)]
    for other in range(size):
        theirs, chosen = tokens_of(other, size, busy)
        theirs.requires_grad_()
        expected = torch.stack([whole[c](t) for t, c in zip(theirs, chosen.tolist())])
        expected.pow(2).sum().backward()
        if other == rank:
            assert torch.allclose(result, expected, atol=1e-6)
            assert torch.allclose(tokens.grad, theirs.grad, atol=1e-5)
    for mine, wanted in zip(expert.parameters(), whole[rank].parameters()):
        none = torch.zeros_like(mine)  # of an expert that nobody chose
        found, expected = (none if each is None else each for each in (mine.grad, wanted.grad))
        assert torch.allclose(found, expected, atol=1e-4)


# ---- Sharded models -----------------------------------------------------------------------------


def model_of(size):
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 4 * size), torch.nn.ReLU(), torch.nn.Linear(4 * size, 2)
    )


def trained(model, batches, steps=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(batches).pow(2).mean().backward()
        optimizer.step()


@pytest.fixture
def batches(size):
    return torch.randn(3 * size, 6, generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_fully_sharded_training_is_that_of_one_process(rank, size, batches, strategy):
    in_torch("tensor", "2.5")  # before, FSDP wants a GPU
    from torch.distributed import fsdp

    kind, cpu = getattr(fsdp.ShardingStrategy, strategy), torch.device("cpu")
    wrap = fsdp.FullyShardedDataParallel
    plain, ours = model_of(size), model_of(size)
    ours[0], ours[2] = (wrap(ours[i], sharding_strategy=kind, device_id=cpu) for i in (0, 2))
    ours = wrap(ours, sharding_strategy=kind, device_id=cpu)
    trained(ours, batches[3 * rank : 3 * rank + 3])
    trained(plain, batches)
    with wrap.summon_full_params(ours):
        for found, wanted in zip(ours.parameters(), plain.parameters()):
            assert torch.allclose(found, wanted, atol=1e-5)


def test_tensor_parallel_training_is_that_of_one_process(rank, size, batches):
    """The first layer by columns, the second by rows: one allreduce in each direction."""
    tensor, mesh = in_torch("tensor", "2.5"), mesh_of(range(size))
    parallel = in_torch("tensor.parallel", "2.5")
    ways = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    plain, ours = model_of(size), model_of(size)
    parallel.parallelize_module(ours, mesh, ways)
    assert ours[0].weight.to_local().shape == (4, 6)
    trained(plain, batches)
    trained(ours, batches)
    for found, wanted in zip(ours.parameters(), plain.parameters()):
        whole = found.full_tensor() if isinstance(found, tensor.DTensor) else found
        assert torch.allclose(whole, wanted, atol=1e-5)


# ---- Checkpoints --------------------------------------------------------------------------------


@pytest.fixture
def folder(rank):
    """A folder that all ranks use."""
    made = tempfile.TemporaryDirectory() if rank == 0 else None
    yield hvd.broadcast_object(made.name if made else None, 0, "folder")
    dist.barrier()
    if made:
        made.cleanup()


@pytest.mark.parametrize("fewer", [True, False])
def test_a_checkpoint_is_loaded_by_another_number_of_ranks(rank, size, folder, fewer):
    if size == 1:
        pytest.skip("one rank is no other number of ranks")
    tensor, checkpoint = in_torch("tensor", "2.5"), in_torch("checkpoint", "2.2")
    whole = torch.arange(4.0 * size).view(2 * size, 2) + 1
    numbers = (size, size - 1) if fewer else (size - 1, size)
    meshes = [mesh_of(range(number)) for number in numbers]

    def state_on(mesh, values, step):
        return {"w": tensor.distribute_tensor(values, mesh, [tensor.Shard(0)]), "step": step}

    for mesh, number, last in zip(meshes, numbers, (False, True)):
        if rank < number and not last:
            state = state_on(mesh, whole, 7)
            checkpoint.save(state, checkpoint_id=folder, process_group=mesh.get_group())
        elif rank < number:
            state = state_on(mesh, torch.zeros_like(whole), 0)
            checkpoint.load(state, checkpoint_id=folder, process_group=mesh.get_group())
            assert state["w"].full_tensor().tolist() == whole.tolist() and state["step"] == 7
        dist.barrier()


# ---- Large messages -----------------------------------------------------------------------------

LARGE = 3 * 10**9


def available():
    """The bytes of memory that programs may use now."""
    with open("/proc/meminfo") as file:
        kilobytes = [line.split()[1] for line in file if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024


def test_a_message_of_3_gb(rank, size):
    """Its bytes are more than 32 bits count."""
    if size == 1 or "LARGE_MESSAGES" not in os.environ:
        pytest.skip("two ranks with LARGE_MESSAGES=1 send it, with 12 GB of memory")
    if hvd.allreduce(torch.tensor([available()]), op=hvd.Min).item() < 4 * LARGE:
        pytest.skip("it wants 12 GB of memory, of which fewer are free")
    if rank == 0:
        message = torch.ones(LARGE, dtype=torch.uint8)
        message[-1] = 7
        dist.send(message, 1)
    elif rank == 1:
        into = torch.zeros(LARGE, dtype=torch.uint8)
        assert dist.recv(into, 0) == 0
        assert (into[0].item(), into[2**31].item(), into[-1].item()) == (1, 1, 7)
        assert into[:-1].min().item() == 1
