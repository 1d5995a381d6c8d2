"""The faces hvd.torch and horovod.torch: collectives on torch tensors, also with gradients."""
import importlib

import torch

from hvd import global_process_set

from random_programs import cases, layouts
from random_programs.elements import TYPES


class Face:
    """Carries out cases by the calls of horovod.torch, under one of its two names."""

    types = tuple(each for each in TYPES if hasattr(torch, each))
    kinds = cases.KINDS
    named = True

    def __init__(self, name):
        self.name = name
        self.hvd = hvd = importlib.import_module(name)
        self.ops = {
            "sum": hvd.Sum, "average": hvd.Average, "min": hvd.Min, "max": hvd.Max,
            "product": hvd.Product, "adasum": hvd.Adasum,
        }  # fmt: skip

    @staticmethod
    def adapt(case):
        """This face has all that a case may have."""

    @staticmethod
    def set_argument(world, number):
        """A process set as calls take it."""
        return world.sets[number] or global_process_set

    def start(self, case, member, local, process_set, name, blocks=False):
        """Submit a case as one of its members, in a form that the stream [local] chooses. Returns
        what waits and returns the results, as values."""
        blocks = blocks or case.wire is not None
        in_place = case.kind in ("allreduce", "broadcast") and local.random() < 0.4
        in_place = in_place and case.wire is None
        laid = [
            layouts.torch_tensor(local, each, dtype, in_place)
            for each, dtype in zip(case.inputs(member), case.dtypes)
        ]
        tensors = [each.tensor for each in laid]
        if not in_place and local.random() < 0.2:
            tensors = [self._with_gradient(each) for each in tensors]
        wait = self._submit(case, tensors, blocks, in_place, (local, process_set, name))

        def finish():
            results = wait()
            for each, result in zip(laid, results):
                if in_place:
                    assert result is each.tensor, "the result is not the tensor itself"
                    each.check_around()
                else:
                    each.check_unchanged()
            return [layouts.to_numpy(each) for each in results]

        return finish

    @staticmethod
    def _with_gradient(tensor):
        return tensor.requires_grad_() if tensor.is_floating_point() else tensor

    def _submit(self, case, tensors, blocks, in_place, where):
        """A function that waits and returns a list of results."""
        local, process_set, name = where
        hvd = self.hvd
        arguments = {"name": name, "process_set": process_set}
        positional = [tensors if case.grouped else tensors[0]]
        if case.kind in ("allreduce", "reducescatter"):
            arguments.update(op=self.ops[case.op], prescale_factor=case.factors[0],
                             postscale_factor=case.factors[1])  # fmt: skip
        if case.wire is not None:
            arguments["compression"] = {"float16": hvd.Compression.fp16,
                                        "bfloat16": hvd.Compression.bf16}[case.wire]  # fmt: skip
        if case.kind == "broadcast":
            positional.append(case.members[case.root])
        with_splits = case.kind == "alltoall" and not (case.even and local.random() < 0.7)
        if with_splits:
            splits = case.splits[case.members.index(hvd.rank())]
            positional.append(splits if local.random() < 0.5 else torch.tensor(splits))
        kind = ("grouped_" if case.grouped else "") + case.kind
        called = kind + ("" if blocks else "_async") + ("_" if in_place else "")
        value = getattr(hvd, called)(*positional, **arguments)

        def wait():
            found = value if blocks else hvd.synchronize(value)
            if with_splits:
                found, counts = found
                member = case.members.index(hvd.rank())
                assert counts.tolist() == [each[member] for each in case.splits], counts
            return list(found) if case.grouped else [found]

        return wait
