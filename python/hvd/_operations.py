"""The collectives, on whatever holds elements: waiting, asynchronous and grouped.

One function states the signature of an operation and prepares its call of libhvd; waiting and
submitting make the two forms of it, allreduce and allreduce_async. It returns the arguments of
_calls.run and _calls.submit: the call, a value that is kept alive, and the function that makes the
result of that value."""
import ctypes
import enum
import operator
import struct
from functools import wraps
from itertools import repeat
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from hvd import _abi, _plans
from hvd._arrays import HOST, Place, ResultMemory, adapt, refuse
from hvd._calls import Call, Description, options_of, run, submit
from hvd._flight import Handle
from hvd._job import set_id
from hvd._library import lib
from hvd._names import Unnamed, begin_anew, unnamed
from hvd._room import Room
from hvd.errors import InvalidError, as_int

Prepared = Tuple[Call, Any, Optional[Callable[[Any], Any]]]
Name = Union[str, Unnamed, None]  # None and Unnamed: hvd makes one up


class ReduceOp(enum.IntEnum):
    """How elements are reduced."""

    SUM = _abi.ENUMS["hvd_op"]["HVD_SUM"]
    AVERAGE = _abi.ENUMS["hvd_op"]["HVD_AVERAGE"]
    MIN = _abi.ENUMS["hvd_op"]["HVD_MIN"]
    MAX = _abi.ENUMS["hvd_op"]["HVD_MAX"]
    PRODUCT = _abi.ENUMS["hvd_op"]["HVD_PRODUCT"]
    ADASUM = _abi.ENUMS["hvd_op"]["HVD_ADASUM"]
    BAND = _abi.ENUMS["hvd_op"]["HVD_BAND"]
    BOR = _abi.ENUMS["hvd_op"]["HVD_BOR"]
    BXOR = _abi.ENUMS["hvd_op"]["HVD_BXOR"]


Sum, Average, Min, Max = ReduceOp.SUM, ReduceOp.AVERAGE, ReduceOp.MIN, ReduceOp.MAX
Product, Adasum = ReduceOp.PRODUCT, ReduceOp.ADASUM
Band, Bor, Bxor = ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR  # bitwise, of integers and bools

# ---- The forms of an operation ------------------------------------------------------------------

if TYPE_CHECKING:  # editors show both forms with the parameters of the function that prepares
    from typing_extensions import ParamSpec

    Parameters = ParamSpec("Parameters")


def waiting(prepare: "Callable[Parameters, Prepared]") -> "Callable[Parameters, Any]":
    """The form that waits and returns the result. [prepare] stays its attribute of that name."""

    @wraps(prepare)
    def form(*args: Any, **kwargs: Any) -> Any:
        return run(*prepare(*args, **kwargs))

    form.prepare = prepare
    return form


def submitting(operation: "Callable[Parameters, Any]") -> "Callable[Parameters, Handle]":
    """The form that returns a handle, of an operation in its waiting form."""
    prepare = operation.prepare

    @wraps(prepare)
    def form(*args: Any, **kwargs: Any) -> Handle:
        return submit(*prepare(*args, **kwargs))

    form.__name__ = form.__qualname__ = operation.__name__ + "_async"
    form.__doc__ = "Submit %s; the handle's wait() returns its result." % operation.__name__
    return form


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


def describe(slots: Sequence[Slot]) -> Description:
    """What libhvd is told of the tensors, but for their names."""
    description = Description(len(slots))
    for slot in slots:
        description.add(None, slot.place, slot.place.address, slot.target_address)
    return description


def naming(kind: str, name: Name, number: int) -> Union[str, Unnamed]:
    """The name of an operation of this kind in set [number], or what makes one up."""
    return unnamed(kind, number) if name is None else name


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
    name: Name,
    grouped: bool,
    op: ReduceOp,
    settings: Tuple,
    splits: Any = None,
    root: Tuple[int, ...] = (),
) -> Prepared:
    """A reduction of one tensor, or of a group. [settings]: set, factors and wire."""
    description = describe(slots)
    options = options_of(*settings, slots[0].stream() if slots else None)
    count = (len(slots),) if grouped else ()
    operation = "grouped_" + kind if grouped else kind
    parts = () if splits is None else (splits,)
    arguments = (description.array, *count, *parts, op_number(op), *root, options)
    call = Call(operation + "v" if parts else operation, arguments, keep=description.keep)
    call.set_name(naming(operation, name, settings[0]), description, grouped)
    return _on_device(call, slots), slots, _finish_all if grouped else _finish_one


def _on_device(call: Call, slots: Sequence[Slot]) -> Call:
    """Tell the call of tensors on a GPU which stream waits."""
    if slots and slots[0].place.memory != HOST:
        call.stream = slots[0].stream
    return call


# ---- allreduce ----------------------------------------------------------------------------------


@waiting
def allreduce(
    tensor: Any,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
):
    """Reduce a tensor over the process set; every member gets the result: a new array of the
    tensor's kind, or [out], which may be the tensor itself. [name] must be the same on all ranks;
    of one above 255 bytes libhvd gets the beginning and a digest. Without a name hvd counts the
    operations of each kind that were accepted since the set's last join. [prescale] and [postscale]
    multiply inputs and results. [wire] is 'exact', 'float16' or 'bfloat16', the type in which
    float32 elements travel."""
    number = 0 if process_set is None else set_id(process_set)
    in_place = out is tensor and isinstance(name, str)
    settings = (op, number, prescale, postscale, wire)
    if in_place:
        call = _plans.find(name, settings, tensor)
        if call is not None:
            return call, tensor, None
    slot = Slot(tensor, out)
    prepared = _prepare_reduction("allreduce", [slot], name, False, op, settings[1:])
    if in_place and slot.stays(tensor, slot.adapter):
        _plans.keep(name, settings, slot.adapter.signature, tensor, prepared[0])
    return prepared


allreduce_async = submitting(allreduce)


@waiting
def grouped_allreduce(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    outs: Optional[Sequence[Any]] = None,
):
    """allreduce of several tensors that run together, all or none."""
    if outs is not None and len(outs) != len(tensors):
        raise InvalidError("%d outs for %d tensors; give one for each" % (len(outs), len(tensors)))
    number = set_id(process_set)
    in_place = (
        outs is not None and isinstance(name, str) and all(map(operator.is_, tensors, outs))
    )
    settings = (op, number, prescale, postscale, wire)
    if in_place:
        call = _plans.find(name, settings, tensors)
        if call is not None:
            return call, list(tensors), None
    slots = list(map(Slot, tensors, repeat(None) if outs is None else outs))
    prepared = _prepare_reduction("allreduce", slots, name, True, op, settings[1:])
    if in_place and slots:
        adapter = slots[0].adapter
        if all(map(Slot.stays, slots, tensors, repeat(adapter))):
            _plans.keep(name, settings, adapter.signatures, tensors, prepared[0])
    return prepared


grouped_allreduce_async = submitting(grouped_allreduce)


# ---- reducescatter ------------------------------------------------------------------------------


def _splits_array(kind: str, splits: Sequence[int], members: int):
    given = splits.tolist() if hasattr(splits, "tolist") else splits
    try:
        numbers = list(map(operator.index, given))
        struct.pack("%dq" % len(numbers), *numbers)  # which fails where ctypes would cut them
    except (TypeError, struct.error):
        raise InvalidError(
            "%s: splits=%.80r: expected a list of %d numbers of rows, one for each member"
            % (kind, given, max(members, 1))
        ) from None
    if len(numbers) != members and members > 0:
        raise InvalidError(
            "%s: the length of splits is %d; expected one for each of the %d members"
            % (kind, len(numbers), members)
        )
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


def share_shape(tensor: Any, number: int, splits: Any = None) -> Tuple[int, ...]:
    """The shape of this rank's share."""
    array, adapter = adapt(tensor)
    shape = tuple(array.shape)
    members, member = lib.hvd_set_size(number), lib.hvd_set_rank(number)
    if not shape or members < 1 or member < 0:
        return shape  # libhvd says what is wrong
    if splits is not None:
        return (max(splits[member], 0),) + shape[1:]
    return (shape[0] // members + (1 if member < shape[0] % members else 0),) + shape[1:]


@waiting
def reducescatter(
    tensor: Any,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    splits: Optional[Sequence[int]] = None,
):
    """Reduce a tensor; each member gets its share of the rows: member i gets splits[i] of them, the
    same list on all members, or equal shares, the first ones one more where they do not divide."""
    number = set_id(process_set)
    parts = None
    if splits is not None:
        parts = _splits_array("reducescatter", splits, lib.hvd_set_size(number))
    slots = [Slot(tensor, None, share_shape(tensor, number, parts))]
    settings = (number, prescale, postscale, wire)
    return _prepare_reduction("reducescatter", slots, name, False, op, settings, parts)


reducescatter_async = submitting(reducescatter)


@waiting
def grouped_reducescatter(
    tensors: Sequence[Any],
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
):
    """reducescatter of several tensors that run together, all or none."""
    number = set_id(process_set)
    slots = [Slot(tensor, None, share_shape(tensor, number)) for tensor in tensors]
    settings = (number, prescale, postscale, wire)
    return _prepare_reduction("reducescatter", slots, name, True, op, settings)


grouped_reducescatter_async = submitting(grouped_reducescatter)


# ---- reduce -------------------------------------------------------------------------------------


def _finish_elsewhere(slots: Sequence[Slot]) -> None:
    slots[0].finish()


@waiting
def reduce(
    tensor: Any,
    root_rank: int,
    op: ReduceOp = Average,
    name: Optional[str] = None,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
):
    """Reduce a tensor over the process set; only rank [root_rank], a rank of the job also inside a
    set, gets the result: a new array, or [out], which may be the tensor itself. The others get
    None."""
    number, root = set_id(process_set), as_int("root_rank", root_rank)
    is_root = lib.hvd_rank() == root
    slot = Slot(tensor, out) if is_root else Slot(tensor, None, (0,))
    settings = (number, prescale, postscale, wire)
    call, slots, _ = _prepare_reduction(
        "reduce", [slot], name, False, op, settings, root=(root,)
    )
    return call, slots, _finish_one if is_root else _finish_elsewhere


reduce_async = submitting(reduce)


# ---- broadcast ----------------------------------------------------------------------------------


@waiting
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
):
    """Every member gets the tensor of rank [root_rank], a rank of the job also inside a set.
    Returns a new array, or [out], which may be the tensor itself."""
    number = set_id(process_set)
    slots = [Slot(tensor, out)]
    description = describe(slots)
    options = options_of(number, stream=slots[0].stream())
    arguments = (description.array, as_int("root_rank", root_rank), options)
    call = Call("broadcast", arguments, keep=description.keep)
    call.set_name(naming("broadcast", name, number), description)
    return _on_device(call, slots), slots, _finish_one


broadcast_async = submitting(broadcast)


# ---- allgather, gather, alltoall and scatter ----------------------------------------------------


class Gathered:
    """Room for what libhvd allocates, and the arrays made of it."""

    __slots__ = ("pairs", "places", "results", "rows", "rooms", "memory")

    def __init__(self, tensors: Sequence[Any], members: int):
        self.pairs = [
            (adapter.contiguous(array), adapter) for array, adapter in map(adapt, tensors)
        ]
        self.places = [adapter.place(array) for array, adapter in self.pairs]
        self.results = (_abi.Result * max(len(tensors), 1))()
        self.rows = [(ctypes.c_int64 * max(members, 1))() for _ in tensors]
        self.rooms: Dict[int, Room] = {}  # of those on a GPU
        self.memory: Dict[int, ResultMemory] = {}  # of the others
        for i, (result, rows) in enumerate(zip(self.results, self.rows)):
            result.rows = ctypes.addressof(rows)
            if self.places[i].memory != HOST:
                room = self.rooms[i] = Room(*self.pairs[i])
                result.allocate, result.arg = room.function, room.number
            else:
                self.memory[i] = ResultMemory(result)

    def describe(self) -> Description:
        """What libhvd is told of the tensors, but for their names."""
        description = Description(len(self.places))
        for place in self.places:
            description.add(None, place, place.address, 0)
        return description

    def stream(self) -> Optional[int]:
        """Of tensors on a GPU: the stream in which the program uses them."""
        array, adapter = self.pairs[0]
        return adapter.stream(array) if self.rooms else None

    def call(self, operation: str, number: int, name: Name, *more: Any) -> Call:
        """The call of libhvd for the set [number]. Arguments that an operation has [more] come
        before the results."""
        description = self.describe()
        grouped = operation.startswith("grouped_")
        count = (len(self.pairs),) if grouped else ()
        options = options_of(number, stream=self.stream())
        arguments = (description.array, *more, self.results, *count, options)
        call = Call(operation, arguments, keep=description.keep)
        call.set_name(naming(operation, name, number), description, grouped)
        if self.rooms:
            call.stream = self.stream
        return call

    def take(self, i: int = 0) -> Any:
        """The result of tensor [i]."""
        result, (array, adapter) = self.results[i], self.pairs[i]
        shape = (result.row_count,) + tuple(self.places[i].shape[1:])
        if i not in self.rooms:
            return adapter.from_memory(array, result.data, shape, self.memory[i])
        adapter.use_in_stream(array)
        if not result.data:
            return adapter.empty(array, shape)
        made = adapter.from_allocated(array, self.rooms[i].memory, shape)
        adapter.use_in_stream(made)
        return made

    def take_all(self) -> List[Any]:
        return list(map(self.take, range(len(self.pairs))))


@waiting
def allgather(tensor: Any, name: Optional[str] = None, process_set: Any = None):
    """Concatenate the members' tensors along the first dimension, which may differ between them."""
    number = set_id(process_set)
    gathered = Gathered([tensor], lib.hvd_set_size(number))
    return gathered.call("allgather", number, name), gathered, Gathered.take


allgather_async = submitting(allgather)


@waiting
def grouped_allgather(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = None
):
    """allgather of several tensors that run together, all or none."""
    number = set_id(process_set)
    gathered = Gathered(tensors, lib.hvd_set_size(number))
    return gathered.call("grouped_allgather", number, name), gathered, Gathered.take_all


grouped_allgather_async = submitting(grouped_allgather)


@waiting
def gather(tensor: Any, root_rank: int, name: Optional[str] = None, process_set: Any = None):
    """Concatenate the members' tensors along the first dimension, which may differ between them, at
    rank [root_rank], a rank of the job also inside a set. The others get None."""
    number, root = set_id(process_set), as_int("root_rank", root_rank)
    gathered = Gathered([tensor], lib.hvd_set_size(number))
    finish = Gathered.take if lib.hvd_rank() == root else _take_nothing
    return gathered.call("gather", number, name, root), gathered, finish


gather_async = submitting(gather)


def _take_nothing(gathered: Gathered) -> None:
    gathered.take()


def take_with_counts(gathered: Gathered) -> Tuple[Any, List[int]]:
    return gathered.take(), list(gathered.rows[0])


@waiting
def alltoall(
    tensor: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: Any = None,
):
    """Send splits[i] rows to member i, or equal parts; returns the rows received, and how many came
    from each."""
    number = set_id(process_set)
    members = lib.hvd_set_size(number)
    gathered = Gathered([tensor], members)
    parts = None if splits is None else _splits_array("alltoall", splits, members)
    return gathered.call("alltoall", number, name, parts), gathered, take_with_counts


alltoall_async = submitting(alltoall)


@waiting
def scatter(
    tensor: Any,
    root_rank: int,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: Any = None,
):
    """Member i gets splits[i] rows of the tensor of rank [root_rank], a rank of the job also inside
    a set, or equal parts; returns the rows that are for this rank. Elsewhere only the tensor's type
    and its other dimensions count."""
    number, root = set_id(process_set), as_int("root_rank", root_rank)
    members = lib.hvd_set_size(number)
    gathered = Gathered([tensor], members)
    parts = None
    if splits is not None and lib.hvd_rank() == root:
        parts = _splits_array("scatter", splits, members)
    return gathered.call("scatter", number, name, parts, root), gathered, Gathered.take


scatter_async = submitting(scatter)


# ---- join, barrier, handles ---------------------------------------------------------------------


def _join(number: int) -> Prepared:
    last = ctypes.c_int(-1)
    return Call("join", (number, last)), last, operator.attrgetter("value")


def join_async(process_set: Any = None) -> Handle:
    """Submit join."""
    number = set_id(process_set)
    handle = submit(*_join(number))
    begin_anew(number)  # for what is submitted from now on, which waits until all have joined
    return handle


def join(process_set: Any = None) -> int:
    """Say that this rank has no more data, and wait until all ranks have joined; returns the rank
    that joined last. Until then this rank takes part in allreduces with zeros."""
    return join_async(process_set).wait()


@waiting
def barrier(process_set: Any = None):
    """Wait until every member has called it."""
    return Call("barrier", (set_id(process_set),)), None, None


barrier_async = submitting(barrier)


def poll(handle: Handle) -> bool:
    """Is the operation done? Never waits."""
    return handle.done()


def synchronize(handle: Handle) -> Any:
    """Wait for an operation, and return its result or raise its error."""
    return handle.wait()
