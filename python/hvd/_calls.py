"""Calls of libhvd with all their arguments, ready to be made: waiting, or submitting."""
import ctypes
import struct
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from hvd import _abi, _flight
from hvd._arrays import MAX_DIMS, Place
from hvd._flight import Handle
from hvd._library import lib
from hvd._names import MadeUpName, c_string
from hvd.errors import InvalidError, error_of, last_sentence

_DUPLICATE = _abi.ENUMS["hvd_status"]["HVD_ERR_DUPLICATE"]
_TENSOR = struct.Struct(_abi.TENSOR_FORMAT)
_TENSOR_BYTES = ctypes.sizeof(_abi.Tensor)
_ZEROS = (0,) * MAX_DIMS
_WIRES = {None: 0, "exact": 0, "float16": 1, "bfloat16": 2}

# the last operation under each made-up name
_made_up: Dict[str, "weakref.ReferenceType[Handle]"] = {}

# ---- Arguments ----------------------------------------------------------------------------------


class Description:
    """The tensors of one operation as libhvd wants them."""

    __slots__ = ("array", "keep", "_offset")

    def __init__(self, count: int):
        self.array = ctypes.create_string_buffer(max(count, 1) * _TENSOR_BYTES)
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
            *(shape + _ZEROS[len(shape) :] + place[3:])
        )
        self._offset += _TENSOR_BYTES
        self.keep.append(text)


_default_options: Dict[int, _abi.Options] = {}


def options_of(
    number: int,
    prescale: float = 1.0,
    postscale: float = 1.0,
    wire: Optional[str] = None,
    stream: Optional[int] = None,
) -> _abi.Options:
    if wire not in _WIRES:
        raise InvalidError("wire=%r: expected one of 'exact', 'float16', 'bfloat16'" % (wire,))
    plain = prescale == 1.0 and postscale == 1.0 and not _WIRES[wire] and stream is None
    if plain and number in _default_options:
        return _default_options[number]
    size = ctypes.sizeof(_abi.Options)
    made = _abi.Options(size, number, prescale, postscale, _WIRES[wire], stream)
    if plain:
        _default_options[number] = made
    return made


# ---- Calls --------------------------------------------------------------------------------------


class Call:
    """An operation of libhvd with its arguments: ints, or ctypes objects of which libhvd gets the
    address, and which live as long as the call."""

    __slots__ = (
        "waiting", "submitting", "arguments", "submission", "keep", "name", "handle", "lock",
        "stream",
    )  # fmt: skip

    def __init__(
        self, operation: str, arguments: Tuple[Any, ...], name: str = "", keep: Any = None
    ):
        self.waiting, self.submitting = _forms(operation)
        self.arguments = tuple(map(_ready, arguments))
        self.keep = keep
        self.name = name
        self.handle = ctypes.c_uint64(0)
        self.submission = self.arguments + (None, None, ctypes.byref(self.handle))
        self.lock = threading.Lock()
        # of tensors on a GPU: tells the stream that is to wait for the operation
        self.stream: Optional[Callable[[], Optional[int]]] = None


def _ready(argument: Any) -> Any:
    """An argument as libhvd gets it, see lib.unchecked."""
    return argument if argument is None or type(argument) is int else ctypes.byref(argument)


_known_forms: Dict[str, Tuple[Callable[..., int], Callable[..., int]]] = {}


def _forms(operation: str) -> Tuple[Callable[..., int], Callable[..., int]]:
    """libhvd's two functions for an operation: the one that waits and the one that submits."""
    forms = _known_forms.get(operation)
    if forms is None:
        name = "hvd_" + operation
        forms = _known_forms[operation] = (lib.unchecked(name), lib.unchecked(name + "_async"))
    return forms


def _repeat(
    function: Callable[..., int], arguments: Tuple[Any, ...], call: Call, status: int
) -> int:
    """Try again while the operation that had the same made-up name is still in flight."""
    while status == _DUPLICATE and type(call.name) is MadeUpName:
        earlier = _made_up.get(call.name, lambda: None)()
        if earlier is not None and not earlier.done():
            earlier.complete()
        else:  # its handle was dropped, or it runs in another thread
            time.sleep(0.001)
        status = function(*arguments)
    return status


def submit(call: Call, value: Any, finish: Optional[Callable[[Any], Any]] = None) -> Handle:
    """Queue an operation. [call] and [value] live until it is done; then [value] is the result, or
    what [finish] makes of it."""
    status = call.submitting(*call.submission)
    if status != 0:
        status = _repeat(call.submitting, call.submission, call, status)
        if status != 0:
            raise error_of(status, last_sentence())
    handle = Handle(call.handle.value, call, value, finish)
    if type(call.name) is MadeUpName:
        _made_up[call.name] = weakref.ref(handle)
    if _flight.dropped:
        _flight.release_dropped()
    return handle


def run(call: Call, value: Any, finish: Optional[Callable[[Any], Any]] = None) -> Any:
    """Carry out an operation; returns the result. This thread makes progress for it, which takes
    less time than submitting it and waiting. On a GPU only the program's stream waits."""
    if call.stream is not None:
        return submit(call, value, finish).wait()
    status = call.waiting(*call.arguments)
    if status != 0:
        status = _repeat(call.waiting, call.arguments, call, status)
        if status != 0:
            raise error_of(status, last_sentence())
    if _flight.dropped:
        _flight.release_dropped()
    return value if finish is None else finish(value)


def forget() -> None:
    """A new job has begun."""
    _made_up.clear()
