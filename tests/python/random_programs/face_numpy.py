"""The face hvd: collectives on numpy arrays."""
import numpy as np

import hvd
from random_programs import cases, layouts
from random_programs.elements import TYPES, held_as

OPS = {
    "sum": hvd.Sum, "average": hvd.Average, "min": hvd.Min, "max": hvd.Max,
    "product": hvd.Product, "adasum": hvd.Adasum,
}  # fmt: skip


class Face:
    """Carries out cases by the calls of the package hvd."""

    name = "hvd"
    kinds = cases.KINDS
    types = tuple(each for each in TYPES if each != "bfloat16")
    named = True

    hvd = hvd

    @staticmethod
    def adapt(case):
        """This face has all that a case may have."""

    @staticmethod
    def set_argument(world, number):
        """A process set as calls take it."""
        return world.sets[number]

    def start(self, case, member, local, process_set, name, blocks=False):
        """Submit a case as one of its members, in a form that the stream [local] chooses. Returns
        what waits and returns the results, as values."""
        into = "new"
        if case.kind in ("allreduce", "broadcast"):
            into = local.choice(("new", "new", "in place", "out"))
        inputs = case.inputs(member)
        laid = [
            layouts.numpy_array(local, each, held_as(dtype), into == "in place")
            for each, dtype in zip(inputs, case.dtypes)
        ]
        outs = self._outs(local, case, into, laid, inputs)
        tensors = [each.tensor for each in laid]
        wait = self._submit(case, tensors, outs, local, (process_set, name, blocks))

        def finish():
            results = wait()
            if into == "new" or into == "out":
                for each in laid:
                    each.check_unchanged()
            for each in outs or ():
                each.check_around()
            if outs is not None:
                for result, out in zip(results, outs):
                    assert result is out.tensor, "the result is not the tensor given as out"
            return [layouts.to_numpy(each) for each in results]

        return finish

    def _outs(self, local, case, into, laid, inputs):
        if into == "in place":
            return laid
        if into == "new":
            return None
        return [
            layouts.numpy_array(local, np.zeros_like(each), held_as(dtype), True)
            for each, dtype in zip(inputs, case.dtypes)
        ]

    def _submit(self, case, tensors, outs, local, where):
        """A function that waits and returns a list of results."""
        process_set, name, blocks = where
        kind = ("grouped_" if case.grouped else "") + case.kind
        first = tensors if case.grouped else tensors[0]
        arguments = {"name": name, "process_set": process_set}
        positional = [first]
        if case.kind in ("allreduce", "reducescatter"):
            positional.append(OPS[case.op])
            arguments.update(prescale=case.factors[0], postscale=case.factors[1], wire=case.wire)
        if case.kind == "broadcast":
            positional.append(case.members[case.root])
        if case.kind == "alltoall" and not (case.even and local.random() < 0.7):
            positional.append(case.splits[case.members.index(hvd.rank())])
        if outs is not None and case.grouped:
            arguments["outs"] = [each.tensor for each in outs]
        elif outs is not None:
            arguments["out"] = outs[0].tensor
        if blocks:
            done = getattr(hvd, kind)(*positional, **arguments)
            return lambda: self._results(case, done)
        handle = getattr(hvd, kind + "_async")(*positional, **arguments)
        return lambda: self._results(case, handle.wait())

    @staticmethod
    def _results(case, found):
        if case.kind == "alltoall":
            found, counts = found
            member = case.members.index(hvd.rank())
            assert list(counts) == [each[member] for each in case.splits], "counts %s" % counts
        return list(found) if case.grouped else [found]
