"""Gradients of the collectives of hvd.torch: of losses that multiply results with small whole
numbers, so that they are known exactly."""
import numpy as np

from random_programs import elements, reference
from random_programs.cases import Case
from random_programs.checks import compare
from random_programs.steps import draw_set


class Gradients:
    """One collective, and the gradient of this rank's tensors."""

    def __init__(self, rng, plan):
        self.set = draw_set(rng, plan)
        self.case = Case(rng, plan.sets[self.set], types=("float32", "float64"))
        self.case.values = ["small"] * len(self.case.dtypes)
        self.case.wire = None
        if self.case.kind in ("allreduce", "reducescatter"):
            self.case.op = rng.choice(("sum", "average"))
        self.name = rng.choice((None, "g%d" % rng.randrange(1 << 30)))

    def run(self, world):
        if not world.is_member(self.set):
            return
        import torch

        member, face = world.member(self.set), world.faces["hvd.torch"]
        tensors = [torch.tensor(each, requires_grad=True) for each in self.case.inputs(member)]
        results = self._call(face, tensors, face.set_argument(world, self.set), member)
        weights = self._weights(member)
        sum((r * torch.tensor(w)).sum().double() for r, w in zip(results, weights)).backward()
        compare([each.grad.numpy() for each in tensors], self._expected(member), 0, str(self))

    def _call(self, face, tensors, where, member):
        case = self.case
        arguments = {"name": self.name, "process_set": where}
        positional = [tensors if case.grouped else tensors[0]]
        if case.kind in ("allreduce", "reducescatter"):
            arguments.update(op=face.ops[case.op], prescale_factor=case.factors[0],
                             postscale_factor=case.factors[1])  # fmt: skip
        if case.kind == "broadcast":
            positional.append(case.members[case.root])
        if case.kind == "alltoall":
            positional.append(case.splits[member])
        found = getattr(face.hvd, "grouped_" * case.grouped + case.kind)(*positional, **arguments)
        return found if case.grouped else found[:1] if case.kind == "alltoall" else [found]

    def _weights(self, member):
        """What the loss of a member multiplies each of its results with."""
        return [
            elements.values("small", each.dtype.name, each.shape, False, self.case.seed, member, -i)
            for i, each in enumerate(reference.expected(self.case, member))
        ]

    def _expected(self, member):
        weights = [self._weights(each) for each in range(len(self.case.members))]
        return [
            np.asarray(self._one(member, i, [of[i] for of in weights]), dtype)
            for i, dtype in enumerate(self.case.dtypes)
        ]

    def _one(self, member, i, weights):
        case, dtype = self.case, self.case.dtypes[i]
        if case.kind == "allreduce":
            return reference.reduced(case.op, dtype, weights, case.factors)
        if case.kind == "alltoall":
            back = [[each[m] for each in case.splits] for m in range(len(weights))]
            return reference.received(weights, back, member)[0]
        if case.kind == "reducescatter":
            factor = case.factors[0] * case.factors[1]
            return np.concatenate(weights) * (factor * len(weights) if case.op == "sum" else factor)
        average = reference.reduced("average", dtype, weights)
        if case.kind == "broadcast":
            return average if member == case.root else np.zeros_like(average)
        rows = [shape[0] for shape in case.shapes[i]]
        return average[sum(rows[:member]) : sum(rows[: member + 1])]

    def __str__(self):
        return "gradients of " + str(self.case)
