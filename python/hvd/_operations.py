"""The collectives, on whatever holds elements: waiting, asynchronous and grouped."""
import ctypes
import enum
import operator
import struct
from itertools import repeat
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from hvd import _abi, _flight, _plans
from hvd._arrays import MAX_DIMS, Place, adapt, refuse
from hvd._flight import Handle
from hvd._job import set_id
from hvd._library import lib, libc
from hvd._names import MadeUpName, c_string, handles_of_names, made_up_name
from hvd.errors import DuplicateError, InvalidError, check, error_of, last_sentence

_STATUS = _abi.ENUMS["hvd_status"]
_TENSOR = struct.Struct(_abi.TENSOR_FORMAT)
_TENSOR_BYTES = ctypes.sizeof(_abi.Tensor)
_ZEROS = (0,) * MAX_DIMS
_ON_HOST = (_abi.ENUMS["hvd_memory"]["HVD_MEMORY_HOST"], 0)


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

_WIRES = {None: 0, "exact": 0, "float16": 1, "bfloat16": 2}

# ---- Descriptions for libhvd --------------------------------------------------------------------


class Description:
    """The tensors of one operation as libhvd wants them, and what they keep alive."""

    __slots__ = ("array", "count", "keep", "_offset")

    def __init__(self, count: int):
        self.array = ctypes.create_string_buffer(max(count, 1) * _TENSOR_BYTES)
        self.count = count
        self.keep: List[Any] = []
        self._offset = 0

    def add(self, name: str, place: Place, source: int, target: int) -> None:
        text, address = c_string(name)
        shape = place.shape
        if len(shape) > MAX_DIMS:
            rest = 1
            for dimension in shape[MAX_DIMS - 1 :]:
                rest *= dimension
            shape = shape[: MAX_DIMS - 1] + (rest,)
        _TENSOR.pack_into(
            self.array,
            self._offset,
            address,
            source,
            target,
            place.dtype,
            len(shape),
            *(shape + _ZEROS[len(shape) :] + _ON_HOST)
        )
        self._offset += _TENSOR_BYTES
        self.keep.append(text)

    def address(self) -> int:
        return ctypes.addressof(self.array)


_default_options: Dict[int, Any] = {}


def options_of(
    number: int, prescale: float = 1.0, postscale: float = 1.0, wire: Optional[str] = None
) -> Any:
    if wire not in _WIRES:
        raise InvalidError("wire=%r: expected one of 'exact', 'float16', 'bfloat16'" % (wire,))
    plain = prescale == 1.0 and postscale == 1.0 and not _WIRES[wire]
    if plain and number in _default_options:
        return _default_options[number]
    size = ctypes.sizeof(_abi.Options)
    made = _abi.Options(size, number, prescale, postscale, _WIRES[wire], None)
    if plain:
        _default_options[number] = made
    return made


# ---- Submission ---------------------------------------------------------------------------------


def submit(
    function: Callable[..., int], arguments: Sequence[Any], keep: Any, finish: Callable[[], Any]
) -> Handle:
    """Queue an operation by its _async form. [keep] lives until it is done, then [finish] makes the
    result."""
    number = ctypes.c_uint64(0)
    status = function(*arguments, None, None, ctypes.addressof(number))
    if status != 0:
        raise error_of(status, last_sentence())
    return _flight.add(number.value, keep, finish)


def submit_named(name: str, attempt: Callable[[], Handle]) -> Handle:
    """Submit. If the name is made up, and the operation that had it MADE_UP_NAMES ago is in flight,
    wait for that first."""
    if not isinstance(name, MadeUpName):
        return attempt()
    earlier = _flight.find(handles_of_names.get(name, 0))
    try:
        handle = attempt()
    except DuplicateError:
        if earlier is None:
            raise
        earlier.complete()
        handle = attempt()
    handles_of_names[name] = handle.number
    return handle


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
        self.target_address = self.adapter.place(self.target).address

    def stays(self, tensor: Any, adapter: Any) -> bool:
        """Does libhvd work on the memory of the caller's tensor itself?"""
        return self.result is tensor and self.adapter is adapter and adapter.is_contiguous(tensor)

    def finish(self) -> Any:
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


def _describe(names: Sequence[str], slots: Sequence[Slot]) -> Description:
    description = Description(len(slots))
    for name, slot in zip(names, slots):
        description.add(name, slot.place, slot.place.address, slot.target_address)
    return description


def group_names(kind: str, name: Optional[str], count: int, number: int) -> Tuple[str, List[str]]:
    base = name if name is not None else made_up_name("grouped_" + kind, number)
    return base, ["%s_%dof%d" % (base, i + 1, count) for i in range(count)]


def _reduce(
    kind: str,
    tensors: Sequence[Any],
    outs: Sequence[Any],
    op: ReduceOp,
    names: Sequence[str],
    shapes: Sequence[Optional[Tuple[int, ...]]],
    options: Any,
    base: str,
    grouped: bool,
    settings: Optional[Tuple] = None,
) -> Handle:
    """allreduce or reducescatter of one tensor or a group. With [settings] it is in place, and may
    come again: then a plan of it is kept."""
    slots = [Slot(tensor, out, shape) for tensor, out, shape in zip(tensors, outs, shapes)]
    description = _describe(names, slots)
    function = getattr(lib, "hvd_%s%s_async" % ("grouped_" if grouped else "", kind))
    middle = [len(slots)] if grouped else []
    arguments = [description.address()] + middle + [int(op), ctypes.addressof(options)]

    def finish() -> Any:
        results = [slot.finish() for slot in slots]
        return results if grouped else results[0]

    def attempt() -> Handle:
        return submit(function, arguments, (description, slots, options), finish)

    handle = submit_named(base, attempt)
    adapter = slots[0].adapter if slots else None
    if settings is not None and all(map(Slot.stays, slots, tensors, repeat(adapter))):
        plan = _plans.Plan(settings, tensors, adapter.signature)
        plan.call, plan.arguments = function, arguments
        plan.kept = (description, options)
        _plans.keep(base, plan)
    return handle


# ---- allreduce ----------------------------------------------------------------------------------


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
    number = set_id(process_set)
    settings = None
    if out is tensor and name is not None:
        settings = ("allreduce", op, number, prescale, postscale, wire)
        plan = _plans.find(name, settings, (tensor,))
        if plan is not None:
            return plan.submit((tensor,), tensor)
    name = name if name is not None else made_up_name("allreduce", number)
    return _reduce(
        "allreduce",
        [tensor],
        [out],
        op,
        [name],
        [None],
        options_of(number, prescale, postscale, wire),
        name,
        False,
        settings if not isinstance(name, MadeUpName) else None,
    )


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
    return allreduce_async(tensor, op, name, prescale, postscale, wire, process_set, out).wait()


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
    number = set_id(process_set)
    settings = None
    if outs is not None and name is not None and all(map(operator.is_, tensors, outs)):
        settings = ("grouped_allreduce", op, number, prescale, postscale, wire)
        plan = _plans.find(name, settings, tensors)
        if plan is not None:
            return plan.submit(tuple(tensors), list(tensors))
    base, names = group_names("allreduce", name, len(tensors), number)
    return _reduce(
        "allreduce",
        tensors,
        outs if outs is not None else [None] * len(tensors),
        op,
        names,
        [None] * len(tensors),
        options_of(number, prescale, postscale, wire),
        base,
        True,
        settings if not isinstance(base, MadeUpName) else None,
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
    return grouped_allreduce_async(
        tensors, op, name, prescale, postscale, wire, process_set, outs
    ).wait()


# ---- reducescatter ------------------------------------------------------------------------------


def _share_shape(tensor: Any, number: int) -> Tuple[int, ...]:
    """The shape of this rank's share."""
    array, adapter = adapt(tensor)
    shape = tuple(array.shape)
    members, member = lib.hvd_set_size(number), lib.hvd_set_rank(number)
    if not shape or members < 1 or member < 0:
        return shape  # libhvd says what is wrong
    return (shape[0] // members + (1 if member < shape[0] % members else 0),) + shape[1:]


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
    number = set_id(process_set)
    name = name if name is not None else made_up_name("reducescatter", number)
    return _reduce(
        "reducescatter",
        [tensor],
        [None],
        op,
        [name],
        [_share_shape(tensor, number)],
        options_of(number, prescale, postscale, wire),
        name,
        False,
    )


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
    return reducescatter_async(tensor, op, name, prescale, postscale, wire, process_set).wait()


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
    number = set_id(process_set)
    base, names = group_names("reducescatter", name, len(tensors), number)
    return _reduce(
        "reducescatter",
        tensors,
        [None] * len(tensors),
        op,
        names,
        [_share_shape(tensor, number) for tensor in tensors],
        options_of(number, prescale, postscale, wire),
        base,
        True,
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
    return grouped_reducescatter_async(
        tensors, op, name, prescale, postscale, wire, process_set
    ).wait()


# ---- broadcast ----------------------------------------------------------------------------------


def broadcast_async(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Handle:
    """Submit broadcast."""
    number = set_id(process_set)
    name = name if name is not None else made_up_name("broadcast", number)
    slot = Slot(tensor, out)
    description = _describe([name], [slot])
    options = options_of(number)
    arguments = [description.address(), root_rank, ctypes.addressof(options)]

    def attempt() -> Handle:
        return submit(lib.hvd_broadcast_async, arguments, (description, slot, options), slot.finish)

    return submit_named(name, attempt)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Any = None,
    out: Any = None,
) -> Any:
    """Every member gets the tensor of rank [root_rank], a rank of the job also inside a set.
    Returns a new array, or [out], which may be the tensor itself."""
    return broadcast_async(tensor, root_rank, name, process_set, out).wait()


# ---- allgather and alltoall ---------------------------------------------------------------------


class _Gathered:
    """Room for what libhvd allocates, and the array made of it."""

    __slots__ = ("slot_array", "adapter", "results", "rows", "places")

    def __init__(self, tensors: Sequence[Any], members: int):
        pairs = [adapt(tensor) for tensor in tensors]
        self.adapter = [adapter for _, adapter in pairs]
        self.slot_array = [adapter.contiguous(array) for array, adapter in pairs]
        self.places = [
            adapter.place(array) for adapter, array in zip(self.adapter, self.slot_array)
        ]
        self.results = (_abi.Result * max(len(tensors), 1))()
        self.rows = [(ctypes.c_int64 * max(members, 1))() for _ in tensors]
        for i, rows in enumerate(self.rows):
            self.results[i].rows = ctypes.addressof(rows)

    def take(self, i: int) -> Any:
        """The result of tensor [i]; its memory now belongs to the array."""
        address, self.results[i].data = self.results[i].data, None
        shape = (self.results[i].row_count,) + tuple(self.places[i].shape[1:])
        return self.adapter[i].from_memory(self.slot_array[i], address, shape)

    def __del__(self) -> None:
        for result in self.results:
            if result.data:
                libc.free(result.data)


def _describe_gathered(names: Sequence[str], gathered: _Gathered) -> Description:
    description = Description(len(names))
    for name, place in zip(names, gathered.places):
        description.add(name, place, place.address, 0)
    return description


def allgather_async(tensor: Any, name: Optional[str] = None, process_set: Any = None) -> Handle:
    """Submit allgather."""
    number = set_id(process_set)
    name = name if name is not None else made_up_name("allgather", number)
    gathered = _Gathered([tensor], lib.hvd_set_size(number))
    description = _describe_gathered([name], gathered)
    options = options_of(number)
    arguments = [
        description.address(),
        ctypes.addressof(gathered.results),
        ctypes.addressof(options),
    ]

    def attempt() -> Handle:
        return submit(
            lib.hvd_allgather_async,
            arguments,
            (description, gathered, options),
            lambda: gathered.take(0),
        )

    return submit_named(name, attempt)


def allgather(tensor: Any, name: Optional[str] = None, process_set: Any = None) -> Any:
    """Concatenate the members' tensors along the first dimension, which may differ between them."""
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather_async(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = None
) -> Handle:
    """Submit grouped_allgather."""
    number = set_id(process_set)
    base, names = group_names("allgather", name, len(tensors), number)
    gathered = _Gathered(tensors, lib.hvd_set_size(number))
    description = _describe_gathered(names, gathered)
    options = options_of(number)
    arguments = [
        description.address(),
        ctypes.addressof(gathered.results),
        len(tensors),
        ctypes.addressof(options),
    ]

    def attempt() -> Handle:
        return submit(
            lib.hvd_grouped_allgather_async,
            arguments,
            (description, gathered, options),
            lambda: [gathered.take(i) for i in range(len(tensors))],
        )

    return submit_named(base, attempt)


def grouped_allgather(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: Any = None
) -> List[Any]:
    """allgather of several tensors that run together, all or none."""
    return grouped_allgather_async(tensors, name, process_set).wait()


def alltoall_async(
    tensor: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: Any = None,
) -> Handle:
    """Submit alltoall."""
    number = set_id(process_set)
    members = lib.hvd_set_size(number)
    name = name if name is not None else made_up_name("alltoall", number)
    gathered = _Gathered([tensor], members)
    description = _describe_gathered([name], gathered)
    options = options_of(number)
    parts = None if splits is None else _splits_array(splits, members)
    arguments = [
        description.address(),
        None if parts is None else ctypes.addressof(parts),
        ctypes.addressof(gathered.results),
        ctypes.addressof(options),
    ]

    def attempt() -> Handle:
        return submit(
            lib.hvd_alltoall_async,
            arguments,
            (description, gathered, options, parts),
            lambda: (gathered.take(0), list(gathered.rows[0])),
        )

    return submit_named(name, attempt)


def _splits_array(splits: Sequence[int], members: int):
    numbers = [int(each) for each in splits]
    if len(numbers) != members and members > 0:
        raise InvalidError(
            "alltoall: splits has %d numbers; expected one for each of the %d members"
            % (len(numbers), members)
        )
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


def alltoall(
    tensor: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: Any = None,
) -> Tuple[Any, List[int]]:
    """Send splits[i] rows to member i, or equal parts; returns the rows received, and how many came
    from each."""
    return alltoall_async(tensor, splits, name, process_set).wait()


# ---- join, barrier, handles ---------------------------------------------------------------------


def join_async(process_set: Any = None) -> Handle:
    """Submit join."""
    last = ctypes.c_int(-1)
    return submit(
        lib.hvd_join_async, [set_id(process_set), ctypes.addressof(last)], last, lambda: last.value
    )


def join(process_set: Any = None) -> int:
    """Say that this rank has no more data, and wait until all ranks have joined; returns the rank
    that joined last. Until then this rank takes part in allreduces with zeros."""
    return join_async(process_set).wait()


def barrier_async(process_set: Any = None) -> Handle:
    """Submit barrier."""
    return submit(lib.hvd_barrier_async, [set_id(process_set)], None, lambda: None)


def barrier(process_set: Any = None) -> None:
    """Wait until every member has called it."""
    check(lib.hvd_barrier(set_id(process_set)))


def poll(handle: Handle) -> bool:
    """Is the operation done? Never waits."""
    return handle.done()


def synchronize(handle: Handle) -> Any:
    """Wait for an operation, and return its result or raise its error."""
    return handle.wait()
