"""The calls of horovod.torch.mpi_ops: collectives on torch tensors, with gradients."""
import time
import warnings
from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from hvd import _operations as operations
from hvd._calls import run, submit
from hvd._flight import Handle
from hvd._job import (
    ProcessSet,
    global_process_set,
    rank,
    set_id,
)
from hvd._library import lib
from hvd._names import MadeUpName, Unnamed, gradient_name, unnamed
from hvd._operations import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from hvd.errors import InvalidError
from hvd.torch.compression import Compression, pack, unpack, wire_of

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum", "allgather", "allgather_async",
    "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall",
    "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async",
    "broadcast_async_", "grouped_allgather", "grouped_allgather_async", "grouped_allreduce",
    "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_",
    "grouped_reducescatter", "grouped_reducescatter_async", "join", "poll", "reducescatter",
    "reducescatter_async", "sparse_allreduce_async", "synchronize",
]  # fmt: skip


def _name(kind: str, name: operations.Name) -> operations.Name:
    """Operations of different kinds may have the same name, as in Horovod. What hvd has named
    itself, such as a gradient, has its kind in it."""
    if name is None or isinstance(name, (MadeUpName, Unnamed)):
        return name
    return "%s.%s" % (kind, name)


def _run_named(ctx: Any, prepared: operations.Prepared) -> Any:
    """Carry out an operation, after which its gradient is named: by that name ranks find each
    other's, whatever else they have done until then."""
    result = run(*prepared)
    ctx.name = prepared[0].name
    return result


def reduce_op(op: Optional[ReduceOp], average: Optional[bool]) -> ReduceOp:
    """The operation that the arguments op and average, which is older, ask for."""
    if op is not None:
        if average is not None:
            raise ValueError(
                "The op parameter supersedes average. Please provide only one of them."
            )
        return op
    if average is not None:
        warnings.warn(
            "average is deprecated; give op=hvd.Average or op=hvd.Sum", DeprecationWarning
        )
    return Sum if average is False else Average


def _require_tensor(tensor: Any) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidError("hvd.torch needs a torch.Tensor, not a %s" % type(tensor).__name__)
    return tensor


# ---- allreduce ----------------------------------------------------------------------------------


def _allreduce(form, tensor, out, name, op, factors, process_set, wire=None) -> Any:
    """By operations.allreduce or its asynchronous form."""
    name = _name("allreduce", name)
    return form(_require_tensor(tensor), op, name, *factors, wire, process_set, out)


def allreduce_async(
    tensor,
    average=None,
    name=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> Handle:
    """Submit allreduce of a tensor; synchronize(handle) gives a new one."""
    op, factors = reduce_op(op, average), (prescale_factor, postscale_factor)
    return _allreduce(operations.allreduce_async, tensor, None, name, op, factors, process_set)


def allreduce_async_(
    tensor,
    average=None,
    name=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> Handle:
    """Submit allreduce of a tensor in place."""
    op, factors = reduce_op(op, average), (prescale_factor, postscale_factor)
    return _allreduce(operations.allreduce_async, tensor, tensor, name, op, factors, process_set)


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, op, factors, process_set, wire):
        ctx.arguments = (op, factors, process_set, wire)
        form = operations.allreduce.prepare
        prepared = _allreduce(form, tensor, None, name, op, factors, process_set, wire)
        return _run_named(ctx, prepared)

    @staticmethod
    def backward(ctx, grad):
        name = gradient_name(ctx.name)
        return (_Allreduce.apply(grad, name, *ctx.arguments),) + (None,) * 5


def allreduce(
    tensor,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> torch.Tensor:
    """Reduce a tensor over the process set, by average unless op says otherwise. Every member gets
    the result as a new tensor. Its gradient is reduced in the same way."""
    op = reduce_op(op, average)
    packed, ctx = pack(compression, _require_tensor(tensor))
    wire = wire_of(compression, packed)
    factors = (prescale_factor, postscale_factor)
    if packed.requires_grad:
        result = _Allreduce.apply(packed, name, op, factors, process_set, wire)
    else:
        form = operations.allreduce
        result = _allreduce(form, packed, None, name, op, factors, process_set, wire)
    return unpack(compression, result, ctx)


def allreduce_(
    tensor,
    average=None,
    name=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> torch.Tensor:
    """Reduce a tensor in place."""
    op, factors = reduce_op(op, average), (prescale_factor, postscale_factor)
    return _allreduce(operations.allreduce, tensor, tensor, name, op, factors, process_set)


# ---- grouped allreduce --------------------------------------------------------------------------


def _grouped_allreduce(form, tensors, outs, name, op, factors, process_set, wire=None) -> Any:
    for tensor in tensors:
        _require_tensor(tensor)
    name = _name("grouped_allreduce", name)
    return form(tensors, op, name, *factors, wire, process_set, outs)


def grouped_allreduce_async(
    tensors,
    average=None,
    name=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> Handle:
    """Submit grouped_allreduce; synchronize(handle) gives a list of new tensors."""
    op, factors = reduce_op(op, average), (prescale_factor, postscale_factor)
    form = operations.grouped_allreduce_async
    return _grouped_allreduce(form, tensors, None, name, op, factors, process_set)


def grouped_allreduce_async_(
    tensors,
    average=None,
    name=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> Handle:
    """Submit grouped_allreduce in place."""
    op, factors = reduce_op(op, average), (prescale_factor, postscale_factor)
    form = operations.grouped_allreduce_async
    return _grouped_allreduce(form, tensors, tensors, name, op, factors, process_set)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, factors, process_set, wire, *tensors):
        ctx.arguments = (op, factors, process_set, wire)
        form = operations.grouped_allreduce.prepare
        prepared = _grouped_allreduce(form, tensors, None, name, op, factors, process_set, wire)
        return tuple(_run_named(ctx, prepared))

    @staticmethod
    def backward(ctx, *grads):
        grads = _GroupedAllreduce.apply(gradient_name(ctx.name), *ctx.arguments, *grads)
        return (None,) * 5 + tuple(grads)


def grouped_allreduce(
    tensors,
    average=None,
    name=None,
    compression=Compression.none,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> List[torch.Tensor]:
    """Reduce several tensors that run together, all or none."""
    op = reduce_op(op, average)
    packed = [pack(compression, _require_tensor(tensor)) for tensor in tensors]
    wire = wire_of(compression, *[tensor for tensor, _ in packed])
    factors = (prescale_factor, postscale_factor)
    results = _GroupedAllreduce.apply(
        name, op, factors, process_set, wire, *[tensor for tensor, _ in packed]
    )
    return [unpack(compression, result, ctx) for result, (_, ctx) in zip(results, packed)]


def grouped_allreduce_(
    tensors,
    average=None,
    name=None,
    op=None,
    prescale_factor=1.0,
    postscale_factor=1.0,
    process_set=global_process_set,
) -> List[torch.Tensor]:
    """Reduce several tensors in place, all or none."""
    op, factors = reduce_op(op, average), (prescale_factor, postscale_factor)
    form = operations.grouped_allreduce
    return _grouped_allreduce(form, tensors, tensors, name, op, factors, process_set)


# ---- sparse tensors -----------------------------------------------------------------------------


class SparseHandle:
    """An allreduce of a sparse tensor in flight. Call it, or its wait(), for the result."""

    def __init__(self, tensor: torch.Tensor, parts: Sequence[Handle], divisor: int):
        self._shape, self._parts, self._divisor = tensor.size(), parts, divisor

    @property
    def name(self) -> Optional[str]:
        """The name of its first part, until that has its result."""
        return self._parts[0].name

    def done(self) -> bool:
        """Is it done? Never waits."""
        return all(each.done() for each in self._parts)

    def wait_for(self, seconds: float) -> bool:
        """Wait at most so long; is it done by then? wait() then has its result at once."""
        end = time.monotonic() + seconds
        return all(each.wait_for(max(0.0, end - time.monotonic())) for each in self._parts)

    def wait(self) -> torch.Tensor:
        """Wait until it is done; returns the result, or raises what went wrong."""
        sizes, indices, values = [each.wait() for each in self._parts]
        dimensions = {sparse for sparse, count in sizes.tolist() if count > 0} or {1}
        if len(dimensions) > 1:
            raise ValueError(
                "sparse allreduce: the members' tensors have %s sparse dimensions; expected the "
                "same number on all" % " and ".join(map(str, sorted(dimensions)))
            )
        sparse = dimensions.pop()
        count = int(sizes[:, 1].sum())
        indices = indices.view(count, sparse).t()
        values = values.view(count, *self._shape[sparse:])
        if self._divisor > 1:
            values = values / self._divisor
        return torch.sparse_coo_tensor(indices, values, self._shape).coalesce()

    __call__ = wait


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set) -> SparseHandle:
    """Submit allreduce of a sparse tensor, by allgathers; call the handle for the result."""
    if op not in (Average, Sum):
        raise NotImplementedError("sparse allreduce knows op=Average and op=Sum only")
    tensor = tensor.coalesce() if not tensor.is_coalesced() else tensor
    # flat, as an empty tensor may have other sparse dimensions: zero_() makes all of them sparse
    sizes = torch.tensor([[tensor.sparse_dim(), tensor._nnz()]])
    indices, values = tensor._indices().t().reshape(-1), tensor._values().reshape(-1)
    # this name, so that it is an error and no stall if the tensor is dense on another rank
    of_sizes = unnamed("sparse_allreduce", set_id(process_set)) if name is None else name
    first = operations.allgather_async(sizes, _name("allreduce", of_sizes), process_set)
    base = name if isinstance(name, str) else MadeUpName(first.name)
    parts = [
        first,
        allgather_async(indices, type(base)("%s.indices" % base), process_set),
        allgather_async(values, type(base)("%s.values" % base), process_set),
    ]
    return SparseHandle(tensor, parts, members(process_set) if op == Average else 1)


# ---- allgather ----------------------------------------------------------------------------------


def allgather_async(tensor, name=None, process_set=global_process_set) -> Handle:
    """Submit allgather."""
    tensor = _require_tensor(tensor)
    return operations.allgather_async(tensor, _name("allgather", name), process_set)


def _own_rows(
    grad: torch.Tensor, rows: int, name: str, process_set: ProcessSet
) -> torch.Tensor:
    """The part of a gathered gradient that belongs to this member's rows."""
    counts = operations.allgather(torch.tensor([rows]), name, process_set)
    member = process_set.rank() or 0
    begin = int(counts[:member].sum())
    return grad.narrow(0, begin, rows)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.rows = tensor.shape[0] if tensor.dim() else 1
        ctx.process_set = process_set
        name = _name("allgather", name)
        return _run_named(ctx, operations.allgather.prepare(tensor, name, process_set))

    @staticmethod
    def backward(ctx, grad):
        name, process_set = gradient_name(ctx.name), ctx.process_set
        reduced = allreduce(grad, name=name, op=Average, process_set=process_set)
        rows = gradient_name(name, "rows")
        return _own_rows(reduced, ctx.rows, rows, process_set), None, None


def allgather(tensor, name=None, process_set=global_process_set) -> torch.Tensor:
    """Concatenate the members' tensors along the first dimension, which may differ between them.
    Its gradient is averaged over the members."""
    return _Allgather.apply(_require_tensor(tensor), name, process_set)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set) -> Handle:
    """Submit grouped_allgather."""
    name = _name("grouped_allgather", name)
    return operations.grouped_allgather_async(list(tensors), name, process_set)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows = [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        ctx.process_set = process_set
        name = _name("grouped_allgather", name)
        prepared = operations.grouped_allgather.prepare(tensors, name, process_set)
        return tuple(_run_named(ctx, prepared))

    @staticmethod
    def backward(ctx, *grads):
        name, process_set = gradient_name(ctx.name), ctx.process_set
        reduced = grouped_allreduce(grads, name=name, op=Average, process_set=process_set)
        own = [
            _own_rows(grad, rows, gradient_name(name, "rows%d" % i), process_set)
            for i, (grad, rows) in enumerate(zip(reduced, ctx.rows))
        ]
        return (None, None) + tuple(own)


def grouped_allgather(tensors, name=None, process_set=global_process_set) -> List[torch.Tensor]:
    """allgather of several tensors that run together, all or none."""
    return list(_GroupedAllgather.apply(name, process_set, *tensors))


# ---- broadcast ----------------------------------------------------------------------------------


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set) -> Handle:
    """Submit broadcast; synchronize(handle) gives a new tensor."""
    tensor = _require_tensor(tensor)
    return operations.broadcast_async(tensor, root_rank, _name("broadcast", name), process_set)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set) -> Handle:
    """Submit broadcast in place."""
    tensor = _require_tensor(tensor)
    name = _name("broadcast", name)
    return operations.broadcast_async(tensor, root_rank, name, process_set, tensor)


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        name = _name("broadcast", name)
        prepared = operations.broadcast.prepare(tensor, root_rank, name, process_set, None)
        return _run_named(ctx, prepared)

    @staticmethod
    def backward(ctx, grad):
        name = gradient_name(ctx.name)
        reduced = allreduce(grad, name=name, op=Average, process_set=ctx.process_set)
        return (reduced if rank() == ctx.root_rank else reduced * 0), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set) -> torch.Tensor:
    """Every member gets the tensor of rank root_rank, a rank of the job also inside a set. Its
    gradient is averaged over the members, and belongs to the root."""
    return _Broadcast.apply(_require_tensor(tensor), root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set) -> torch.Tensor:
    """Broadcast in place."""
    tensor, name = _require_tensor(tensor), _name("broadcast", name)
    return operations.broadcast(tensor, root_rank, name, process_set, tensor)


# ---- alltoall -----------------------------------------------------------------------------------


def _counts_tensor(counts: Sequence[int]) -> torch.Tensor:
    return torch.tensor(list(counts), dtype=torch.int32)


def _prepare_alltoall(tensor, splits, name, process_set) -> operations.Prepared:
    parts = splits.tolist() if isinstance(splits, torch.Tensor) else splits
    name = _name("alltoall", name)
    return operations.alltoall.prepare(_require_tensor(tensor), parts, name, process_set)


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set) -> Handle:
    """Submit alltoall; synchronize(handle) gives what alltoall gives."""
    call, gathered, finish = _prepare_alltoall(tensor, splits, name, process_set)

    def with_splits(gathered: operations.Gathered) -> Any:
        output, counts = finish(gathered)
        return output, _counts_tensor(counts)

    return submit(call, gathered, operations.Gathered.take if splits is None else with_splits)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, counts = _run_named(ctx, _prepare_alltoall(tensor, splits, name, process_set))
        ctx.process_set, ctx.counts = process_set, counts
        received = _counts_tensor(counts)
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad, _):
        grad, _ = _Alltoall.apply(grad, ctx.counts, gradient_name(ctx.name), ctx.process_set)
        return grad, None, None, None


def alltoall(
    tensor, splits=None, name=None, process_set=global_process_set
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Send splits[i] rows to member i, or equal parts. Returns the rows received; with splits also
    a tensor of how many came from each member."""
    output, received = _Alltoall.apply(_require_tensor(tensor), splits, name, process_set)
    return output if splits is None else (output, received)


# ---- reducescatter ------------------------------------------------------------------------------


def reducescatter_async(
    tensor,
    name=None,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
) -> Handle:
    """Submit reducescatter."""
    name = _name("reducescatter", name)
    return operations.reducescatter_async(
        _require_tensor(tensor), op, name, prescale_factor, postscale_factor, None, process_set
    )


def _gradient_factor(ctx) -> float:
    """By what the gathered gradients of a reducescatter are multiplied."""
    factor = ctx.factors[0] * ctx.factors[1]
    return factor * ctx.process_set.size() if ctx.op == Sum else factor


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, op, process_set, factors, wire):
        ctx.op, ctx.process_set, ctx.factors = op, process_set, factors
        name = _name("reducescatter", name)
        form = operations.reducescatter.prepare
        return _run_named(ctx, form(tensor, op, name, *factors, wire, process_set))

    @staticmethod
    def backward(ctx, grad):
        factor = _gradient_factor(ctx)
        gathered = operations.allgather(grad * factor, gradient_name(ctx.name), ctx.process_set)
        return (gathered,) + (None,) * 5


def reducescatter(
    tensor,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
) -> torch.Tensor:
    """Reduce a tensor; each member gets its share of the rows, the first ones one more where they
    do not divide. Its gradient is that of the average of all members' losses, as in Horovod."""
    packed, ctx = pack(compression, _require_tensor(tensor))
    factors = (prescale_factor, postscale_factor)
    wire = wire_of(compression, packed)
    result = _Reducescatter.apply(packed, name, op, process_set, factors, wire)
    return unpack(compression, result, ctx)


def grouped_reducescatter_async(
    tensors,
    name=None,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
) -> Handle:
    """Submit grouped_reducescatter."""
    name = _name("grouped_reducescatter", name)
    return operations.grouped_reducescatter_async(
        list(tensors), op, name, prescale_factor, postscale_factor, None, process_set
    )


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, factors, *tensors):
        ctx.op, ctx.process_set, ctx.factors = op, process_set, factors
        name = _name("grouped_reducescatter", name)
        form = operations.grouped_reducescatter.prepare
        return tuple(_run_named(ctx, form(tensors, op, name, *factors, None, process_set)))

    @staticmethod
    def backward(ctx, *grads):
        scaled = [grad * _gradient_factor(ctx) for grad in grads]
        name = gradient_name(ctx.name)
        return (None,) * 4 + tuple(operations.grouped_allgather(scaled, name, ctx.process_set))


def grouped_reducescatter(
    tensors,
    name=None,
    compression=Compression.none,
    op=Average,
    process_set=global_process_set,
    prescale_factor=1.0,
    postscale_factor=1.0,
) -> List[torch.Tensor]:
    """reducescatter of several tensors that run together, all or none."""
    packed = [pack(compression, _require_tensor(tensor)) for tensor in tensors]
    factors = (prescale_factor, postscale_factor)
    results = _GroupedReducescatter.apply(
        name, op, process_set, factors, *[tensor for tensor, _ in packed]
    )
    return [unpack(compression, result, ctx) for result, (_, ctx) in zip(results, packed)]


# ---- join, barrier, handles ---------------------------------------------------------------------


def join(device: int = -1) -> int:
    """Say that this rank has no more data, and wait until all ranks have joined; returns the rank
    that joined last. [device] is there for Horovod's scripts and ignored."""
    return operations.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until every member has called it."""
    operations.barrier(process_set)


def _checked(call: str, handle: Any) -> Union[Handle, SparseHandle]:
    if not isinstance(handle, (Handle, SparseHandle)):
        raise InvalidError(
            "%s: %r is no handle; pass what an operation such as allreduce_async returned"
            % (call, handle)
        )
    return handle


def poll(handle: Union[Handle, SparseHandle]) -> bool:
    """Is the operation done? Never waits."""
    return _checked("poll", handle).done()


def synchronize(handle: Union[Handle, SparseHandle]) -> Any:
    """Wait for an operation, and return its result or raise its error."""
    return _checked("synchronize", handle).wait()


def members(process_set: Optional[ProcessSet]) -> int:
    """The number of members of a set."""
    return lib.hvd_set_size(set_id(process_set))


def split_list(items: Sequence[Any], parts: int) -> List[Sequence[Any]]:
    """Cut a list into this many parts of nearly equal length."""
    least, more = divmod(len(items), parts)
    found, begin = [], 0
    for i in range(parts):
        end = begin + least + (i < more)
        if end > begin:
            found.append(items[begin:end])
        begin = end
    return found
