"""Memory stays flat over 10,000 steps: of numpy arrays, of DistributedOptimizer, and of
DistributedDataParallel with the backend hvd."""
import os

import numpy as np
import pytest

import hvd

STEPS = 10000
TURNS = 5


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(step):
    """The bytes by which the process of any rank grew during STEPS calls of [step]."""
    hvd.barrier()
    before = resident()
    for i in range(STEPS):
        step(i)
    return hvd.allreduce(np.array(resident() - before), hvd.Max)


def assert_flat(step):
    """[step] is called with the number of each step. malloc needs a while until the pieces that
    it keeps suffice: a leak grows in every turn, that does not."""
    for i in range(1000):
        step(i)
    turns = []
    while len(turns) < TURNS and (not turns or turns[-1] >= 100 * STEPS):
        turns.append(grown(step))
    assert turns[-1] < 100 * STEPS, turns


def test_numpy():
    mine, kept = np.ones(500, "float32"), np.ones(500, "float32")

    def step(i):
        hvd.allreduce(mine, hvd.Sum)
        hvd.allreduce_async(kept, hvd.Max, "kept", out=kept).wait()
        if i % 10 == 0:
            hvd.allgather(mine)
            hvd.grouped_allreduce([mine, kept])
            hvd.allreduce_async(mine, name="dropped%d" % (i % 100))

    assert_flat(step)


@pytest.fixture
def torch(size):
    if size != 2:
        pytest.skip("two ranks show it as well, and sooner")
    return pytest.importorskip("torch")


def test_optimizer(torch):
    """All ways of a gradient: alone in the window and elsewhere, in a group, as a half type, and
    sparse."""
    import hvd.torch

    settings = [
        {},
        {"groups": 1},
        {"gradients_in_window": False, "compression": hvd.torch.Compression.fp16},
        {"backward_passes_per_step": 2},
    ]
    models = [torch.nn.Linear(20, 1) for _ in settings]
    models.append(torch.nn.EmbeddingBag(5, 20, sparse=True))
    optimizers = [
        hvd.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), **each)
        for model, each in zip(models, settings + [{}])
    ]
    inputs = [torch.ones(1, 20)] * len(settings) + [torch.tensor([[1, 3]])]

    def step(i):
        turn = i % len(models)
        for _ in range(optimizers[turn].backward_passes_per_step):
            models[turn](inputs[turn]).sum().backward()
        optimizers[turn].step()
        optimizers[turn].zero_grad(set_to_none=i % 2 == 0)

    assert_flat(step)


def test_data_parallel(torch):
    import torch.distributed as dist

    import hvd.distributed

    dist.init_process_group("hvd")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch, total = torch.ones(1, 20), torch.ones(1)

    def step(i):
        optimizer.zero_grad(set_to_none=i % 2 == 0)
        model(batch).sum().backward()
        optimizer.step()
        if i % 10 == 0:
            dist.all_reduce(total.fill_(1), async_op=True).get_future().then(lambda _: None).wait()
            dist.broadcast(total, 0, async_op=True)  # nobody waits for it

    for _ in range(4100):  # of those that nobody waits for, the backend keeps the last 4096
        dist.broadcast(total, 0, async_op=True)
    assert_flat(step)
    dist.destroy_process_group()
