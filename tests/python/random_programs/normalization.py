"""A step with hvd.torch.SyncBatchNorm: the batches of all ranks, which may be of different sizes,
are normalized like one batch by BatchNorm."""
import numpy as np

from random_programs import elements
from random_programs.checks import compare
from random_programs.layouts import to_numpy


class Normalization:
    """Some batches in training, forward and backward."""

    def __init__(self, rng, plan):
        self.seed = rng.randrange(1 << 30)
        self.channels = rng.choice((1, 3, 8))
        self.inner = rng.choice(((), (5,), (4, 4)))
        self.counts = [[rng.choice((1, 2, 5)) for _ in range(plan.size)] for _ in range(3)]
        self.double = rng.random() < 0.5

    def _batch(self, torch, number, rank):
        shape = (self.counts[number][rank] + 1, self.channels) + self.inner
        found = elements.values("small", "float64", shape, False, self.seed, number, rank)
        return torch.tensor(found, dtype=torch.float64 if self.double else torch.float32)

    def run(self, world):
        import torch

        ours = world.faces["hvd.torch"].hvd.SyncBatchNorm(self.channels)
        kind = torch.nn.BatchNorm2d if len(self.inner) == 2 else torch.nn.BatchNorm1d
        plain = kind(self.channels)
        if self.double:
            ours, plain = ours.double(), plain.double()
        for number in range(len(self.counts)):
            batches = [self._batch(torch, number, each) for each in range(world.size)]
            whole = torch.cat(batches).requires_grad_()
            mine = batches[world.rank].clone().requires_grad_()
            begin = sum(len(each) for each in batches[: world.rank])
            result, expected = ours(mine), plain(whole)
            (result * result * result).sum().backward()
            (expected * expected * expected).sum().backward()
            own = slice(begin, begin + len(mine))
            self._compare([result, mine.grad], [expected[own], whole.grad[own]], number)
        self._compare([ours.running_mean, ours.running_var],
                      [plain.running_mean, plain.running_var], "running")  # fmt: skip

    def _compare(self, found, wanted, where):
        slack = 1e-9 if self.double else 1e-3
        found, wanted = [[np.array(to_numpy(each)) for each in of] for of in (found, wanted)]
        compare(found, wanted, slack, "batch %s" % where)

    def __str__(self):
        return "SyncBatchNorm of %d channels %s, batches %s, %s" % (
            self.channels, self.inner, self.counts, "float64" if self.double else "float32",
        )  # fmt: skip
