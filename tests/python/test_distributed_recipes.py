"""What people build of torch.distributed, in small: each is held against one process that does all
of it. Pipelines and ring attention are in test_distributed_messages.py."""
import functools
import inspect
import itertools
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


def trained(model, batches, steps=4, kind=torch.optim.SGD):
    optimizer = kind(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(batches).pow(2).mean().backward()
        optimizer.step()


@pytest.fixture
def batches(size):
    return torch.randn(3 * size, 6, generator=torch.Generator().manual_seed(8))


def test_an_optimizer_whose_state_is_sharded_is_that_of_one_process(rank, size, batches):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kind = functools.partial(ZeroRedundancyOptimizer, optimizer_class=torch.optim.SGD)
    plain, ours = model_of(size), torch.nn.parallel.DistributedDataParallel(model_of(size))
    trained(ours, batches[3 * rank : 3 * rank + 3], kind=kind)
    trained(plain, batches)
    for found, wanted in zip(ours.parameters(), plain.parameters()):
        assert torch.allclose(found, wanted, atol=1e-5)


def test_gradients_that_a_hook_compresses(rank, size, batches):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    plain, ours = model_of(size), torch.nn.parallel.DistributedDataParallel(model_of(size))
    ours.register_comm_hook(None, default_hooks.fp16_compress_hook)
    ours(batches[3 * rank : 3 * rank + 3]).pow(2).mean().backward()
    plain(batches).pow(2).mean().backward()
    for found, wanted in zip(ours.parameters(), plain.parameters()):
        assert torch.allclose(found.grad, wanted.grad, atol=1e-3)


def test_ranks_with_more_batches_than_others(rank, size, batches):
    """Those that have no more take part in the allreduces of the others."""
    from torch.distributed.algorithms.join import Join

    ours = torch.nn.parallel.DistributedDataParallel(model_of(size))
    optimizer, steps = torch.optim.SGD(ours.parameters(), lr=0.1), []
    with Join([ours]):
        for _ in range(rank + 1):
            optimizer.zero_grad()
            ours(batches).pow(2).mean().backward()
            optimizer.step()
            steps.append(ours.module[0].weight.sum().item())
    every = [None] * size
    dist.all_gather_object(every, steps)
    assert [len(each) for each in every] == list(range(1, size + 1))
    assert all(each == every[-1][: len(each)] for each in every)


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


@pytest.fixture
def streams(monkeypatch):
    """What fully_shard calls, and torch 2.6 lacks on CPUs: nothing waits there."""
    in_torch("tensor", "2.5")
    stream = torch.cpu.Stream
    monkeypatch.setattr(stream, "record_event", lambda _: torch.cpu.Event(), raising=False)
    monkeypatch.setattr(stream, "wait_event", lambda *_: None, raising=False)


@pytest.mark.parametrize("replicas", [1, 2])
def test_fully_sharded_tensors_are_those_of_one_process(rank, size, batches, streams, replicas):
    """FSDP2: with replicas the ranks of one reduce their shares with those of the others."""
    from torch.distributed import fsdp

    shard = getattr(fsdp, "fully_shard", None)
    if shard is None or size % replicas:
        pytest.skip("torch 2.6 has fully_shard, and %d replicas take as many ranks" % replicas)
    shape, names = (replicas, size // replicas), ("replicas", "shares")
    mesh = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=names)
    mesh = mesh if replicas > 1 else mesh["shares"]
    plain, ours = model_of(size), model_of(size)
    for part in (ours[0], ours[2], ours):  # with True torch 2.6 fails on CPUs, with gloo as well
        shard(part, mesh=mesh, reshard_after_forward=False)
    trained(ours, batches[3 * rank : 3 * rank + 3])
    trained(plain, batches)
    for found, wanted in zip(ours.parameters(), plain.parameters()):
        assert found.to_local().numel() < wanted.numel() or size == replicas
        assert torch.allclose(found.full_tensor(), wanted, atol=1e-5)


# ---- Tensors that several ranks hold ------------------------------------------------------------


def placements_of(tensor, dimensions):
    """All ways to place a tensor of two dimensions over a mesh of so many."""
    each = [tensor.Shard(0), tensor.Shard(1), tensor.Replicate()]
    return itertools.product(each, repeat=dimensions)


@pytest.mark.parametrize("rows", [1, 2])
def test_tensors_go_from_each_placement_to_each_other(size, rows):
    tensor = in_torch("tensor", "2.5")
    if size % rows:
        pytest.skip("no mesh of %d rows has so many ranks" % rows)
    mesh = dist.device_mesh.init_device_mesh("cpu", (rows, size // rows))
    whole = torch.arange((2.0 * size + 1) * 5).view(2 * size + 1, 5)  # shards of several lengths
    for before in placements_of(tensor, 2):
        there = tensor.distribute_tensor(whole, mesh, before)
        for after in placements_of(tensor, 2):
            found = there.redistribute(mesh, after)
            assert found.placements == after
            expected = tensor.distribute_tensor(whole, mesh, after).to_local()
            assert torch.equal(found.to_local(), expected), (before, after)
            assert torch.equal(found.full_tensor(), whole), (before, after)


def test_partial_tensors_are_summed_where_they_go(rank, size):
    tensor, mesh = in_torch("tensor", "2.5"), mesh_of(range(size))
    part = torch.full((size, 3), rank + 1.0)
    there = tensor.DTensor.from_local(part, mesh, [tensor.Partial()])
    total = size * (size + 1) / 2
    for after, rows in ((tensor.Shard(0), 1), (tensor.Replicate(), size)):
        found = there.redistribute(mesh, [after]).to_local()
        assert found.tolist() == [[total] * 3] * rows


# ---- Attention ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rotation", ["ALL_TO_ALL", "ALL_GATHER"])
def test_torchs_ring_attention_is_that_of_one_process(rank, size, monkeypatch, rotation):
    """What context_parallel runs, which itself knows attention on GPUs alone."""
    attention = in_torch("tensor.experimental._attention", "2.6")
    ring = getattr(attention, "_templated_ring_attention", None)
    if ring is None or "seq_dim" not in inspect.signature(ring).parameters:
        pytest.skip("torch 2.6 has this function with these parameters")
    options = attention._cp_options
    monkeypatch.setattr(options, "rotate_method", attention._RotateMethod[rotation])
    monkeypatch.setattr(options, "enable_load_balance", False)
    one = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    torch.manual_seed(11)
    whole = [torch.randn(2, 3, 4 * size, 8) for _ in range(3)]
    mine = [each.chunk(size, dim=2)[rank] for each in whole]
    for causal in (False, True):
        found = ring(mesh_of(range(size)), 2, one, *mine, is_causal=causal)[0]
        expected = one(*whole, is_causal=causal)[0].chunk(size, dim=2)[rank]
        assert torch.allclose(found, expected, atol=1e-5)


# ---- Checkpoints --------------------------------------------------------------------------------


@pytest.fixture
def folder(rank):
    """A folder that all ranks use."""
    made = tempfile.TemporaryDirectory() if rank == 0 else None
    yield hvd.broadcast_object(made.name if made else None, 0, "folder")
    dist.barrier()
    if made:
        made.cleanup()


@pytest.mark.parametrize("change", ["fewer", "half", "more"])
def test_a_checkpoint_is_loaded_by_another_number_of_ranks(rank, size, folder, change):
    if size == 1:
        pytest.skip("one rank is no other number of ranks")
    tensor, checkpoint = in_torch("tensor", "2.5"), in_torch("checkpoint", "2.2")
    whole = torch.arange(4.0 * size).view(2 * size, 2) + 1
    changes = {"fewer": (size, size - 1), "half": (size, size // 2), "more": (size - 1, size)}
    numbers = changes[change]
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
