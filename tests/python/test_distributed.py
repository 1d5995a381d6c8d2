"""The backend hvd of torch.distributed, and DistributedDataParallel on it."""
import contextlib
import copy
import os
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402
from hvd import _rendezvous, _work  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def group():
    for _ in range(3):  # the port of hvdrun's MASTER_PORT would still be in use
        dist.init_process_group("hvd", init_method="env://")
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    with pytest.raises(hvd.StateError, match="torch was told rank 7 of %d, but" % hvd.size()):
        dist.init_process_group("hvd", rank=7, world_size=hvd.size())
    dist.init_process_group("hvd", rank=hvd.rank(), world_size=hvd.size())
    yield
    dist.barrier()
    dist.destroy_process_group()


def test_rendezvous(rank, size):
    """Later torch versions say -1 for what they were not told."""
    kept = []  # rank 0's is the server that the others connect to
    for told in ("", "?rank=-1&world_size=%d" % size, "?rank=%d&world_size=-1" % rank):
        kept.append(next(_rendezvous.rendezvous("hvd://" + told)))
        assert kept[-1][1:] == (rank, size)
    dist.barrier()


def test_places(rank, size):
    assert dist.get_backend() == "hvd"
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)


def test_groups_are_found_by_name(rank, size):
    name = "torch.distributed._functional_collectives"
    functional = pytest.importorskip(name, reason="torch 2 looks for groups by their names")
    total = functional.all_reduce(torch.full((2,), rank + 1.0), "sum", dist.group.WORLD)
    assert float(total[0]) == size * (size + 1) / 2


def test_reductions(rank, size):
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.uint8):
        mine = torch.full((3, 2), rank + 1).to(dtype)
        dist.all_reduce(mine)
        assert float(mine[0, 0]) == size * (size + 1) / 2
    for op, expected in ((dist.ReduceOp.MIN, 1), (dist.ReduceOp.MAX, size)):
        mine = torch.tensor([rank + 1.0])
        work = dist.all_reduce(mine, op=op, async_op=True)
        work.wait()
        assert work.is_completed() and float(mine) == expected
    mine = torch.tensor([rank + 1.0])
    dist.reduce(mine, dst=size - 1)
    assert float(mine) == (size * (size + 1) / 2 if rank == size - 1 else rank + 1)
    premultiplied = torch._C._distributed_c10d._make_nccl_premul_sum(2.0)
    with pytest.raises(hvd.UnsupportedError, match="no reduction PREMUL_SUM; expected"):
        dist.all_reduce(torch.ones(1), op=premultiplied)
    two = [torch.ones(2), torch.ones(3)]
    dist.all_reduce_coalesced(two)
    assert float(two[1][2]) == size


def test_futures(rank, size):
    mine = torch.tensor([float(rank)])
    future = dist.all_reduce(mine, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert float(doubled.wait()) == 2 * sum(range(size))


def test_callbacks_submit_and_wait(rank, size):
    """As those of PowerSGD do. Ranks run them sooner or later, also between other operations."""

    def follow(done):
        total = done.value()[0]
        dist.all_reduce(total, async_op=True).get_future().then(lambda _: 0).wait()
        return dist.all_reduce(total.clone(), async_op=True).get_future().wait()[0]

    for turn in range(20):
        first, others = torch.ones(1), [torch.full((1,), float(i)) for i in range(5)]
        future = dist.all_reduce(first, async_op=True).get_future()
        if (turn + rank) % 2:  # then callbacks run at once, in this thread
            future.wait()
        last = future.then(follow).then(lambda done: dist.all_reduce(done.value()) or done.value())
        for each in others:
            dist.all_reduce(each)
        assert float(last.wait()) == size**4
        assert [float(each) for each in others] == [i * size for i in range(5)]
    failed = future.then(lambda _: {}["absent"]).then(lambda done: done.value())
    with pytest.raises(KeyError):
        failed.wait()


def test_futures_on_a_gpu(rank, size, monkeypatch):
    """A stream of the completing thread waits, not the program's, which waits for that when it
    waits for the work. Streams and tensors are stand-ins: what counts is who is told to wait."""
    told, current = [], threading.local()

    class Stream:
        def __init__(self, name):
            self.name = str(name)

        def record_event(self):
            return "end in " + self.name

        def wait_event(self, event):
            told.append((self.name, event))

    class Handle:
        name = "operation"

        def wait_for(self, seconds):
            return True

        def wait(self):
            told.append(("operation", stream_now().name))

    class Tensor:
        is_cuda, device, is_sparse = True, "gpu", False

        def numel(self):
            return 1 << 20

        element_size = numel

    class Future:
        def __init__(self, work, _):
            told.append(("device", work.device))
            self.ready = threading.Event()

        def set_result(self, value):
            told.append(("future", stream_now().name))
            self.ready.set()

    def stream_now(device=None):
        return getattr(current, "stream", program)

    @contextlib.contextmanager
    def enter(stream):
        current.stream = stream
        yield
        del current.stream

    program = Stream("program")
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("completer"))
    monkeypatch.setattr(torch.cuda, "current_stream", stream_now)
    monkeypatch.setattr(torch.cuda, "stream", enter)
    monkeypatch.setattr(_work, "_Future", Future)
    limit = _work.Limit(None)
    work = _work.Work(Handle(), [Tensor()], lambda _: told.append("stored"), limit, 60.0)
    assert work.get_future().ready.wait(60)
    work.wait()
    assert told == [
        ("device", "gpu"), ("operation", "completer"), "stored", ("completer", "end in completer"),
        ("future", "completer"), ("program", "end in completer"),
    ]  # fmt: skip


def test_broadcast_gather_scatter(rank, size):
    mine = torch.full((2, 2), float(rank))
    dist.broadcast(mine, src=size - 1)
    assert float(mine[1, 1]) == size - 1
    found = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(found, torch.full((2,), float(rank)))
    assert [float(each[1]) for each in found] == list(range(size))
    flat = torch.zeros(size * 3)
    getattr(dist, "_all_gather_base")(flat, torch.full((3,), float(rank)))
    assert flat.view(size, 3)[:, 0].tolist() == list(range(size))
    into = [torch.zeros(3) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((3,), float(rank)), into, dst=0)
    assert rank or [float(each[2]) for each in into] == list(range(size))
    share = torch.zeros(2)
    parts = [torch.full((2,), float(each)) for each in range(size)] if rank == size - 1 else None
    dist.scatter(share, parts, src=size - 1)
    assert share.tolist() == [rank, rank]


def test_reduce_scatter_and_alltoall(rank, size):
    share = torch.zeros(2)
    dist.reduce_scatter(share, [torch.full((2,), float(each)) for each in range(size)])
    assert share.tolist() == [rank * size] * 2
    rows = torch.zeros(size, 2)
    dist.all_to_all_single(rows, torch.full((size, 2), float(rank)))
    assert rows[:, 0].tolist() == list(range(size))
    uneven = torch.zeros(size)
    dist.all_to_all_single(uneven, torch.full((size,), float(rank)), [1] * size, [1] * size)
    assert uneven.tolist() == list(range(size))
    outputs = [torch.zeros(each + 1) for each in range(size)]
    dist.all_to_all(outputs, [torch.full((rank + 1,), float(rank)) for _ in range(size)])
    assert [float(each[-1]) for each in outputs] == list(range(size))


def test_wrong_lists_and_roots(rank, size):
    one, many = torch.zeros(2), [torch.zeros(2) for _ in range(size + 1)]
    wrong = "the list has %d tensors; expected one for each of the %d members" % (size + 1, size)
    with pytest.raises(ValueError, match=wrong):
        dist.all_gather(many, one)
    with pytest.raises(ValueError, match=wrong):
        dist.reduce_scatter(one, many)
    with pytest.raises(ValueError, match=r"part has the shape \(2,\), the tensor for it \(3,\); "):
        dist.all_gather([torch.zeros(3) for _ in range(size)], one)
    with pytest.raises(ValueError, match="root is %d; expected a member from 0 to" % size):
        dist.broadcast(one, src=size)


def test_objects(rank, size):
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert [each["rank"] for each in found] == list(range(size))
    things = [{"a": rank}, "b"] if rank == 0 else [None, None]
    dist.broadcast_object_list(things, src=0)
    assert things == [{"a": 0}, "b"]


def test_groups(rank, size):
    if size < 2:
        pytest.skip("one rank has no other groups")
    for _ in range(2):
        dist.new_group([0])  # of which the others are no members
        group = dist.new_group([0, size - 1])
        if rank in (0, size - 1):
            mine = torch.tensor([float(rank)])
            dist.all_reduce(mine, group=group)
            assert float(mine) == size - 1
            dist.broadcast(mine, src=size - 1, group=group)
    dist.barrier()


def test_members_of_a_group_are_ascending(size):
    if size > 1:
        with pytest.raises(hvd.UnsupportedError, match="ascending"):
            hvd.distributed._new_group([1, 0], sort_ranks=False)


def test_coalesced(rank, size):
    """What functional collectives of later torch versions call."""
    group = dist.distributed_c10d._get_default_group()
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    group.allgather_coalesced(
        lists, [torch.full((2,), float(rank)), torch.full((3,), rank + 0.5)]
    ).wait()
    assert [each[0][1].item() for each in lists] == list(range(size))
    assert [each[1][2].item() for each in lists] == [each + 0.5 for each in range(size)]
    outputs = [torch.zeros(size, 2), torch.zeros(size)]
    inputs = [torch.full((2,), float(rank)), torch.full((1,), rank + 0.5)]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    assert outputs[0][:, 1].tolist() == list(range(size))
    assert outputs[1].tolist() == [each + 0.5 for each in range(size)]
    shares = [torch.zeros(1, 3), torch.zeros(2)]
    options = dist.ReduceScatterOptions()
    inputs = [torch.ones(size, 3), torch.arange(2.0 * size)]
    group.reduce_scatter_tensor_coalesced(shares, inputs, options).wait()
    assert shares[0].tolist() == [[size] * 3]
    assert shares[1].tolist() == [2.0 * rank * size, (2.0 * rank + 1) * size]


def make_model():
    torch.manual_seed(5)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 40), torch.nn.ReLU(), torch.nn.Linear(40, 40), torch.nn.Linear(40, 1)
    )


def windows():
    """The address ranges of hvd_alloc's memory in this process."""
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file if "hvd" in line]
    return [[int(each, 16) for each in line[0].split("-")] for line in lines if "s" in line[1]]


@pytest.mark.parametrize("wanted", [True, False])
def test_buckets_are_in_the_window(rank, size, wanted):
    if size == 1:
        pytest.skip("one rank reduces nothing")
    hvd.distributed.buckets_in_window(wanted)
    model = torch.nn.parallel.DistributedDataParallel(make_model(), gradient_as_bucket_view=True)
    hvd.distributed.buckets_in_window(True)
    for _ in range(1 if not wanted else 3):  # buckets are made anew after the first time
        model(torch.ones(2, 6)).sum().backward()
        addresses = [each.grad.data_ptr() for each in model.parameters()]
        found = [any(a <= each < b for a, b in windows()) for each in addresses]
        assert found == [wanted] * len(found)


def test_sparse(rank, size):
    mine = torch.sparse_coo_tensor([[0, rank]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(mine)
    expected = torch.zeros(size + 1)
    for each in range(size):
        expected[0] += 1.0
        expected[each] += 2.0
    assert torch.equal(mine.to_dense(), expected)
    with pytest.raises(hvd.UnsupportedError, match="by SUM or AVG"):
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)


def test_data_parallel_with_sparse_gradients(rank, size):
    table = torch.nn.EmbeddingBag(10, 4, sparse=True, mode="sum")
    torch.nn.init.zeros_(table.weight)
    model = torch.nn.parallel.DistributedDataParallel(table)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for set_to_none in (True, False):
        optimizer.zero_grad(set_to_none=set_to_none)
        model(torch.tensor([[rank, 9]])).sum().backward()
        optimizer.step()
    assert torch.allclose(table.weight[9], torch.tensor(-2.0))
    assert torch.allclose(table.weight[rank], torch.tensor(-2.0 / size))


@pytest.mark.parametrize("set_to_none", [False, True])
@pytest.mark.parametrize("view", [False, True])
def test_data_parallel_is_one_process(rank, size, view, set_to_none):
    generator = torch.Generator().manual_seed(11)
    data = torch.randn(4 * size, 6, generator=generator)
    plain = make_model()
    ours = copy.deepcopy(plain)
    if rank:  # the wrapper gives all the parameters of rank 0
        torch.nn.init.zeros_(ours[0].weight)
    ours = torch.nn.parallel.DistributedDataParallel(
        ours, bucket_cap_mb=0.005, gradient_as_bucket_view=view
    )
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (plain, ours)]
    for _ in range(5):
        for model, batch, optimizer in zip(
            (plain, ours), (data, data[rank * 4 : rank * 4 + 4]), optimizers
        ):
            optimizer.zero_grad(set_to_none=set_to_none)
            model(batch).pow(2).mean().backward()
            optimizer.step()
    for found, wanted in zip(ours.parameters(), plain.parameters()):
        assert torch.allclose(found, wanted, atol=1e-6)
