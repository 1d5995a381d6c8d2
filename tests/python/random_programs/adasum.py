"""A step in which a model is trained by hvd.torch.DistributedOptimizer with op=Adasum: each rank
takes its own step, and the changes are combined."""
import numpy as np

from random_programs import elements, reference
from random_programs.checks import compare
from random_programs.layouts import to_numpy
from random_programs.training import OPTIMIZERS, Parameter


class Adasum:
    """Some steps of training among all ranks, after each of which the parameters are those of one
    process that takes every rank's step."""

    def __init__(self, rng, plan):
        self.number, self.members = rng.randrange(1 << 30), plan.sets[0]
        types = rng.choice((("float32",), ("float32", "float64")))
        self.parameters = [Parameter(rng, i, types) for i in range(rng.randint(1, 5))]
        self.kind, self.options = rng.choice(OPTIMIZERS)
        self.passes = rng.choice((1, 1, 2))
        self.epochs = rng.randint(1, 4)
        self.unused = rng.choice((0, 0, 0.3))
        self.to_none = rng.random() < 0.5

    def coefficients(self, epoch, rank):
        """For each backward pass and parameter what the loss of a rank multiplies it with, or
        None."""
        rng = elements.stream(self.number, epoch, rank)
        return [
            [
                None if rng.random() < self.unused else each.values(self.number, epoch, i, rank)
                for each in self.parameters
            ]
            for i in range(self.passes)
        ]

    def run(self, world):
        if world.size & (world.size - 1):
            return  # whose order of combining the reference does not have
        import torch

        hvd = world.faces["hvd.torch"].hvd
        own = self._model(torch, world.rank)
        named = [("%d.%s" % (self.number, s.name), p) for s, p in zip(self.parameters, own)]
        wrapped = hvd.DistributedOptimizer(
            self._optimizer(torch, own), named, op=hvd.Adasum, backward_passes_per_step=self.passes
        )
        hvd.broadcast_parameters(named, 0)
        plain = [self._model(torch, 0) for _ in self.members]
        optimizers = [self._optimizer(torch, each) for each in plain]
        for epoch in range(self.epochs):
            wrapped.zero_grad(set_to_none=self.to_none)
            self._backward(torch, own, epoch, world.rank)
            wrapped.step()
            self._train_plain(torch, plain, optimizers, epoch)
            found, wanted = ([to_numpy(each) for each in model] for model in (own, plain[0]))
            compare(found, wanted, 1e-5, "parameters after step %d" % epoch)

    def _model(self, torch, rank):
        return [
            torch.nn.Parameter(each.laid(torch, each.values(rank, self.number)))
            for each in self.parameters
        ]

    def _optimizer(self, torch, parameters):
        return getattr(torch.optim, self.kind)(parameters, **self.options)

    def _backward(self, torch, parameters, epoch, rank):
        for wanted in self.coefficients(epoch, rank):
            losses = [
                (parameter * spec.laid(torch, values)).sum().double()
                for parameter, spec, values in zip(parameters, self.parameters, wanted)
                if values is not None
            ]
            if losses:
                sum(losses).backward()

    def _train_plain(self, torch, plain, optimizers, epoch):
        starts = [to_numpy(each).copy() for each in plain[0]]
        for member, (parameters, optimizer) in enumerate(zip(plain, optimizers)):
            optimizer.zero_grad(set_to_none=self.to_none)
            self._backward(torch, parameters, epoch, member)
            optimizer.step()
        for i, (spec, start) in enumerate(zip(self.parameters, starts)):
            changes = [to_numpy(each[i]) - start for each in plain]
            reached = start + reference.reduced("adasum", spec.dtype, changes)
            for each in plain:
                with torch.no_grad():
                    each[i].copy_(torch.from_numpy(np.asarray(reached)))

    def __str__(self):
        return "Adasum of %s by %s %s: %d passes, %d steps, unused %s" % (
            ", ".join(map(str, self.parameters)), self.kind, self.options, self.passes,
            self.epochs, self.unused,
        )  # fmt: skip
