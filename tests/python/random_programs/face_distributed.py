"""The face torch.distributed with the backend hvd: collectives of its functions, in groups."""
import numpy as np
import torch
import torch.distributed as dist

import hvd
import hvd.distributed  # noqa: F401  registers the backend
from random_programs import cases, layouts, reference
from random_programs.elements import TYPES, held_as

OPS = {
    "sum": dist.ReduceOp.SUM, "average": dist.ReduceOp.AVG, "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX, "product": dist.ReduceOp.PRODUCT,
}  # fmt: skip


class Face:
    """Carries out cases by the functions of torch.distributed. Their operations have no names, so
    that all ranks submit them in the same order."""

    name = "torch.distributed"
    kinds = cases.KINDS
    types = tuple(each for each in TYPES if hasattr(torch, each))
    named = False

    def open(self, sets):
        """Make a group for each process set."""
        dist.init_process_group("hvd")
        self.groups = [None] + [dist.new_group(each) for each in sets[1:]]

    def close(self):
        dist.barrier()
        dist.destroy_process_group()

    def set_argument(self, world, number):
        return self.groups[number]

    @staticmethod
    def adapt(case):
        """Leave out what torch.distributed does not have."""
        case.factors, case.wire = (1, 1), None
        case.grouped = case.grouped and case.kind == "allreduce"
        if case.op == "adasum":
            case.op = "sum"
        count = len(case.dtypes) if case.grouped else 1  # which are of one type
        case.dtypes, case.values = case.dtypes[:1] * count, case.values[:1] * count
        case.shapes = case.shapes[:count]
        if case.kind == "reducescatter" and case.seed % 2:  # into equal parts
            count = len(case.members)
            case.shapes = [[(of[0] // count * count,) + of[1:] for of in case.shapes[0]]]

    def start(self, case, member, local, group, name, blocks=False):
        """Submit a case as one of its members, in a form that the stream [local] chooses. Returns
        what waits and returns the results, as values, or None where only the root has them."""
        in_place = case.kind in ("allreduce", "broadcast")
        laid = [
            layouts.torch_tensor(local, each, dtype, in_place)
            for each, dtype in zip(case.inputs(member), case.dtypes)
        ]
        form = getattr(self, "_" + case.kind)
        work, take = form(case, member, [each.tensor for each in laid], (local, group, not blocks))

        def finish():
            if work is not None:
                if local.random() < 0.3 and hasattr(work, "get_future"):
                    work.get_future().wait()
                work.wait()
            for each in laid:
                each.check_around() if in_place else each.check_unchanged()
            found = take()
            return None if found is None else [layouts.to_numpy(each) for each in found]

        return finish

    @staticmethod
    def _room(local, shape, dtype):
        """An output, in a layout that is drawn."""
        return layouts.torch_tensor(local, np.zeros(shape, held_as(dtype)), dtype, True).tensor

    def _allreduce(self, case, member, tensors, where):
        _, group, later = where
        op = OPS[case.op]
        if case.grouped:
            work = dist.all_reduce_coalesced(tensors, op, group, later)
        elif case.seed % 3 == 0:
            root = case.members[case.root]
            work = dist.reduce(tensors[0], root, op, group, later)
            return work, lambda: tensors if member == case.root else None
        else:
            work = dist.all_reduce(tensors[0], op, group, later)
        return work, lambda: tensors

    def _broadcast(self, case, member, tensors, where):
        local, group, later = where
        root = case.members[case.root]
        if case.seed % 3 == 0:
            output = self._room(local, tensors[0].shape, case.dtypes[0])
            parts = [tensors[0]] * len(case.members) if member == case.root else None
            work = dist.scatter(output, parts, root, group, later)
            return work, lambda: [output]
        work = dist.broadcast(tensors[0], root, group, later)
        return work, lambda: tensors

    def _allgather(self, case, member, tensors, where):
        local, group, later = where
        shapes, dtype = case.shapes[0], case.dtypes[0]
        if case.seed % 2 and len(set(shapes)) == 1:
            whole = (sum(each[0] for each in shapes),) + shapes[0][1:]
            output = self._room(local, whole, dtype)
            work = dist.all_gather_into_tensor(output, tensors[0], group, later)
            return work, lambda: [output]
        outputs = [self._room(local, each, dtype) for each in shapes]
        if case.seed % 3 == 0:
            into = outputs if member == case.root else None
            work = dist.gather(tensors[0], into, case.members[case.root], group, later)
            return work, lambda: [torch.cat(outputs)] if member == case.root else None
        work = dist.all_gather(outputs, tensors[0], group, later)
        return work, lambda: [torch.cat(outputs)]

    def _alltoall(self, case, member, tensors, where):
        local, group, later = where
        tensor, dtype = tensors[0], case.dtypes[0]
        sent, received = case.splits[member], [each[member] for each in case.splits]
        if case.seed % 2:
            outputs = [self._room(local, (n,) + tensor.shape[1:], dtype) for n in received]
            work = dist.all_to_all(outputs, list(tensor.split(sent)), group, later)
            return work, lambda: [torch.cat(outputs)]
        output = self._room(local, (sum(received),) + tensor.shape[1:], dtype)
        splits = (None, None) if case.even else (received, sent)
        work = dist.all_to_all_single(output, tensor, *splits, group, later)
        return work, lambda: [output]

    def _reducescatter(self, case, member, tensors, where):
        local, group, later = where
        tensor, count = tensors[0], len(case.members)
        parts = [reference.share(tensor, each, count) for each in range(count)]
        output = self._room(local, parts[member].shape, case.dtypes[0])
        if case.seed % 2:
            work = dist.reduce_scatter_tensor(output, tensor, OPS[case.op], group, later)
        else:
            work = dist.reduce_scatter(output, parts, OPS[case.op], group, later)
        return work, lambda: [output]
