"""Torch's tensors on a GPU: hvd.torch, streams, torch's allocator, graphs, and the backend of
torch.distributed. For a real GPU, on any number of ranks, which may share it: tests/gpu/gpu-check
runs this file."""
import copy

import pytest

torch = pytest.importorskip("torch")

if not torch.cuda.is_available():
    pytest.skip("needs a GPU that torch sees", allow_module_level=True)

import torch.distributed as dist  # noqa: E402

import hvd as engine  # noqa: E402
import hvd.distributed  # noqa: E402
import hvd.torch as hvd  # noqa: E402

COUNT = 1 << 20  # elements of a tensor that the GPU is at work on for a while
BUSY = 20000000  # of the GPU's cycles: about 10 ms


@pytest.fixture(scope="module", autouse=True)
def device(job):
    number = engine.local_rank() % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def total_of(size, step=0):
    """The sum of rank + step over the ranks."""
    return size * (size - 1) // 2 + size * step


def is_full(tensor, value):
    return bool((tensor == value).all())


# ---- Operations ---------------------------------------------------------------------------------

TYPES = ["uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("name", TYPES)
def test_operations(rank, size, device, name):
    mine = torch.full((size, 3), rank + 1, device=device).to(getattr(torch, name))
    assert is_full(hvd.allreduce(mine, op=hvd.Sum), size * (size + 1) // 2)
    assert is_full(hvd.allreduce(mine, op=hvd.Max), size)
    assert is_full(hvd.broadcast(mine, size - 1), size)
    gathered = hvd.allgather(mine[:1].repeat(rank + 1, 1))
    assert gathered.device == device and gathered.dtype == mine.dtype
    assert gathered[:, 0].tolist() == [each + 1 for each in range(size) for _ in range(each + 1)]
    assert hvd.alltoall(mine)[:, 0].tolist() == list(range(1, size + 1))
    assert is_full(hvd.reducescatter(mine, op=hvd.Sum), size * (size + 1) // 2)
    assert hvd.allreduce_(mine, op=hvd.Min) is mine and is_full(mine, 1)


def test_averages_factors_and_groups(rank, size, device):
    mine = torch.full((1000,), float(rank), device=device)
    assert torch.allclose(hvd.allreduce(mine), torch.full_like(mine, (size - 1) / 2))
    scaled = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=2, postscale_factor=3)
    assert is_full(scaled, 6 * total_of(size))
    packed = hvd.allreduce(mine, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert packed.dtype == torch.float32 and is_full(packed, total_of(size))
    several = [torch.full((i * 37 + 1,), float(rank + i), device=device) for i in range(50)]
    hvd.grouped_allreduce_(several, op=hvd.Sum)
    assert all(is_full(each, total_of(size, i)) for i, each in enumerate(several))


def test_layouts(rank, size, device):
    base = torch.arange(12.0, device=device).reshape(3, 4) + rank
    total = torch.arange(12.0, device=device).reshape(3, 4) * size + total_of(size)
    assert torch.equal(hvd.allreduce(base.t(), op=hvd.Sum), total.t())
    hvd.allreduce_(base[:, ::2], op=hvd.Sum)
    assert torch.equal(base[:, ::2], total[:, ::2]) and float(base[0, 1]) == 1 + rank
    assert hvd.allreduce(torch.zeros(0, 3, device=device)).shape == (0, 3)


def test_memory_that_nccl_registers(rank, size, device):
    mine = engine.alloc_tensor((2, 300), torch.float32, device)
    for step in range(3):
        mine.fill_(rank + step)
        assert hvd.allreduce_(mine, name="registered", op=hvd.Sum) is mine
        assert is_full(mine, total_of(size, step))


# ---- Streams, and torch's allocator -------------------------------------------------------------


def test_a_side_stream_waits_and_is_waited_for(rank, size, device):
    side = torch.cuda.Stream()
    totals = []
    with torch.cuda.stream(side):
        for step in range(10):
            mine = torch.zeros(COUNT, device=device)
            torch.cuda._sleep(BUSY)
            mine.fill_(rank + step)  # after the submission of this, before hvd's own work
            totals.append(hvd.allreduce(mine, op=hvd.Sum) * 2)
    side.synchronize()
    assert all(is_full(each, 2 * total_of(size, step)) for step, each in enumerate(totals))


def test_a_result_may_be_waited_for_in_another_stream(rank, size, device):
    side = torch.cuda.Stream()
    for step in range(10):
        torch.cuda._sleep(BUSY)
        mine = torch.full((COUNT,), float(rank + step), device=device)
        handle = hvd.allreduce_async(mine, op=hvd.Sum)
        with torch.cuda.stream(side):
            doubled = hvd.synchronize(handle) * 2
        side.synchronize()
        assert is_full(doubled, 2 * total_of(size, step))


def test_memory_that_the_program_gives_back(rank, size, device):
    """torch's allocator gives the memory of a dropped tensor to the next one of the stream; not
    while hvd reads or writes it."""
    side = torch.cuda.Stream()
    kept = []
    for step in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(BUSY)
            mine = torch.full((COUNT,), float(rank + step), device=device)
            handle = hvd.allreduce_async(mine, op=hvd.Sum)
            del mine
            other = torch.full((COUNT,), -1.0, device=device)
            total = hvd.synchronize(handle)
            kept.append(total.clone())
            del total
            other.fill_(-2)
        del other
    side.synchronize()
    assert all(is_full(each, total_of(size, step)) for step, each in enumerate(kept))


def test_results_that_are_recorded_in_other_streams(rank, size, device):
    side = torch.cuda.Stream()
    kept = []
    for step in range(20):
        rows = hvd.allgather(torch.full((1000, 10), float(step), device=device))
        side.wait_stream(torch.cuda.current_stream())
        rows.record_stream(side)
        with torch.cuda.stream(side):
            torch.cuda._sleep(BUSY)
            kept.append(rows + 0)
        del rows
        torch.full((1000 * size, 10), -1.0, device=device)
    side.synchronize()
    assert all(is_full(each, step) for step, each in enumerate(kept))


def test_handles_that_are_dropped(rank, size, device):
    for step in range(50):
        mine = torch.full((COUNT // 8,), -1.0, device=device)
        hvd.allreduce_async(mine, name="dropped%d" % step)
    engine.barrier()
    assert is_full(hvd.allreduce(torch.ones(10, device=device), op=hvd.Sum), size)


def test_a_graph(rank, size, device):
    if size > torch.cuda.device_count():
        pytest.skip("ranks share a GPU: only NCCL carries what a graph holds")
    tensors = [torch.zeros(100, device=device), torch.zeros(7, 3, device=device)]
    total = engine.allreduce_init(tensors, engine.Sum, outs=tensors)
    graph = torch.cuda.CUDAGraph()
    for each in tensors:
        each.add_(0)  # torch loads its kernels before
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for each in tensors:
            each.add_(rank)
        total.start()
    for step in range(3):
        for each in tensors:
            each.fill_(step)
        graph.replay()
        torch.cuda.synchronize()
        assert all(is_full(each, total_of(size, step)) for each in tensors)
    del graph
    total.free()
    assert is_full(hvd.allreduce(torch.ones(3, device=device), op=hvd.Sum), size)


# ---- Training -----------------------------------------------------------------------------------


def make_model(device):
    torch.manual_seed(3)
    layers = torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 5)
    return torch.nn.Sequential(*layers).to(device)


def make_data(size, device):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(8 * size, 20, generator=generator).to(device)


def train(model, optimizer, data, steps=5):
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).pow(2).mean().backward()
        optimizer.step()


def expect_like_one_process(trained, size, device):
    """The same steps with the data of all ranks."""
    alone = make_model(device)
    train(alone, torch.optim.SGD(alone.parameters(), lr=0.1), make_data(size, device))
    for one, other in zip(trained.parameters(), alone.parameters()):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5)


SETTINGS = [{}, {"groups": 2}, {"gradients_in_window": False}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_optimizer(rank, size, device, settings):
    model = make_model(device)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters(), **settings)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    train(model, optimizer, make_data(size, device)[rank * 8 : rank * 8 + 8])
    expect_like_one_process(model, size, device)


@pytest.fixture
def group(device):
    dist.init_process_group("hvd", init_method="env://")
    yield
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


def test_the_backend(rank, size, device, group):
    mine = torch.full((COUNT,), float(rank), device=device)
    torch.cuda._sleep(BUSY)
    work = dist.all_reduce(mine, async_op=True)
    work.wait()
    assert is_full(mine, total_of(size))
    dist.broadcast(mine, 0)
    parts = [torch.empty(10, device=device) for _ in range(size)]
    dist.all_gather(parts, torch.full((10,), float(rank), device=device))
    assert all(is_full(each, number) for number, each in enumerate(parts))
    future = dist.all_reduce(torch.ones(10, device=device), async_op=True).get_future()
    assert is_full(future.then(lambda done: done.value()[0] * 2).wait(), 2 * size)


@pytest.mark.parametrize("view", [False, True])
def test_ddp(rank, size, device, group, view):
    model = make_model(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(
        copy.deepcopy(model), device_ids=[device.index], gradient_as_bucket_view=view
    )
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    train(wrapped, optimizer, make_data(size, device)[rank * 8 : rank * 8 + 8])
    expect_like_one_process(wrapped.module, size, device)


def test_ddp_in_a_side_stream(rank, size, device, group):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        wrapped = torch.nn.parallel.DistributedDataParallel(make_model(device))
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        train(wrapped, optimizer, make_data(size, device)[rank * 8 : rank * 8 + 8])
    side.synchronize()
    expect_like_one_process(wrapped.module, size, device)


# ---- Messages -----------------------------------------------------------------------------------


@pytest.fixture
def ends(rank, size):
    """The ranks to which this one sends, and from which it receives."""
    if size == 1:
        pytest.skip("torch sends nothing to the rank itself")
    return (rank + 1) % size, (rank - 1) % size


def test_messages(rank, size, device):
    right, left = (rank + 1) % size, (rank - 1) % size
    for shape in ((), (0,), (3, 2), (COUNT,)):
        theirs = torch.full(shape, -1.0, device=device)
        sent = engine.isend(torch.full(shape, float(rank), device=device), right)
        assert engine.recv(theirs) == left and is_full(theirs, left)
        sent.wait()
    here, theirs = torch.zeros(3), torch.zeros(4, 6, device=device)
    messages = [engine.Recv(here, left), engine.Recv(theirs[:, ::2], left)]
    messages += [engine.Send(torch.full((3,), rank + 1.0, device=device), right)]
    messages += [engine.Send(torch.full((4, 3), rank + 1.0), right)]
    assert engine.exchange(messages) == [left, left, right, right]
    assert is_full(here, left + 1) and is_full(theirs[:, ::2], left + 1) and theirs[0, 1] == 0


def test_a_message_takes_what_its_stream_has_computed(rank, size, device):
    """And what is received is not written before that, nor read too soon."""
    side = torch.cuda.Stream()
    right, left = (rank + 1) % size, (rank - 1) % size
    with torch.cuda.stream(side):
        for step in range(10):
            mine, theirs = torch.zeros(COUNT, device=device), torch.ones(COUNT, device=device)
            torch.cuda._sleep(BUSY)
            mine.fill_(rank + step)
            before = theirs * 2
            engine.exchange([engine.Send(mine, right, step), engine.Recv(theirs, left, step)])
            after = theirs * 2
            mine.fill_(-1.0)
            side.synchronize()
            assert is_full(before, 2) and is_full(after, 2 * (left + step))


def test_send_and_recv_of_the_backend(rank, size, device, group, ends):
    for shape in ((3, 2), (0,), (COUNT,)):
        theirs = torch.full(shape, -1.0, device=device)
        work = dist.isend(torch.full(shape, float(rank), device=device), ends[0], tag=3)
        assert dist.recv(theirs, ends[1], tag=3) == ends[1] and is_full(theirs, ends[1])
        work.wait()
        received = dist.irecv(theirs, ends[1])
        dist.isend(torch.full(shape, rank + 9.0, device=device), ends[0]).wait()
        received.wait()
        assert is_full(theirs, ends[1] + 9)
    if rank == 0:
        found = [dist.recv(theirs) for _ in range(size - 1)]
        assert sorted(found) == list(range(1, size))
    else:
        dist.send(torch.full((COUNT,), float(rank), device=device), 0)


def test_one_end_is_in_host_memory(rank, size, device, group, ends):
    """As where the first stage of a pipeline is on the CPU."""
    place, other = (device, "cpu") if rank % 2 else ("cpu", device)
    theirs = torch.zeros(1000, device=other)
    work = dist.isend(torch.full((1000,), rank + 1.0, device=place), ends[0])
    dist.recv(theirs, ends[1])
    work.wait()
    assert is_full(theirs, ends[1] + 1)


def test_batches_of_messages(rank, size, device, group, ends):
    for step in range(5):
        mine = torch.full((COUNT,), float(rank + step), device=device)
        theirs = torch.zeros_like(mine)
        operations = [dist.P2POp(dist.isend, mine, ends[0])]
        operations.append(dist.P2POp(dist.irecv, theirs, ends[1]))
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert is_full(theirs, ends[1] + step)


def test_a_pipeline(rank, size, device, group, ends):
    """Each rank is a stage that adds its number; batches follow each other, forward and back."""
    batches = 8
    given = [torch.full((64, 64), float(each), device=device) for each in range(batches)]
    works, outputs = [], []
    for batch in given:
        if rank > 0:
            batch = torch.empty_like(batch)
            dist.recv(batch, rank - 1)
        outputs.append(batch + rank)
        if rank < size - 1:
            works.append(dist.isend(outputs[-1], rank + 1))
    assert all(is_full(each, i + sum(range(rank + 1))) for i, each in enumerate(outputs))
    for each in reversed(outputs):
        gradient = torch.ones_like(each)
        if rank < size - 1:
            dist.recv(gradient, rank + 1)
        gradient *= 2
        if rank > 0:
            works.append(dist.isend(gradient, rank - 1))
        assert is_full(gradient, 2 ** (size - rank))
    for work in works:
        work.wait()
