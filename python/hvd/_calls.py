"""Calls of libhvd with all their arguments, ready to be made: waiting, or submitting."""
import ctypes
import struct
import threading
import time
import weakref
from itertools import starmap
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from hvd import _abi, _flight
from hvd._arrays import MAX_DIMS, Place
from hvd._flight import Handle
from hvd._library import lib
from hvd._names import MadeUpName, Unnamed, c_string
from hvd.errors import InvalidError, error_of, last_sentence

_STATUS = _abi.ENUMS["hvd_status"]
_DUPLICATE = _STATUS["HVD_ERR_DUPLICATE"]
# by which a call that waits says that nothing was submitted
_REFUSALS = tuple(
    _STATUS["HVD_ERR_" + each] for each in ("INVALID", "STATE", "DUPLICATE", "UNSUPPORTED", "SET")
)
_TENSOR = struct.Struct(_abi.TENSOR_FORMAT)
_ADDRESS = struct.Struct("P")  # of its name, which a tensor begins with
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

    def add(self, name: Optional[str], place: Place, source: int, target: int) -> None:
        """Add a tensor. One without a name gets it by set_names before the call."""
        text, address = (None, 0) if name is None else c_string(name)
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

    def set_names(self, names: Sequence[str]) -> None:
        """Name the tensors, in their order."""
        for i, name in enumerate(names):
            text, address = c_string(name)
            _ADDRESS.pack_into(self.array, i * _TENSOR_BYTES, address)
            self.keep[i] = text


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
        "waiting", "submitting", "arguments", "keep", "name", "lock", "stream", "_unnamed",
        "_description", "_grouped",
    )  # fmt: skip

    def __init__(
        self, operation: str, arguments: Tuple[Any, ...], name: str = "", keep: Any = None
    ):
        self.waiting, self.submitting = _forms(operation)
        self.arguments = tuple(map(_ready, arguments))
        self.keep = keep
        self.name = name
        self.lock = threading.Lock()
        # of tensors on a GPU: tells the stream that is to wait for the operation
        self.stream: Optional[Callable[[], Optional[int]]] = None
        self._unnamed: Optional[Unnamed] = None

    def set_name(
        self, name: Union[str, Unnamed], description: Description, grouped: bool = False
    ) -> None:
        """Name the operation of these tensors, at once or when it is submitted."""
        self._description, self._grouped = description, grouped
        if isinstance(name, Unnamed):
            self._unnamed = name
        else:
            self._write_name(name)

    def _write_name(self, name: str) -> None:
        count = len(self._description.keep)
        self._description.set_names(group_names(name, count) if self._grouped else [name])
        self.name = name

    def take_name(self, taken: List[MadeUpName]) -> None:
        """The operation is about to be submitted: take a name, if it has none."""
        if self._unnamed is not None:
            self._unnamed.take(taken)
            self._write_name(taken[0])

    def give_back_name(self, taken: List[MadeUpName]) -> None:
        """It was not submitted."""
        if taken and self._unnamed is not None:
            self._unnamed.give_back(taken.pop())


def group_names(base: str, count: int) -> List[str]:
    """The names of the tensors of a group."""
    return ["%s_%dof%d" % (base, i + 1, count) for i in range(count)]


def _ready(argument: Any) -> Any:
    """An argument as libhvd gets it, see lib.unchecked."""
    return argument if argument is None or type(argument) is int else ctypes.byref(argument)


_known_forms: Dict[str, Tuple[Callable[..., int], Callable[..., int]]] = {}


def _forms(operation: str) -> Tuple[Callable[..., int], Callable[..., int]]:
    """libhvd's two functions for an operation: the one that waits and the one that submits, which
    one that makes a persistent operation does not have."""
    forms = _known_forms.get(operation)
    if forms is None:
        name = "hvd_" + operation
        submitting = name if name.endswith("_init") else name + "_async"
        forms = _known_forms[operation] = (lib.unchecked(name), lib.unchecked(submitting))
    return forms


def _repeat(
    function: Callable[..., int], arguments: Tuple[Any, ...], call: Call, outcome: List[int]
) -> None:
    """Try again while the operation that had the same made-up name is still in flight."""
    while outcome[0] == _DUPLICATE and type(call.name) is MadeUpName:
        earlier = _made_up.get(call.name, lambda: None)()
        if earlier is not None and not earlier.done():
            earlier.complete()
        else:  # its handle was dropped, or it runs in another thread
            time.sleep(0.001)
        outcome[:] = starmap(function, (arguments,))


def submit(call: Call, value: Any, finish: Optional[Callable[[Any], Any]] = None) -> Handle:
    """Queue an operation. [call] and [value] live until it is done; then [value] is the result, or
    what [finish] makes of it."""
    if _flight.dropped:
        _flight.release_dropped()
    handle = Handle(call, value, finish)  # it keeps all that libhvd is about to use
    arguments = call.arguments + (None, None, ctypes.byref(handle.place))
    taken: List[MadeUpName] = []
    try:
        call.take_name(taken)
        status = call.submitting(*arguments)
        if status != 0:
            outcome = [status]
            _repeat(call.submitting, arguments, call, outcome)
            if outcome[0] != 0:
                raise error_of(outcome[0], last_sentence())
    except BaseException:
        if handle.number == 0:
            call.give_back_name(taken)
            handle._withdraw()
        raise
    if type(call.name) is MadeUpName:
        _made_up[call.name] = weakref.ref(handle)
    return handle


def run(call: Call, value: Any, finish: Optional[Callable[[Any], Any]] = None) -> Any:
    """Carry out an operation; returns the result. This thread makes progress for it, which takes
    less time than submitting it and waiting. On a GPU only the program's stream waits."""
    if call.stream is not None:
        return submit(call, value, finish).wait()
    if _flight.dropped:
        _flight.release_dropped()
    taken: List[MadeUpName] = []
    outcome: List[int] = []
    try:
        call.take_name(taken)
        outcome[:] = starmap(call.waiting, (call.arguments,))
        if outcome[0] != 0:
            _repeat(call.waiting, call.arguments, call, outcome)
            if outcome[0] != 0:
                raise error_of(outcome[0], last_sentence())
    except BaseException:
        if not outcome or outcome[0] in _REFUSALS:
            call.give_back_name(taken)
        raise
    return value if finish is None else finish(value)


def forget() -> None:
    """A new job has begun."""
    _made_up.clear()
