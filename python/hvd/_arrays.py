"""What holds elements: numpy arrays, torch tensors, and all that has an array interface, DLPack or
a buffer.

An adapter is what operations need of one kind: where elements lie, room for results, and a copy
where libhvd cannot use the memory as it is."""
import ctypes
import functools
import operator
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from hvd import _abi, _device
from hvd._library import libc
from hvd.errors import InvalidError

_D = _abi.ENUMS["hvd_dtype"]
HOST = _abi.ENUMS["hvd_memory"]["HVD_MEMORY_HOST"]
_DEVICE = _abi.ENUMS["hvd_memory"]["HVD_MEMORY_DEVICE"]
_ANY = _abi.ENUMS["hvd_memory"]["HVD_MEMORY_ANY"]
_BYTE_OF = ctypes.c_char.from_buffer
_SHAPE_AND_DTYPE = operator.attrgetter("shape", "dtype")
# by the names that torch and ml_dtypes give them
_FLOAT8 = {"float8_e4m3fn": _D["HVD_FLOAT8_E4M3"], "float8_e5m2": _D["HVD_FLOAT8_E5M2"]}
_OF_ML_DTYPES = dict(_FLOAT8, bfloat16=_D["HVD_BFLOAT16"])
MAX_DIMS = _abi.CONSTANTS["HVD_MAX_DIMS"]


class Place(NamedTuple):
    """Where a contiguous array lies, as libhvd wants to know it."""

    address: int
    dtype: int
    shape: Tuple[int, ...]
    memory: int = HOST
    device: int = 0  # the number of the GPU, if it is there


class ResultMemory:
    """Memory that libhvd allocates for a result by malloc, freed with the last array on it."""

    def __init__(self, result: Any):
        self._result = result

    def __del__(self) -> None:
        libc.free(self._result.data)


def owned_bytes(address: int, count: int, owner: Any):
    """A ctypes array over [count] bytes at [address], which keeps [owner] alive."""
    array = (ctypes.c_ubyte * count).from_address(address)
    array._owner = owner
    return array


def refuse(kind: str, name: Any, why: str) -> InvalidError:
    return InvalidError("hvd cannot use %s %s: %s" % (kind, name, why))


# ---- numpy and what becomes numpy ---------------------------------------------------------------


class NumpyAdapter:
    """numpy arrays. Other objects become numpy arrays over the same memory."""

    def __init__(self) -> None:
        import numpy

        self.numpy = numpy
        self.copied = (list, tuple, int, float, bool, numpy.generic)  # they have no memory to use
        self.codes = {
            numpy.dtype(name): _D["HVD_" + name.upper()]
            for name in (
                "int32",
                "int64",
                "float32",
                "float64",
                "uint8",
                "int8",
                "uint16",
                "int16",
                "float16",
                "bool",
            )
        }
        self.dtypes = {code: dtype for dtype, code in self.codes.items()}

    def code_of(self, dtype: Any) -> int:
        code = self.codes.get(dtype)
        if code is None and dtype.name in _OF_ML_DTYPES:  # which jax uses
            code = self.codes[dtype] = _OF_ML_DTYPES[dtype.name]
            self.dtypes[code] = dtype
        if code is None:
            why = (
                "its bytes are in the other order; convert it"
                if not dtype.isnative
                else "expected int8 to int64, uint8, uint16, float16, "
                "bfloat16, float32, float64, float8_e4m3fn, float8_e5m2 or bool"
            )
            raise refuse("an array of type", dtype, why)
        return code

    def place(self, array: Any) -> Place:
        try:
            address = ctypes.addressof(
                _BYTE_OF(array)
            )  # the fast way, for contiguous writable ones
        except (TypeError, ValueError):
            address = array.__array_interface__["data"][0]
        return Place(address, self.code_of(array.dtype), array.shape)

    @staticmethod
    def signature(array: Any) -> Tuple:
        """What is equal as long as the array is where it was; raises for one that is not contiguous
        or not writable."""
        return ctypes.addressof(_BYTE_OF(array)), array.shape, array.dtype

    @staticmethod
    def signatures(arrays: Sequence[Any]) -> Tuple:
        """The same of several arrays, in half the time."""
        addresses = map(ctypes.addressof, map(_BYTE_OF, arrays))
        return list(addresses), list(map(_SHAPE_AND_DTYPE, arrays))

    def contiguous(self, array: Any) -> Any:
        return (
            array
            if array.flags.c_contiguous
            else self.numpy.ascontiguousarray(array).reshape(array.shape)
        )

    def is_contiguous(self, array: Any) -> bool:
        return array.flags.c_contiguous

    def is_writable(self, array: Any) -> bool:
        return array.flags.writeable

    def empty(self, like: Any, shape: Tuple[int, ...]) -> Any:
        return self.numpy.empty(shape, like.dtype)

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def from_memory(
        self, like: Any, address: Optional[int], shape: Tuple[int, ...], owner: ResultMemory
    ) -> Any:
        """An array over memory of libhvd, which keeps its owner."""
        if not address:
            return self.empty(like, shape)
        count = like.dtype.itemsize
        for dimension in shape:
            count *= dimension
        return self.numpy.frombuffer(owned_bytes(address, count, owner), like.dtype).reshape(shape)


@functools.lru_cache(maxsize=1)
def numpy_adapter() -> NumpyAdapter:
    return NumpyAdapter()


# ---- torch --------------------------------------------------------------------------------------


class TorchAdapter:
    """torch tensors, in host memory or on a GPU of CUDA."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        names = (
            "int32",
            "int64",
            "float32",
            "float64",
            "uint8",
            "int8",
            "int16",
            "float16",
            "bfloat16",
            "bool",
            "uint16",
        )
        self.codes = {
            getattr(torch, name): _D["HVD_" + name.upper()]
            for name in names
            if hasattr(torch, name)
        }
        for name, code in _FLOAT8.items():  # since torch 2.1
            if hasattr(torch, name):
                self.codes[getattr(torch, name)] = code
        self._idle_streams: Dict[Any, Any] = {}  # by device: one in which nothing is ever queued

    def _code_of(self, tensor: Any) -> int:
        code = self.codes.get(tensor.dtype)
        if code is None:
            raise refuse(
                "a tensor of type",
                tensor.dtype,
                "expected int8 to int64, uint8, float16, bfloat16, float32, float64, "
                "float8_e4m3fn, float8_e5m2 or bool; view complex tensors by torch.view_as_real",
            )
        return code

    def _require_strided(self, tensor: Any) -> None:
        if tensor.layout is not self.torch.strided:
            raise refuse(
                "a tensor of layout", tensor.layout, "make it dense, or use sparse_allreduce_async"
            )

    def place(self, tensor: Any) -> Place:
        self._require_strided(tensor)
        kind, shape = tensor.device.type, tuple(tensor.shape)
        if kind == "cpu":
            return Place(tensor.data_ptr(), self._code_of(tensor), shape)
        if kind != "cuda":
            why = "it must be in host memory or on a GPU of CUDA; pass tensor.cpu()"
            raise refuse("a tensor on", tensor.device, why)
        number = tensor.device.index or 0
        return Place(tensor.data_ptr(), self._code_of(tensor), shape, _DEVICE, number)

    def stream(self, tensor: Any) -> Optional[int]:
        """The stream of a GPU in which the program works on its tensors now."""
        return self.torch.cuda.current_stream(tensor.device).cuda_stream or None

    def use_in_stream(self, tensor: Any) -> None:
        """The memory of [tensor], which the program may free, is in use until what is in the
        stream now is done."""
        tensor.record_stream(self.torch.cuda.current_stream(tensor.device))

    def keep_in_stream(self, tensor: Any, stream: Optional[int]) -> None:
        """The same for the stream with that handle of CUDA's, up to what is there when the program
        frees the tensor."""
        cuda, device = self.torch.cuda, tensor.device
        found = cuda.ExternalStream(stream, device) if stream else cuda.default_stream(device)
        tensor.record_stream(found)

    def allocate(self, like: Any, count: int) -> Tuple[int, Any]:
        """[count] bytes on the GPU of [like], which may be written at once: their address, and
        what keeps them. Any thread may ask.

        torch's memory belongs to the stream in which it is allocated, and may still be in use by
        what that has queued. In a stream without work it is free."""
        cuda = self.torch.cuda
        stream = self._idle_streams.get(like.device)
        if stream is None:
            stream = self._idle_streams.setdefault(like.device, cuda.Stream(like.device))
        with cuda.stream(stream):
            room = self.torch.empty(count, dtype=self.torch.uint8, device=like.device)
        return room.data_ptr(), room

    def from_allocated(self, like: Any, room: Any, shape: Tuple[int, ...]) -> Any:
        """A tensor in what allocate gave."""
        return room.view(like.dtype).reshape(shape)

    @staticmethod
    def signature(tensor: Any) -> Tuple:
        """What is equal as long as the tensor is where it was, and as it was."""
        return (
            tensor.data_ptr(),
            tensor.shape,
            tensor.dtype,
            tensor.is_contiguous(),
            tensor.is_neg(),
        )

    def signatures(self, tensors: Sequence[Any]) -> Tuple:
        """The same of several tensors."""
        of_tensor = self.torch.Tensor
        return (
            list(map(of_tensor.data_ptr, tensors)),
            list(map(_SHAPE_AND_DTYPE, tensors)),
            list(map(of_tensor.is_contiguous, tensors)),
            list(map(of_tensor.is_neg, tensors)),
        )

    def contiguous(self, tensor: Any) -> Any:
        self._require_strided(tensor)
        # a lazy negation or conjugation has other elements in memory than it shows
        return tensor.detach().resolve_neg().contiguous()

    def is_contiguous(self, tensor: Any) -> bool:
        return tensor.is_contiguous() and not tensor.is_neg()

    def is_writable(self, tensor: Any) -> bool:
        return True

    def empty(self, like: Any, shape: Tuple[int, ...]) -> Any:
        return self.torch.empty(shape, dtype=like.dtype, device=like.device)

    def copy(self, target: Any, source: Any) -> None:
        with self.torch.no_grad():
            target.copy_(source)

    def from_memory(
        self, like: Any, address: Optional[int], shape: Tuple[int, ...], owner: ResultMemory
    ) -> Any:
        """An array over memory of libhvd, which keeps its owner."""
        if not address:
            return self.empty(like, shape)
        count = like.element_size()
        for dimension in shape:
            count *= dimension
        bytes_there = owned_bytes(address, count, owner)
        return self.torch.frombuffer(bytes_there, dtype=like.dtype).reshape(shape)


@functools.lru_cache(maxsize=1)
def torch_adapter() -> TorchAdapter:
    return TorchAdapter()


# ---- What is on a GPU ---------------------------------------------------------------------------


class CudaAdapter:
    """Objects with __cuda_array_interface__, as of cupy and numba. Where there is no [out], results
    are DeviceArrays."""

    def __init__(self) -> None:
        letters = {"int": "i", "uint": "u", "float": "f"}
        self.codes = {"|b1": _D["HVD_BOOL"]}
        for name, code in _D.items():
            word = name[4:].lower().rstrip("0123456789")
            if word in letters:
                size = int(name[4 + len(word) :]) // 8
                self.codes["%s%s%d" % ("<" if size > 1 else "|", letters[word], size)] = code

    def place(self, thing: Any) -> Place:
        interface = thing.__cuda_array_interface__
        code = self.codes.get(interface["typestr"])
        if code is None:
            why = "expected int8 to int64, uint8, uint16, float16, float32, float64 or bool"
            raise refuse("an array of type", interface["typestr"], why)
        device = getattr(thing, "device", None)
        number = getattr(device, "id", getattr(device, "index", device))
        memory = (_ANY, 0) if not isinstance(number, int) else (_DEVICE, number)
        return Place(interface["data"][0], code, tuple(interface["shape"]), *memory)

    def _device(self, thing: Any) -> int:
        """The number of its GPU."""
        place = self.place(thing)
        if place.memory == _DEVICE or not place.address:
            return place.device
        return _device.driver().device_of(place.address)

    def contiguous(self, thing: Any) -> Any:
        if not self.is_contiguous(thing):
            raise refuse("an array on a GPU,", "it is not contiguous", "pass a contiguous copy")
        return thing

    def is_contiguous(self, thing: Any) -> bool:
        interface = thing.__cuda_array_interface__
        strides, wanted = interface.get("strides"), int(interface["typestr"][2:])
        for dimension, stride in zip(reversed(interface["shape"]), reversed(strides or ())):
            if dimension > 1 and stride != wanted:
                return False
            wanted *= dimension
        return True

    def is_writable(self, thing: Any) -> bool:
        return not thing.__cuda_array_interface__["data"][1]

    def empty(self, like: Any, shape: Tuple[int, ...]) -> Any:
        count = int(like.__cuda_array_interface__["typestr"][2:])
        for dimension in shape:
            count *= dimension
        room = self.allocate(like, count)[1] if count > 0 else None
        return self.from_allocated(like, room, shape)

    def allocate(self, like: Any, count: int) -> Tuple[int, Any]:
        """[count] bytes on the GPU of [like], which may be written at once: their address, and
        what keeps them. Any thread may ask."""
        room = _device.DeviceMemory(count, self._device(like))
        return room.address, room

    def from_allocated(self, like: Any, room: Any, shape: Tuple[int, ...]) -> Any:
        """An array in what allocate gave; None is room for nothing."""
        interface = like.__cuda_array_interface__
        device = room.device if room is not None else self._device(like)
        stream = interface.get("stream")
        return _device.DeviceArray(room, shape, interface["typestr"], device, stream)

    def copy(self, target: Any, source: Any) -> None:
        """Never called: what hvd writes is the program's."""

    def stream(self, thing: Any) -> Optional[int]:
        return thing.__cuda_array_interface__.get("stream")

    def use_in_stream(self, thing: Any) -> None:
        """Its owner knows what its streams use."""

    def keep_in_stream(self, thing: Any, stream: Optional[int]) -> None:
        """The same."""


@functools.lru_cache(maxsize=1)
def cuda_adapter() -> CudaAdapter:
    return CudaAdapter()


# ---- Which one ----------------------------------------------------------------------------------


# DLPack's numbers of devices whose memory the host uses: its own, and pinned by CUDA or ROCm
_DLPACK_HOST = (1, 3, 11)


def _from_dlpack(thing: Any, numpy: Any) -> Any:
    """A numpy array over the memory of [thing]. Before numpy 2.1 it cannot be written."""
    kind = type(thing).__name__
    device = thing.__dlpack_device__()[0] if hasattr(thing, "__dlpack_device__") else 1
    if int(device) not in _DLPACK_HOST:
        why = "its memory is on a device; copy it to the host"
        raise refuse("an object of type", kind, why)
    try:
        return numpy.from_dlpack(thing)
    except (AttributeError, TypeError, RuntimeError, BufferError) as error:
        if hasattr(thing, "__array__"):  # an old numpy, or bfloat16 of jax
            return numpy.asarray(thing)
        why = "numpy cannot read its DLPack (%s); pass an array of numpy or torch" % error
        raise refuse("an object of type", kind, why) from None


def _to_numpy(thing: Any) -> Any:
    """A numpy array over the memory of [thing]; a copy only of lists and numbers."""
    numpy = numpy_adapter().numpy
    if hasattr(thing, "__array_interface__") or isinstance(thing, numpy_adapter().copied):
        return numpy.asarray(thing)
    if hasattr(thing, "__dlpack__"):
        return _from_dlpack(thing, numpy)
    try:
        return numpy.asarray(memoryview(thing))
    except (TypeError, ValueError):
        raise refuse(
            "an object of type",
            type(thing).__name__,
            "expected a numpy array, a torch tensor, or "
            "what has __array_interface__, __dlpack__ or a buffer",
        ) from None


def adapt(thing: Any) -> Tuple[Any, Any]:
    """The array to use for [thing], and its adapter."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor):
        return thing, torch_adapter()
    adapter = numpy_adapter()
    if not isinstance(thing, adapter.numpy.ndarray):
        if hasattr(thing, "__cuda_array_interface__"):
            return thing, cuda_adapter()
        thing = _to_numpy(thing)
    elif type(thing) is not adapter.numpy.ndarray and hasattr(thing, "filled"):
        why = "hvd would reduce what is masked, too; pass array.filled(value)"
        raise refuse("an array of type", type(thing).__name__, why)
    return thing, adapter
