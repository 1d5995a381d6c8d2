"""The collectives, on whatever holds elements: waiting, asynchronous and grouped.

Of each operation a function prepares the call of libhvd, for all its forms: _allreduce for
allreduce and allreduce_async. What it returns are the arguments of _calls.run and _calls.submit:
the call, a value that is kept alive, and what makes the result of that value."""
import ctypes
import enum
import operator
from itertools import repeat
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from hvd import _abi, _plans
from hvd._arrays import HOST, Place, adapt, refuse
from hvd._calls import Call, Description, options_of, run, submit
from hvd._flight import Handle
from hvd._job import set_id
from hvd._library import lib, libc
from hvd._names import made_up_name
from hvd._room import Room
from hvd.errors import InvalidError, as_int

Prepared = Tuple[Call, Any, Optional[Callable[[Any], Any]]]


class ReduceOp(enum.IntEnum):
    """How elements are reduced."""

    SUM = _abi.ENUMS["hvd_op"]["HVD_SUM"]
    AVERAGE = _abi.ENUMS["hvd_op"]["HVD_AVERAGE"]
    MIN = _abi.ENUMS["hvd_op"]["HVD_MIN"]
    MAX = _abi.ENUMS["hvd_op"]["HVD_MAX"]
    PRODUCT = _abi.ENUMS["hvd_op"]["HVD_PRODUCT"]
    ADASUM = _abi.ENUMS["hvd_op"]["HVD_ADASUM"]


Sum, Average, Min, Max = ReduceOp.SUM, ReduceOp.AVERAGE, ReduceOp.MIN, ReduceOp.MAX
Product, Adasum = ReduceOp.PRODUCT, ReduceOp.ADASUM

# ---- Tensors and results ------------------------------------------------------------------------


class Slot:
    """One tensor of an operation: where it comes from, where it goes, and what the caller gets."""

    __slots__ = ("source", "target", "result", "adapter", "place", "target_address")

    def __init__(self, tensor: Any, out: Any, shape: Optional[Tuple[int, ...]] = None):
        given, self.adapter = adapt(tensor)
        in_place = out is tensor and out is not None
        self.source = self.adapter.contiguous(given)
        self.place = self.adapter.place(self.source)
        wanted = self.place.shape if shape is None else shape
        if out is None:
            self.result = self.target = self.adapter.empty(given, wanted)
        else:
            self.result = given if in_place else _checked_out(out, self.adapter, self.place, wanted)
            if not self.adapter.is_writable(self.result):
                raise refuse("an array as output,", "it is read-only", "pass a copy, or no out")
            if self.adapter.is_contiguous(self.result):
                self.target = self.source if in_place else self.result
            else:
                self.target = self.source if in_place else self.adapter.empty(given, wanted)
        in_source = self.target is self.source
        self.target_address = (self.place if in_source else self.adapter.place(self.target)).address

    def stream(self) -> Optional[int]:
        """Of a tensor on a GPU: the stream in which the program uses it."""
        return None if self.place.memory == HOST else self.adapter.stream(self.source)

    def stays(self, tensor: Any, adapter: Any) -> bool:
        """Does libhvd work on the memory of the caller's tensor itself?"""
        return (
            self.result is tensor
            and self.place.memory == HOST
            and self.adapter is adapter
            and adapter.is_contiguous(tensor)
        )

    def finish(self) -> Any:
        if self.place.memory != HOST:
            self.adapter.use_in_stream(self.source)
            self.adapter.use_in_stream(self.target)
        if (
            self.target is not self.result
            and self.target_address != self.adapter.place(self.result).address
        ):
            self.adapter.copy(self.result, self.target)
        return self.result


def _checked_out(out: Any, adapter: Any, place: Place, shape: Tuple[int, ...]) -> Any:
    array, other = adapt(out)
    if other is not adapter:
        raise InvalidError("out is a %s, the tensor is of another kind" % type(out).__name__)
    found = adapter.place(array)
    if found.dtype != place.dtype or tuple(found.shape) != tuple(shape):
        raise InvalidError(
            "out has the shape %s or a type other than the tensor's; expected %s and the same type"
            % (tuple(found.shape), tuple(shape))
        )
    return array


def describe(names: Sequence[str], slots: Sequence[Slot]) -> Description:
    """What libhvd is told of the tensors."""
    description = Description(len(slots))
    for name, slot in zip(names, slots):
        description.add(name, slot.place, slot.place.address, slot.target_address)
    return description


def group_names(kind: str, name: Optional[str], count: int, number: int) -> Tuple[str, List[str]]:
    base = name if name is not None else made_up_name("grouped_" + kind, number)
    return base, ["%s_%dof%d" % (base, i + 1, count) for i in range(count)]


def op_number(op: Any) -> int:
    """libhvd's number of a reduction."""
    if isinstance(op, int):
        return as_int("op", op)
    known = ", ".join("hvd." + each.name.title() for each in ReduceOp)
    raise InvalidError("op=%r: expected one of %s" % (op, known))


def _finish_one(slots: Sequence[Slot]) -> Any:
    return slots[0].finish()


def _finish_all(slots: Sequence[Slot]) -> List[Any]:
    return [slot.finish() for slot in slots]


def _prepare_reduction(
    kind: str,
    slots: Sequence[Slot],
    names: Sequence[str],
    base: Optional[str],
    op: ReduceOp,
    settings: Tuple,
) -> Prepared:
    """An allreduce or reducescatter of one tensor, or of a group that has the name [base].
    [settings]: set, factors and wire."""
    description = describe(names, slots)
    options = options_of(*settings, slots[0].stream() if slots else None)
    if base is None:
        arguments = (description.array, op_number(op), options)
        call = Call(kind, arguments, names[0], description.keep)
        return _on_device(call, slots), slots, _finish_one
    arguments = (description.array, len(slots), op_number(op), options)
    call = Call("grouped_" + kind, arguments, base, description.keep)
    return _on_device(call, slots), slots, _finish_all


def _on_device(call: Call, slots: Sequence[Slot]) -> Call:
    """Tell the call of tensors on a GPU which stream waits."""
    if slots and slots[0].place.memory != HOST:
        call.stream = slots[0].stream
    return call


# ---- allreduce ----------------------------------------------------------------------------------


def _allreduce(
    tensor: Any,
    op: ReduceOp,
    name: Optional[str],
    prescale: float,
    postscale: float,
    wire: Optional[str],
    process_set: Any,
    out: Any,
) -> Prepared:
    number = 0 if process_set is None else set_id(process_set)
    in_place = out is tensor and name is not None
    settings = (op, number, prescale, postscale, wire)
    if in_place:
        call = _plans.find(name, settings, tensor)
        if call is not None:
            return call, tensor, None
    if name is None:
        name = made_up_name("allreduce", number)
    slot = Slot(tensor, out)
    prepared = _prepare_reduction("allreduce", [slot], [name], None, op, settings[1:])
    if in_place and slot.stays(tensor, slot.adapter):
        _plans.keep(name, settings, slot.adapter.signature, tensor, prepared[0])
    return prepared


def allreduce_async(
    tensor: Any,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Handle:
    """Submit allreduce; the handle's wait() returns what allreduce returns."""
    return submit(*_allreduce(tensor, op, name, prescale, postscale, wire, process_set, out))


def allreduce(
    tensor: Any,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Any:
    """Reduce a tensor over the process set; every member gets the result: a new array of the
    tensor's kind, or [out], which may be the tensor itself. [name] must be the same on all ranks;
    without one hvd counts. [prescale] and [postscale] multiply inputs and results. [wire] is
    'exact', 'float16' or 'bfloat16', the type in which float32 elements travel."""
    return run(*_allreduce(tensor, op, name, prescale, postscale, wire, process_set, out))


def _grouped_allreduce(
    tensors: Sequence[Any],
    op: ReduceOp,
    name: Optional[str],
    prescale: float,
    postscale: float,
    wire: Optional[str],
    process_set: Any,
    outs: Optional[Sequence[Any]],
) -> Prepared:
    if outs is not None and len(outs) != len(tensors):
        raise InvalidError("%d outs for %d tensors; give one for each" % (len(outs), len(tensors)))
    number = set_id(process_set)
    in_place = outs is not None and name is not None and all(map(operator.is_, tensors, outs))
    settings = (op, number, prescale, postscale, wire)
    if in_place:
        call = _plans.find(name, settings, tensors)
        if call is not None:
            return call, list(tensors), None
    base, names = group_names("allreduce", name, len(tensors), number)
    slots = list(map(Slot, tensors, repeat(None) if outs is None else outs))
    prepared = _prepare_reduction("allreduce", slots, names, base, op, settings[1:])
    if in_place and slots:
        adapter = slots[0].adapter
        if all(map(Slot.stays, slots, tensors, repeat(adapter))):
            _plans.keep(name, settings, adapter.signatures, tensors, prepared[0])
    return prepared


def grouped_allreduce_async(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    outs: Optional[Sequence[Any]] = None,
) -> Handle:
    """Submit grouped_allreduce; the handle's wait() returns the list of results."""
    return submit(
        *_grouped_allreduce(tensors, op, name, prescale, postscale, wire, process_set, outs)
    )


def grouped_allreduce(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    outs: Optional[Sequence[Any]] = None,
) -> List[Any]:
    """allreduce of several tensors that run together, all or none."""
    return run(*_grouped_allreduce(tensors, op, name, prescale, postscale, wire, process_set, outs))


# ---- reducescatter ------------------------------------------------------------------------------


def share_shape(tensor: Any, number: int) -> Tuple[int, ...]:
    """The shape of this rank's share."""
    array, adapter = adapt(tensor)
    shape = tuple(array.shape)
    members, member = lib.hvd_set_size(number), lib.hvd_set_rank(number)
    if not shape or members < 1 or member < 0:
        return shape  # libhvd says what is wrong
    return (shape[0] // members + (1 if member < shape[0] % members else 0),) + shape[1:]


def _reducescatter(
    tensor: Any,
    op: ReduceOp,
    name: Optional[str],
    prescale: float,
    postscale: float,
    wire: Optional[str],
    process_set: Any,
) -> Prepared:
    number = set_id(process_set)
    names = [name if name is not None else made_up_name("reducescatter", number)]
    slots = [Slot(tensor, None, share_shape(tensor, number))]
    settings = (number, prescale, postscale, wire)
    return _prepare_reduction("reducescatter", slots, names, None, op, settings)


def reducescatter_async(
    tensor: Any,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
) -> Handle:
    """Submit reducescatter."""
    return submit(*_reducescatter(tensor, op, name, prescale, postscale, wire, process_set))


def reducescatter(
    tensor: Any,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
) -> Any:
    """Reduce a tensor; each member gets its share of the rows, the first ones one more where they
    do not divide."""
    return run(*_reducescatter(tensor, op, name, prescale, postscale, wire, process_set))


def _grouped_reducescatter(
    tensors: Sequence[Any],
    op: ReduceOp,
    name: Optional[str],
    prescale: float,
    postscale: float,
    wire: Optional[str],
    process_set: Any,
) -> Prepared:
    number = set_id(process_set)
    base, names = group_names("reducescatter", name, len(tensors), number)
    slots = [Slot(tensor, None, share_shape(tensor, number)) for tensor in tensors]
    settings = (number, prescale, postscale, wire)
    return _prepare_reduction("reducescatter", slots, names, base, op, settings)


def grouped_reducescatter_async(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
) -> Handle:
    """Submit grouped_reducescatter."""
    return submit(
        *_grouped_reducescatter(tensors, op, name, prescale, postscale, wire, process_set)
    )


def grouped_reducescatter(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
) -> List[Any]:
    """reducescatter of several tensors that run together, all or none."""
    return run(*_grouped_reducescatter(tensors, op, name, prescale, postscale, wire, process_set))


# ---- broadcast ----------------------------------------------------------------------------------


def _broadcast(
    tensor: Any, root_rank: int, name: Optional[str], process_set: Any, out: Any
) -> Prepared:
    number = set_id(process_set)
    if name is None:
        name = made_up_name("broadcast", number)
    slots = [Slot(tensor, out)]
    description = describe([name], slots)
    options = options_of(number, stream=slots[0].stream())
    arguments = (description.array, as_int("root_rank", root_rank), options)
    call = Call("broadcast", arguments, name, description.keep)
    return _on_device(call, slots), slots, _finish_one


def broadcast_async(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Handle:
    """Submit broadcast."""
    return submit(*_broadcast(tensor, root_rank, name, process_set, out))


def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Any:
    """Every member gets the tensor of rank [root_rank], a rank of the job also inside a set.
    Returns a new array, or [out], which may be the tensor itself."""
    return run(*_broadcast(tensor, root_rank, name, process_set, out))


# ---- allgather and alltoall ---------------------------------------------------------------------


class Gathered:
    """Room for what libhvd allocates, and the arrays made of it."""

    __slots__ = ("pairs", "places", "results", "rows", "rooms")

    def __init__(self, tensors: Sequence[Any], members: int):
        self.pairs = [
            (adapter.contiguous(array), adapter) for array, adapter in map(adapt, tensors)
        ]
        self.places = [adapter.place(array) for array, adapter in self.pairs]
        self.results = (_abi.Result * max(len(tensors), 1))()
        self.rows = [(ctypes.c_int64 * max(members, 1))() for _ in tensors]
        self.rooms: Dict[int, Room] = {}  # of those on a GPU
        for i, (result, rows) in enumerate(zip(self.results, self.rows)):
            result.rows = ctypes.addressof(rows)
            if self.places[i].memory != HOST:
                room = self.rooms[i] = Room(*self.pairs[i])
                result.allocate, result.arg = room.function, room.number

    def describe(self, names: Sequence[str]) -> Description:
        description = Description(len(names))
        for name, place in zip(names, self.places):
            description.add(name, place, place.address, 0)
        return description

    def stream(self) -> Optional[int]:
        """Of tensors on a GPU: the stream in which the program uses them."""
        array, adapter = self.pairs[0]
        return adapter.stream(array) if self.rooms else None

    def call(self, kind: str, arguments: Tuple, number: int, name: str, keep: Any) -> Call:
        """The call of libhvd; to the arguments come the options, for the set [number]."""
        options = options_of(number, stream=self.stream())
        call = Call(kind, arguments + (options,), name, keep)
        if self.rooms:
            call.stream = self.stream
        return call

    def take(self, i: int = 0) -> Any:
        """The result of tensor [i]; its memory now belongs to the array."""
        result, (array, adapter) = self.results[i], self.pairs[i]
        address, result.data = result.data, None
        shape = (result.row_count,) + tuple(self.places[i].shape[1:])
        if i not in self.rooms:
            return adapter.from_memory(array, address, shape)
        adapter.use_in_stream(array)
        if not address:
            return adapter.empty(array, shape)
        made = adapter.from_allocated(array, self.rooms.pop(i).memory, shape)
        adapter.use_in_stream(made)
        return made

    def take_all(self) -> List[Any]:
        return list(map(self.take, range(len(self.pairs))))

    def __del__(self) -> None:
        for i, result in enumerate(getattr(self, "results", ())):
            if result.data and i not in self.rooms:
                libc.free(result.data)


def prepare_allgather(tensor: Any, name: Optional[str], process_set: Any) -> Prepared:
    """The value is what was gathered, as a Gathered."""
    number = set_id(process_set)
    if name is None:
        name = made_up_name("allgather", number)
    gathered = Gathered([tensor], lib.hvd_set_size(number))
    description = gathered.describe([name])
    arguments = (description.array, gathered.results)
    call = gathered.call("allgather", arguments, number, name, description.keep)
    return call, gathered, Gathered.take


def allgather_async(tensor: Any, name: Optional[str] = None, process_set: Any = None) -> Handle:
    """Submit allgather."""
    return submit(*prepare_allgather(tensor, name, process_set))


def allgather(tensor: Any, name: Optional[str] = None, process_set: Any = None) -> Any:
    """Concatenate the members' tensors along the first dimension, which may differ between them."""
    return run(*prepare_allgather(tensor, name, process_set))


def _grouped_allgather(tensors: Sequence[Any], name: Optional[str], process_set: Any) -> Prepared:
    number = set_id(process_set)
    base, names = group_names("allgather", name, len(tensors), number)
    gathered = Gathered(tensors, lib.hvd_set_size(number))
    description = gathered.describe(names)
    arguments = (description.array, gathered.results, len(tensors))
    call = gathered.call("grouped_allgather", arguments, number, base, description.keep)
    return call, gathered, Gathered.take_all


def grouped_allgather_async(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = None
) -> Handle:
    """Submit grouped_allgather."""
    return submit(*_grouped_allgather(tensors, name, process_set))


def grouped_allgather(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = None
) -> List[Any]:
    """allgather of several tensors that run together, all or none."""
    return run(*_grouped_allgather(tensors, name, process_set))


def _splits_array(splits: Sequence[int], members: int):
    numbers = [int(each) for each in splits]
    if len(numbers) != members and members > 0:
        raise InvalidError(
            "alltoall: the length of splits is %d; expected one for each of the %d members"
            % (len(numbers), members)
        )
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


def _take_with_counts(gathered: Gathered) -> Tuple[Any, List[int]]:
    return gathered.take(), list(gathered.rows[0])


def prepare_alltoall(
    tensor: Any, splits: Optional[Sequence[int]], name: Optional[str], process_set: Any
) -> Prepared:
    """The value is what was received, as a Gathered."""
    number = set_id(process_set)
    members = lib.hvd_set_size(number)
    if name is None:
        name = made_up_name("alltoall", number)
    gathered = Gathered([tensor], members)
    description = gathered.describe([name])
    parts = None if splits is None else _splits_array(splits, members)
    arguments = (description.array, parts, gathered.results)
    call = gathered.call("alltoall", arguments, number, name, description.keep)
    return call, gathered, _take_with_counts


def alltoall_async(
    tensor: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: Any = None,
) -> Handle:
    """Submit alltoall."""
    return submit(*prepare_alltoall(tensor, splits, name, process_set))


def alltoall(
    tensor: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: Any = None,
) -> Tuple[Any, List[int]]:
    """Send splits[i] rows to member i, or equal parts; returns the rows received, and how many came
    from each."""
    return run(*prepare_alltoall(tensor, splits, name, process_set))


# ---- join, barrier, handles ---------------------------------------------------------------------


def _join(process_set: Any) -> Prepared:
    last = ctypes.c_int(-1)
    return Call("join", (set_id(process_set), last)), last, operator.attrgetter("value")


def join_async(process_set: Any = None) -> Handle:
    """Submit join."""
    return submit(*_join(process_set))


def join(process_set: Any = None) -> int:
    """Say that this rank has no more data, and wait until all ranks have joined; returns the rank
    that joined last. Until then this rank takes part in allreduces with zeros."""
    return run(*_join(process_set))


def barrier_async(process_set: Any = None) -> Handle:
    """Submit barrier."""
    return submit(Call("barrier", (set_id(process_set),)), None)


def barrier(process_set: Any = None) -> None:
    """Wait until every member has called it."""
    run(Call("barrier", (set_id(process_set),)), None)


def poll(handle: Handle) -> bool:
    """Is the operation done? Never waits."""
    return handle.done()


def synchronize(handle: Handle) -> Any:
    """Wait for an operation, and return its result or raise its error."""
    return handle.wait()
