"""A step in which a model is trained by DistributedDataParallel over the backend hvd."""
import contextlib

import numpy as np

from random_programs import elements, reference
from random_programs.checks import compare
from random_programs.layouts import to_numpy
from random_programs.steps import draw_set
from random_programs.training import Parameter


class DataParallel:
    """Some steps of training with a linear loss; parameters and gradients must be those of one
    process that averages all ranks' gradients."""

    def __init__(self, rng, plan):
        self.set, self.number = draw_set(rng, plan), rng.randrange(1 << 30)
        self.members = plan.sets[self.set]
        halves = ("bfloat16",) if len(self.members) != 3 else ()  # which do not hold thirds
        types = rng.choice((("float32",), ("float32", "float64"), ("float32",) + halves))
        drawn = [Parameter(rng, i, types) for i in range(rng.randint(1, 6))]
        self.parameters = [each for each in drawn if 0 not in each.shape] or drawn[:1]
        for each in self.parameters:
            each.shape = tuple(length or 2 for length in each.shape)
        self.epochs = rng.randint(1, 4)
        self.passes = rng.choice((1, 1, 2))
        self.unused = rng.choice((0, 0, 0.3)) if self.passes == 1 else 0
        self.counts = [self.epochs] * len(self.members)
        if self.passes == 1 and not self.unused and rng.random() < 0.3:
            self.counts = [rng.randint(0, self.epochs) for _ in self.members]
        self.to_none = rng.random() < 0.5
        self.settings = {
            "find_unused_parameters": self.unused > 0,
            "gradient_as_bucket_view": rng.random() < 0.5,
            "bucket_cap_mb": rng.choice((25, 0.001, 0.05)),
        }

    def coefficients(self, epoch, backward, rank):
        rng = elements.stream(self.number, epoch, backward, rank)
        found = [
            None if rng.random() < self.unused else each.values(self.number, epoch, backward, rank)
            for each in self.parameters
        ]
        if all(each is None for each in found):
            found[0] = self.parameters[0].values(self.number, epoch, rank)
        return found

    def run(self, world):
        if not world.is_member(self.set):
            return
        import torch

        group = world.faces["torch.distributed"].set_argument(world, self.set)
        model = _model_of(torch, self.parameters, self.number, world.rank)
        plain = _model_of(torch, self.parameters, self.number, self.members[0])
        wrapped = torch.nn.parallel.DistributedDataParallel(
            model, process_group=group, **self.settings
        )
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.5) for each in (wrapped, plain)]
        uneven = len(set(self.counts)) > 1
        with wrapped.join() if uneven else contextlib.nullcontext():
            for epoch in range(self.counts[world.member(self.set)]):
                optimizers[0].zero_grad(set_to_none=self.to_none)
                self._backward(wrapped, epoch, world.rank)
                optimizers[0].step()
                self._train_plain(plain, optimizers[1], epoch)
                self._compare(model, plain, epoch)
        if uneven:  # a rank that has joined has what the last one has
            for epoch in range(self.counts[world.member(self.set)], max(self.counts)):
                self._train_plain(plain, optimizers[1], epoch)
            self._compare(model, plain, max(self.counts))

    def _backward(self, wrapped, epoch, rank):
        for backward in range(self.passes):
            last = backward == self.passes - 1
            with contextlib.nullcontext() if last else wrapped.no_sync():
                wrapped(self.coefficients(epoch, backward, rank)).backward()

    def _train_plain(self, plain, optimizer, epoch):
        for i, (spec, parameter) in enumerate(zip(self.parameters, plain.parameters())):
            sums, reached = [], False
            for member, count in zip(self.members, self.counts):
                if epoch >= count:
                    sums.append(np.zeros(spec.shape, elements.held_as(spec.dtype)))
                    continue
                found = [self.coefficients(epoch, k, member)[i] for k in range(self.passes)]
                there = [each for each in found if each is not None]
                reached = reached or bool(there)
                sums.append(sum(there, np.zeros(spec.shape, elements.held_as(spec.dtype))))
            if reached:
                mean = reference.reduced("average", spec.dtype, sums)
                parameter.grad = spec.laid(_torch(), mean)
            else:
                parameter.grad = None if self.to_none or epoch == 0 else parameter.grad
                if parameter.grad is not None:
                    parameter.grad.zero_()
        optimizer.step()

    def _compare(self, model, plain, epoch):
        for own, other, spec in zip(model.parameters(), plain.parameters(), self.parameters):
            slack = 2e-2 if spec.dtype in elements.NARROW else 1e-5
            compare([to_numpy(own)], [to_numpy(other)], slack, "%s, epoch %d" % (spec.name, epoch))

    def __str__(self):
        return "DistributedDataParallel of %s among %s: %s, %s epochs, %d passes, unused %s" % (
            ", ".join(map(str, self.parameters)), self.members, self.settings, self.counts,
            self.passes, self.unused,
        )  # fmt: skip


def _torch():
    import torch

    return torch


def _model_of(torch, specs, *seed):
    """A module whose forward multiplies each parameter with what it is given, and adds all up."""

    class Weighted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for i, each in enumerate(specs):
                laid = each.laid(torch, each.values(*seed))
                self.register_parameter("p%d" % i, torch.nn.Parameter(laid))

        def forward(self, coefficients):
            return sum(
                (parameter * spec.laid(torch, values)).sum().double()
                for parameter, spec, values in zip(self.parameters(), specs, coefficients)
                if values is not None
            )

    return Weighted()
