"""Waiting in torch.distributed: timeouts, barriers, works, futures, and what C++ asks of them."""
import datetime
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch._jit_internal import _extract_tensors  # noqa: E402

import hvd  # noqa: E402
import hvd.distributed  # noqa: E402
from hvd import _job, _work  # noqa: E402

pytestmark = pytest.mark.usefixtures("group")


def seconds(number):
    return datetime.timedelta(seconds=number)


def late(rank, size, backend, call):
    """What [call] raises on rank 0, and after how long. The others come when it has ended."""
    group = dist.new_group(backend=backend, timeout=seconds(0.6))
    begin, error = time.monotonic(), None
    if rank == 0:
        with pytest.raises(RuntimeError) as found:
            call(group)
        error = found.value
    took = time.monotonic() - begin
    hvd.barrier()
    return group, error, took


def reduced(group):
    return dist.all_reduce(torch.ones(1), group=group, async_op=True)


def gathered(group):
    outputs = [torch.zeros(1) for _ in range(group.size())]
    return dist.all_gather(outputs, torch.ones(1), group=group, async_op=True)


@pytest.mark.parametrize("call", [reduced, gathered, lambda group: dist.barrier(group, True)])
@pytest.mark.parametrize("way", ["wait", "future", "synchronize"])
def test_the_timeout_of_a_group_ends_a_wait(rank, size, call, way):
    if size == 1:
        pytest.skip("one rank waits for nobody")
    ways = {
        "wait": lambda group: call(group).wait(),
        "future": lambda group: call(group).get_future().wait(),
        "synchronize": lambda group: call(group).synchronize(),
    }
    group, error, took = late(rank, size, None, ways[way])
    if rank == 0:
        assert "was not done after 0.6 s, the timeout of its group" in str(error)
        assert isinstance(error, (getattr(dist, "DistBackendError", RuntimeError)))
        assert 0.6 <= took < 30
        with pytest.raises(RuntimeError, match="is of no use from then on"):  # as gloo's is
            reduced(group)
    else:
        call(group).wait()  # rank 0 has submitted it
        with pytest.raises(hvd.MismatchError, match="rank 0 "):  # and tells the others the end
            reduced(group).wait()
    hvd.barrier()
    for handle in _job._overdue:
        handle.wait()
    dist.all_reduce(torch.ones(1))  # other groups go on


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_a_wait_with_a_timeout_may_be_repeated(rank, size, backend):
    if size == 1:
        pytest.skip("one rank waits for nobody")
    group, ones = dist.new_group(backend=backend), torch.ones(1)
    if rank == 0:
        work = dist.all_reduce(ones, group=group, async_op=True)
        begin = time.monotonic()
        with pytest.raises(RuntimeError):
            work.wait(seconds(0.3))
        assert 0.3 <= time.monotonic() - begin < 30
        assert not work.is_completed()
        assert backend == "gloo" or work._handle in _job._overdue
        hvd.barrier()
        assert work.wait(seconds(60)) and work.is_success()
    else:
        hvd.barrier()
        dist.all_reduce(ones, group=group)
    assert ones.item() == size
    dist.all_reduce(ones, group=group)


def test_a_timeout_of_options_counts(rank, size):
    if size == 1:
        pytest.skip("one rank waits for nobody")
    group, options = dist.new_group(), dist.AllreduceOptions()
    options.timeout = seconds(0.3)
    if rank == 0:
        with pytest.raises(RuntimeError, match="was not done after 0.3 s"):
            group.allreduce([torch.ones(1)], options).wait()
    hvd.barrier()
    if rank:
        group.allreduce([torch.ones(1)], options).wait()


def test_new_group_does_not_wait_for_ever(rank, size):
    if size == 1:
        pytest.skip("one rank waits for nobody")
    if rank == 0:
        with pytest.raises(RuntimeError, match="new_group: not all ranks .* within 0.3 s"):
            dist.new_group([0], timeout=seconds(0.3))
    hvd.barrier()
    if rank:
        hvd.allreduce(torch.empty(0), op=hvd.Sum)  # what rank 0 has begun
    for handle in _job._overdue:
        handle.wait()


# ---- Barriers -----------------------------------------------------------------------------------


def test_several_barriers_in_flight(rank, size):
    group = dist.distributed_c10d._get_default_group()
    works = [dist.barrier(async_op=True) for _ in range(3)] + [group.barrier()]
    for work in reversed(works):
        work.wait()
    assert all(work.is_completed() for work in works)


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_a_barrier_waits_for_what_was_submitted_before(rank, size, backend):
    group, ones = dist.new_group(backend=backend), [torch.ones(1000) for _ in range(3)]
    outputs = [torch.zeros(3) for _ in range(size)]
    works = [dist.all_reduce(each, group=group, async_op=True) for each in ones]
    dist.all_gather(outputs, torch.full((3,), rank + 1.0), group=group, async_op=True)
    dist.barrier(group)
    assert [each.tolist() for each in outputs] == [[each + 1.0] * 3 for each in range(size)]
    assert all(work.is_completed() for work in works)
    assert [each[0].item() for each in ones] == [size] * 3


@pytest.mark.parametrize("backend", [None, "gloo"])
def test_what_is_completed_is_in_its_place(rank, size, backend):
    group, outputs = dist.new_group(backend=backend), [torch.zeros(2) for _ in range(size)]
    work = dist.all_gather(outputs, torch.full((2,), rank + 1.0), group=group, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert [each[1].item() for each in outputs] == list(range(1, size + 1))
    assert work.is_success() and work.wait()


def test_a_barrier_waits_for_this_ranks_gpu(rank, monkeypatch):
    told = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: told.append("synchronize"))
    dist.barrier()
    assert told == ["synchronize"]


# ---- Works that C++ holds -----------------------------------------------------------------------


def make_model(**settings):
    torch.manual_seed(5)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    return torch.nn.parallel.DistributedDataParallel(layers, **settings)


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("unused", [True, False])
def test_join_of_uneven_inputs(rank, size, divide, unused):
    """C++ waits for the number of ranks that go on, and then asks for the work's future. Ranks that
    have joined use a short form for the map of used parameters."""
    model = make_model(find_unused_parameters=unused)
    count = 0
    with model.join(divide_by_initial_world_size=divide):
        for _ in range(2 + rank):
            for parameter in model.parameters():
                parameter.grad = None
            model(torch.full((1, 3), rank + 1.0)).sum().backward()
            count += 1
    assert count == 2 + rank
    first = next(model.parameters())
    dist.broadcast(first.data, 0)
    dist.barrier()


def test_works_that_nobody_waits_for(rank, size):
    """More than those that are kept at least: the results of all are there after a barrier."""
    outputs = [[torch.zeros(1) for _ in range(size)] for _ in range(200)]
    for i, each in enumerate(outputs):
        dist.all_gather(each, torch.full((1,), float(i)), async_op=True)
    dist.barrier()
    assert [each[-1].item() for each in outputs] == list(range(200))


def test_what_is_kept_is_bounded():
    keeper = _work._Keeper(2, 4, 100)

    class Thing:
        def __init__(self, count, over=True):
            self.bytes, self.over = count, over

        def may_go(self):
            return self.over

    small = [Thing(1) for _ in range(5)]
    for each in small:
        keeper.add(each)
    assert keeper.works() == small[1:]
    large = [Thing(80), Thing(80)]
    for each in large:
        keeper.add(each)
    assert keeper.works() == large
    keeper.remove(small[0])
    keeper.remove(large[0])
    stays = [Thing(200, over=False) for _ in range(3)]
    for each in stays:
        keeper.add(each)
    assert keeper.works() == stays


def test_works_of_several_threads(rank):
    """Each adds works to those that are kept, and takes them out, while the others do."""
    interval = sys.getswitchinterval()
    keeper, errors = _work._Keeper(8, 16, 1 << 20), []

    class Thing:
        bytes = 1

        def may_go(self):
            return True

    def turn():
        try:
            for _ in range(3000):
                thing = Thing()
                keeper.add(thing)
                keeper.works()
                keeper.remove(thing)
        except RuntimeError as error:
            errors.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=turn) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == [] and keeper.works() == [] and keeper._bytes == 0


def test_futures_after_a_wait(rank, size):
    """Callbacks that submit have the same names whether the result was there or not."""
    for turn in range(4):
        ones = torch.ones(1)
        work = dist.all_reduce(ones, async_op=True)
        if (turn + rank) % 2:
            work.wait()
        second = work.get_future().then(
            lambda done: dist.all_reduce(done.value()[0].clone(), async_op=True).get_future().wait()
        )
        assert second.wait()[0].item() == size**2
        last = threading.Event()
        work.get_future().add_done_callback(lambda _: dist.barrier() or last.set())
        assert last.wait(60)


def test_a_future_that_failed_is_an_error_for_cpp():
    """DistributedDataParallel looks for tensors in the value of a future that failed."""
    lost = hvd.RankLostError("rank 1 was lost")
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    future = _work._Future(work, _work.Callbacks("allreduce"))
    work.complete_future = lambda: None
    future.set_exception(lost)
    found = []
    future.add_done_callback(lambda done: found.append(done))
    assert found == [future]
    for ask in (future.wait, future.value, lambda: _extract_tensors(_work._Failure(lost))):
        with pytest.raises(hvd.RankLostError, match="rank 1 was lost"):
            ask()
