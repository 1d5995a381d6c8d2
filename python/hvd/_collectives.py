"""The collectives of torch.distributed by hvd, over one process set."""
import contextlib
import datetime
import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

import hvd
from hvd import _operations as operations
from hvd import _stated as stated
from hvd._calls import submit
from hvd._names import Unnamed
from hvd._operations import Gathered, take_with_counts
from hvd._stated import Tensors
from hvd._work import Limit, Work, pending_of, seconds_of
from hvd.errors import HvdError, UnsupportedError

# ---- Methods ------------------------------------------------------------------------------------

# the parameters that torch calls otherwise, in some forms of a method
_ALIASES = {
    "tensor": "tensors",
    "output": "outputs",
    "outputTensor": "outputs",
    "output_tensor": "outputs",
    "output_tensors": "outputs",
    "output_lists": "outputs",
    "input": "inputs",
    "inputTensor": "inputs",
    "input_tensor": "inputs",
    "input_tensors": "inputs",
    "input_list": "inputs",
}


def _timeout_of(arguments: Tuple, named: Dict[str, Any]) -> Tuple[Optional[float], Tuple]:
    """The timeout that newer short forms end with, in seconds, and the arguments before it."""
    if arguments and isinstance(arguments[-1], datetime.timedelta):
        return seconds_of(arguments[-1]), arguments[:-1]
    return seconds_of(named.pop("timeout", None)), arguments


def _collective(kind: str, refusal: Callable[..., Any]) -> Callable:
    """Makes a method of the group of a function that gets the name for its operation. If the
    function refuses its arguments the other members, which may have no fault in theirs, wait for
    it: they are told by [refusal], an operation of that name and of another kind, that all of them
    get an error for. The names of this rank stay those of the others so, too."""

    def decorate(method: Callable[..., Work]) -> Callable[..., Work]:
        @functools.wraps(method)
        def call(self: "Collectives", *arguments: Any, **named: Any) -> Work:
            name = self.name_of(kind)
            try:
                self.limit.require()
                named = {_ALIASES.get(key, key): value for key, value in named.items()}
                timeout, arguments = _timeout_of(arguments, named)
                work = method(self, name, *arguments, **named)
                if timeout is not None:
                    work.end_within(timeout)
                return work
            except Exception:
                with contextlib.suppress(HvdError, TypeError, IndexError):
                    refusal(self, name, arguments)  # else they learn of it when they time out
                raise

        return call

    return decorate


# ---- Where results go ---------------------------------------------------------------------------


def _nothing(_: Any) -> None:
    """The result is in its place already."""


def _store_one(output: torch.Tensor) -> Callable[[torch.Tensor], None]:
    return lambda result: stated.spread(result, [output])


def _store_each(outputs: List[torch.Tensor]) -> Callable[[List[torch.Tensor]], None]:
    def store(results: List[torch.Tensor]) -> None:
        for result, output in zip(results, outputs):
            stated.spread(result, [output])

    return store


def _with_counts(gathered: Gathered) -> List[Tuple[torch.Tensor, List[int]]]:
    """What was gathered of each tensor, and how many elements came from each member."""
    results = []
    for result, rows in zip(gathered.take_all(), gathered.rows):
        width = result.size(1) if result.dim() == 2 else 1
        results.append((result, [each * width for each in rows]))
    return results


def _store_lists(kind: str, lists: List[List[torch.Tensor]]) -> Callable[[Any], None]:
    """Stores what _with_counts gives, when all of it is as it should be."""

    def store(results: List[Tuple[torch.Tensor, List[int]]]) -> None:
        for (_, sent), into in zip(results, lists):
            stated.check_arrived(kind, sent, stated.counts(into))
        for (result, _), into in zip(results, lists):
            stated.spread(result, into)

    return store


# ---- Refusals -----------------------------------------------------------------------------------


def _alone(broadcasts: bool) -> Callable[..., Any]:
    """A refusal of an operation of one tensor: by a broadcast, of which the others know nothing,
    or by an allreduce where it is one itself."""

    def refuse(group: "Collectives", name: Unnamed, _: Sequence[Any]) -> Any:
        nothing = torch.empty(0)
        if broadcasts:
            return operations.broadcast_async(nothing, group.global_rank(0), name, group.number)
        return operations.allreduce_async(nothing, hvd.Sum, name, process_set=group.number)

    return refuse


def _grouped(gathers: bool, place: int) -> Callable[..., Any]:
    """The same of an operation of the tensors in the argument at [place]."""

    def refuse(group: "Collectives", name: Unnamed, arguments: Sequence[Any]) -> Any:
        nothing = [torch.empty(0) for _ in arguments[place]]
        if gathers:
            return operations.grouped_allgather_async(nothing, name, group.number)
        return operations.grouped_allreduce_async(
            nothing, hvd.Sum, name, process_set=group.number
        )

    return refuse


# the names that torch had before, by those that it has given the same methods since
OLD_NAMES = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "gather_single": "gather_into_tensor",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}


def named_as_in(torch_group: type) -> Callable[[type], type]:
    """Gives methods with two names the one that torch calls: it refuses a class that has both."""

    def rename(kind: type) -> type:
        for name, old in OLD_NAMES.items():
            if not hasattr(torch_group, name):
                setattr(kind, old, getattr(kind, name))
                delattr(kind, name)
        return kind

    return rename


@named_as_in(dist.ProcessGroup)
class Collectives:
    """Each has the forms that torch's own groups have: lists with options, and single tensors with
    a reduction or root."""

    # what ProcessGroupHvd has
    number: int  # of the process set
    limit: Limit
    rank: Callable[[], int]
    size: Callable[[], int]
    global_rank: Callable[[int], int]
    name_of: Callable[[str], Unnamed]
    work: Callable[..., Work]

    # ---- reductions ----

    @_collective("allreduce", _alone(broadcasts=True))
    def allreduce(self, name: Unnamed, tensors: Tensors, opts: Any = None, op: Any = None) -> Work:
        tensor = stated.one("all_reduce", tensors)
        reduction = stated.op_of(opts if op is None else op)
        if tensor.is_sparse:
            return self._sparse_allreduce(name, tensor, reduction, opts)
        handle = operations.allreduce_async(
            tensor, reduction, name, process_set=self.number, out=tensor
        )
        return self.work(handle, [tensor], _nothing, opts)

    def _sparse_allreduce(
        self, name: Unnamed, tensor: torch.Tensor, op: hvd.ReduceOp, opts: Any
    ) -> Work:
        if op not in (hvd.Sum, hvd.Average):
            raise UnsupportedError("the backend hvd reduces sparse tensors by SUM or AVG")
        from hvd.torch.mpi_ops import sparse_allreduce_async  # hvd.torch imports this module

        handle = sparse_allreduce_async(tensor, name, op, self.number)
        return self.work(handle, [tensor], tensor.copy_, opts)

    @_collective("grouped_allreduce", _grouped(gathers=True, place=0))
    def allreduce_coalesced(self, name: Unnamed, tensors: Tensors, opts: Any = None) -> Work:
        found = stated.listed(tensors)
        handle = operations.grouped_allreduce_async(
            found, stated.op_of(opts), name, process_set=self.number, outs=found
        )
        return self.work(handle, found, _nothing, opts)

    @_collective("reduce", _alone(broadcasts=True))
    def reduce(
        self, name: Unnamed, tensors: Tensors, opts: Any = None, op: Any = None, root: Any = None
    ) -> Work:
        tensor = stated.one("reduce", tensors)
        root = stated.root_of("reduce", opts if root is None else root, self.size())
        reduction = stated.op_of(getattr(opts, "reduceOp", None) if op is None else op)
        handle = operations.reduce_async(
            tensor, self.global_rank(root), reduction, name, process_set=self.number, out=tensor
        )
        return self.work(handle, [tensor], _nothing, opts)

    @_collective("reducescatter_base", _alone(broadcasts=False))
    def reduce_scatter_single(
        self, name: Unnamed, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        kind = "reduce_scatter_tensor"
        output, input = stated.one(kind, outputs), stated.one(kind, inputs)
        rows = self._rows_for_members(kind, output, input)
        op = stated.op_of(opts)
        handle = operations.reducescatter_async(rows, op, name, process_set=self.number)
        return self.work(handle, [output], _store_one(output), opts)

    def _rows_for_members(
        self, kind: str, output: torch.Tensor, input: torch.Tensor
    ) -> torch.Tensor:
        """A row for each member, whose shape tells the others how large this rank's output is."""
        stated.check_alike(kind, [output], input)
        stated.check_count(kind, "input", input, self.size() * output.numel())
        return input.reshape(self.size(), output.numel())

    @_collective("reducescatter", _alone(broadcasts=False))
    def reduce_scatter(
        self, name: Unnamed, outputs: Tensors, inputs: Any, opts: Any = None, op: Any = None
    ) -> Work:
        kind = "reduce_scatter"
        output, parts = stated.one(kind, outputs), stated.one_list(kind, inputs)
        stated.check_parts(kind, parts, self.size())
        stated.check_alike(kind, parts, output)
        stated.check_same_shape(kind, output, parts[self.rank()])
        reduction = stated.op_of(opts if op is None else op)
        rows, splits = stated.flat(parts), None
        if stated.are_even(parts):
            rows = rows.view(self.size(), output.numel())
        else:
            splits = stated.counts(parts)
        handle = operations.reducescatter_async(
            rows, reduction, name, process_set=self.number, splits=splits
        )
        return self.work(handle, [output], _store_one(output), opts)

    # ---- from one to all, and back ----

    @_collective("broadcast", _alone(broadcasts=False))
    def broadcast(
        self, name: Unnamed, tensors: Tensors, opts: Any = None, root: Any = None
    ) -> Work:
        tensor = stated.one("broadcast", tensors)
        root = stated.root_of("broadcast", opts if root is None else root, self.size())
        handle = operations.broadcast_async(
            tensor, self.global_rank(root), name, self.number, tensor
        )
        return self.work(handle, [tensor], _nothing, opts)

    def _gather_to(self, root: int, input: torch.Tensor, name: Unnamed) -> Any:
        """The handle of an operation that brings the input of each member to one of them."""
        elements, to = input.reshape(-1), self.global_rank(root)
        call, gathered, _ = operations.gather.prepare(elements, to, name, self.number)
        return submit(call, gathered, take_with_counts)

    @_collective("gather", _alone(broadcasts=False))
    def gather(
        self, name: Unnamed, outputs: Any, inputs: Tensors, opts: Any = None, root: Any = None
    ) -> Work:
        root = stated.root_of("gather", opts if root is None else root, self.size())
        input, into = stated.one("gather", inputs), stated.one_list("gather", outputs)
        stated.check_parts("gather", into, self.size() if root == self.rank() else 0)
        stated.check_alike("gather", into, input)
        expected = [0] * self.size()
        if root == self.rank():
            stated.check_same_shape("gather", into[root], input)
            expected = stated.counts(into)
        handle = self._gather_to(root, input, name)
        return self.work(handle, into, stated.arrival("gather", expected, into), opts)

    @_collective("gather_base", _alone(broadcasts=False))
    def gather_single(
        self, name: Unnamed, outputs: Any, inputs: Tensors, opts: Any = None
    ) -> Work:
        kind, root = "gather_into_tensor", stated.root_of("gather_into_tensor", opts, self.size())
        input, is_root = stated.one(kind, inputs), root == self.rank()
        into = [stated.one(kind, outputs)] if is_root else []
        stated.check_alike(kind, into, input)
        expected = [0] * self.size()
        if is_root:
            expected = [input.numel()] * self.size()
            stated.check_count(kind, "output", into[0], sum(expected))
        handle = self._gather_to(root, input, name)
        return self.work(handle, into, stated.arrival(kind, expected, into), opts)

    @_collective("scatter", _alone(broadcasts=False))
    def scatter(
        self, name: Unnamed, outputs: Tensors, inputs: Any, opts: Any = None, root: Any = None
    ) -> Work:
        root = stated.root_of("scatter", opts if root is None else root, self.size())
        output, parts = stated.one("scatter", outputs), stated.one_list("scatter", inputs)
        stated.check_parts("scatter", parts, self.size() if root == self.rank() else 0)
        stated.check_alike("scatter", parts, output)
        flat, splits, expected = output.new_empty(0), None, [0] * self.size()
        expected[root] = output.numel()
        if root == self.rank():
            stated.check_same_shape("scatter", output, parts[root])
            flat, splits = stated.flat(parts), stated.counts(parts)
        call, gathered, _ = operations.scatter.prepare(
            flat, self.global_rank(root), splits, name, self.number
        )
        handle = submit(call, gathered, take_with_counts)
        return self.work(handle, [output], stated.arrival("scatter", expected, [output]), opts)

    # ---- all to all ----

    @_collective("alltoall", _alone(broadcasts=False))
    def alltoall(self, name: Unnamed, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        kind, into, parts = "all_to_all", list(outputs), list(inputs)
        for each in (into, parts):
            stated.check_parts(kind, each, self.size())
        stated.check_alike(kind, into + parts, parts[0])
        own = self.rank()
        stated.check_count(kind, "tensor for this rank's part", into[own], parts[own].numel())
        handle = operations.alltoall_async(
            stated.flat(parts), stated.counts(parts), name, self.number
        )
        return self.work(handle, into, stated.arrival(kind, stated.counts(into), into), opts)

    @_collective("alltoall_base", _alone(broadcasts=False))
    def all_to_all_single(
        self,
        name: Unnamed,
        outputs: torch.Tensor,
        inputs: torch.Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> Work:
        kind, size = "all_to_all_single", self.size()
        stated.check_alike(kind, [outputs], inputs)
        expected = stated.counts_of_splits(kind, "output", output_split_sizes, outputs, size)
        splits = stated.counts_of_splits(kind, "input", input_split_sizes, inputs, size)
        handle = operations.alltoall_async(inputs.reshape(-1), splits, name, self.number)
        return self.work(handle, [outputs], stated.arrival(kind, expected, [outputs]), opts)

    # ---- from all to all ----

    @_collective("allgather", _alone(broadcasts=False))
    def allgather(self, name: Unnamed, outputs: Any, inputs: Tensors, opts: Any = None) -> Work:
        kind = "all_gather"
        input, into = stated.one(kind, inputs), stated.one_list(kind, outputs)
        row = self._row_for_list(kind, into, input)
        call, gathered, _ = operations.allgather.prepare(row, name, self.number)
        handle = submit(call, gathered, _with_counts)
        return self.work(handle, into, _store_lists(kind, [into]), opts)

    @_collective("grouped_allgather", _grouped(gathers=False, place=1))
    def allgather_coalesced(
        self, name: Unnamed, outputs: Any, inputs: Tensors, opts: Any = None
    ) -> Work:
        kind, found = "all_gather_coalesced", stated.listed(inputs)
        stated.check_parts(kind, outputs, self.size())
        lists = [[of_member[i] for of_member in outputs] for i in range(len(found))]
        rows = [self._row_for_list(kind, into, each) for into, each in zip(lists, found)]
        call, gathered, _ = operations.grouped_allgather.prepare(rows, name, self.number)
        handle = submit(call, gathered, _with_counts)
        return self.work(handle, sum(lists, []), _store_lists(kind, lists), opts)

    def _row_for_list(
        self, kind: str, into: Sequence[torch.Tensor], input: torch.Tensor
    ) -> torch.Tensor:
        """What this rank sends, one row. If it has been told that all send equally much the others
        must send such a row; otherwise theirs may have another length."""
        stated.check_parts(kind, into, self.size())
        stated.check_alike(kind, into, input)
        stated.check_same_shape(kind, into[self.rank()], input)
        return input.reshape(1, input.numel()) if stated.are_even(into) else input.reshape(-1)

    @_collective("allgather_base", _alone(broadcasts=False))
    def all_gather_single(
        self, name: Unnamed, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        kind = "all_gather_into_tensor"
        output, input = stated.one(kind, outputs), stated.one(kind, inputs)
        row = self._row_for_all(kind, output, input)
        handle = operations.allgather_async(row, name, self.number)
        return self.work(handle, [output], _store_one(output), opts)

    def _row_for_all(self, kind: str, output: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
        """What this rank sends, in a shape that must be the same on all members."""
        stated.check_alike(kind, [output], input)
        stated.check_count(kind, "output", output, self.size() * input.numel())
        return input.reshape(1, input.numel())

    @_collective("grouped_allgather_base", _grouped(gathers=False, place=1))
    def all_gather_single_coalesced(
        self, name: Unnamed, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        kind, into, found = "all_gather_into_tensor", list(outputs), list(inputs)
        stated.check_pairs(kind, into, found)
        rows = [self._row_for_all(kind, each, input) for each, input in zip(into, found)]
        handle = operations.grouped_allgather_async(rows, name, self.number)
        return self.work(handle, into, _store_each(into), opts)

    @_collective("grouped_reducescatter", _grouped(gathers=False, place=1))
    def reduce_scatter_single_coalesced(
        self, name: Unnamed, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        kind, into, found = "reduce_scatter_tensor", list(outputs), list(inputs)
        stated.check_pairs(kind, into, found)
        rows = [self._rows_for_members(kind, each, input) for each, input in zip(into, found)]
        handle = operations.grouped_reducescatter_async(
            rows, stated.op_of(opts), name, process_set=self.number
        )
        return self.work(handle, into, _store_each(into), opts)

    # ---- barrier ----

    @_collective("barrier", _alone(broadcasts=True))
    def barrier(self, name: Unnamed, opts: Any = None) -> Work:
        """As torch's own groups do, it waits also for all that this rank has submitted before, and
        that its GPU has in its queues. It is an allreduce of nothing, of which several may be in
        flight."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        earlier = pending_of(self.limit)
        handle = operations.allreduce_async(
            torch.empty(0), hvd.Sum, name, process_set=self.number
        )

        def wait_for_earlier(_: Any) -> None:
            for work in earlier:
                work.wait()

        return self.work(handle, [], wait_for_earlier, opts)
