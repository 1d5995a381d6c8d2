"""Persistent operations: collectives of tensors on GPUs that ranks agree on once, and then start as
often as they like, also while a stream is captured into a CUDA graph."""
import ctypes
import operator
import os
from typing import Any, List, Optional, Sequence, Set, Tuple

from hvd._arrays import adapt
from hvd._calls import Call, Description, options_of, run
from hvd._job import set_id
from hvd._library import lib
from hvd._operations import (
    Average,
    Gathered,
    Name,
    ReduceOp,
    Slot,
    describe,
    naming,
    op_number,
    share_shape,
)
from hvd.errors import InvalidError, as_int, check


class Persistent:
    """A persistent operation, made by allreduce_init, broadcast_init, allgather_init or
    reducescatter_init. [result] is what every start writes: a tensor, or a list of them. It keeps
    the tensors until free(), or the end of a with block.

        gradients = [each.grad for each in model.parameters()]
        mean = hvd.allreduce_init(gradients, outs=gradients)
        with torch.cuda.graph(graph):
            loss(model(batch)).backward()
            mean.start()
            optimizer.step()
        graph.replay()"""

    def __init__(self, number: int, result: Any, arrays: Sequence[Any], adapter: Any):
        self.result = result
        self._number, self._arrays, self._adapter = number, list(arrays), adapter
        self._streams: Set[Optional[int]] = set()
        self._pid = os.getpid()

    def start(self, stream: Any = None) -> None:
        """Start it in a stream: one of torch or cupy, or its number; None is the stream in which
        the program uses the tensors now, so torch's current one. Returns when all is in the stream;
        what is put there later finds the result. While the stream is captured it becomes part of
        the graph; from then on until free() all other operations of this rank on GPUs are refused.
        All ranks start persistent operations, and submit others on GPUs, in the same order."""
        if self._number == 0:
            raise InvalidError("this persistent operation was freed; make another")
        number = self._adapter.stream(self._arrays[0]) if stream is None else _number_of(stream)
        check(lib.hvd_persistent_start(self._number, number))
        if number not in self._streams:
            self._streams.add(number)
            for array in self._arrays:
                self._adapter.keep_in_stream(array, number)

    def free(self) -> None:
        """Free it; [result] stays. Destroy the graphs that it is in before."""
        number, self._number, self._arrays = self._number, 0, []
        if number != 0 and self._pid == os.getpid():
            check(lib.hvd_persistent_free(number))

    def __enter__(self) -> "Persistent":
        return self

    def __exit__(self, *_: Any) -> None:
        self.free()

    def __del__(self) -> None:
        if getattr(self, "_number", 0) != 0 and self._pid == os.getpid():
            lib.hvd_persistent_free(self._number)


def _number_of(stream: Any) -> Optional[int]:
    """CUDA's handle of a stream."""
    found = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        expected = "expected a stream of torch or cupy, or its number"
        raise InvalidError("stream=%r: %s" % (stream, expected))
    return found or None


# ---- Making one ---------------------------------------------------------------------------------


def _make(
    operation: str, name: Name, number: int, description: Description, *arguments: Any
) -> int:
    """libhvd's number of a new operation of set [number]. [arguments] come after the tensors."""
    made = ctypes.c_uint64(0)
    call = Call(operation, (description.array, *arguments, made), keep=description.keep)
    grouped = operation != "broadcast_init"
    kind = "grouped_" + operation if grouped else operation
    call.set_name(naming(kind, name, number), description, grouped)
    return run(call, made, operator.attrgetter("value"))


def _slot(tensor: Any, out: Any, shape: Optional[Tuple[int, ...]] = None) -> Slot:
    """libhvd works on the memory of the tensors themselves, at every start."""
    given, adapter = adapt(tensor)
    wrong = [each for each in (given, out) if each is not None and not adapter.is_contiguous(each)]
    if wrong:
        raise InvalidError("a persistent operation takes contiguous tensors and outs; copy them")
    return Slot(tensor, out, shape)


def _of_slots(number: int, slots: List[Slot], result: Any) -> Persistent:
    arrays = [slot.source for slot in slots] + [slot.target for slot in slots]
    return Persistent(number, result, arrays, slots[0].adapter)


def _reduction(
    operation: str, name: Name, slots: List[Slot], op: ReduceOp, settings: Tuple
) -> Persistent:
    """[settings]: set, factors and wire."""
    arguments = (len(slots), op_number(op), options_of(*settings))
    made = _make(operation, name, settings[0], describe(slots), *arguments)
    return _of_slots(made, slots, [slot.result for slot in slots])


def _outs_of(tensors: Sequence[Any], outs: Optional[Sequence[Any]]) -> Sequence[Any]:
    if hasattr(tensors, "shape"):
        raise InvalidError("tensors is one tensor; a persistent operation takes a list of them")
    if len(tensors) == 0:
        raise InvalidError("no tensors: a persistent operation has one or more")
    if outs is not None and len(outs) != len(tensors):
        raise InvalidError("%d outs for %d tensors; give one for each" % (len(outs), len(tensors)))
    return [None] * len(tensors) if outs is None else outs


def allreduce_init(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    outs: Optional[Sequence[Any]] = None,
) -> Persistent:
    """Make a persistent grouped_allreduce of contiguous tensors on GPUs; every member calls it.
    Without [outs], which may be the tensors themselves, the results are new tensors."""
    number = set_id(process_set)
    outs = _outs_of(tensors, outs)
    slots = [_slot(tensor, out) for tensor, out in zip(tensors, outs)]
    settings = (number, prescale, postscale, wire)
    return _reduction("allreduce_init", name, slots, op, settings)


def reducescatter_init(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
) -> Persistent:
    """Make a persistent grouped_reducescatter; every member calls it. The results are new
    tensors."""
    number = set_id(process_set)
    outs = _outs_of(tensors, None)
    slots = [_slot(tensor, out, share_shape(tensor, number)) for tensor, out in zip(tensors, outs)]
    settings = (number, prescale, postscale, wire)
    return _reduction("reducescatter_init", name, slots, op, settings)


def broadcast_init(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Persistent:
    """Make a persistent broadcast; every member calls it. [out] may be the tensor itself."""
    number = set_id(process_set)
    slot = _slot(tensor, out)
    arguments = (as_int("root_rank", root_rank), options_of(number))
    made = _make("broadcast_init", name, number, describe([slot]), *arguments)
    return _of_slots(made, [slot], slot.result)


def allgather_init(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = None
) -> Persistent:
    """Make a persistent grouped_allgather, whose numbers of rows are those of now; every member
    calls it. The results are new tensors."""
    number = set_id(process_set)
    _outs_of(tensors, None)
    for tensor in tensors:
        _slot(tensor, tensor)
    gathered = Gathered(tensors, lib.hvd_set_size(number))
    arguments = (gathered.results, len(tensors), options_of(number))
    made = _make("allgather_init", name, number, gathered.describe(), *arguments)
    arrays, adapter = [array for array, _ in gathered.pairs], gathered.pairs[0][1]
    results = gathered.take_all()
    return Persistent(made, results, arrays + results, adapter)

