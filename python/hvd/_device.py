"""GPUs as Python needs them: memory for results that no library of the program allocates, by CUDA's
driver, which the program has loaded; and whether NCCL is there."""
import ctypes
import functools
import importlib.util
import os
from typing import Any, Optional, Tuple

from hvd.errors import HvdError, NoMemoryError, SystemFailure

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_LEGACY_STREAM = 1  # CUDA's default stream, where 0 is not allowed
_NCCL = "libnccl.so.2"
_FROM_TORCH = "../nvidia/nccl/lib/" + _NCCL  # where pip puts it, seen from torch's folder
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class _Driver:
    """CUDA's driver library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            kind = NoMemoryError if result == _OUT_OF_MEMORY else SystemFailure
            raise kind("%s: CUDA's error %d" % (name, result))

    def device_of(self, address: int) -> int:
        """The number of the GPU whose memory it is."""
        number = ctypes.c_int(0)
        values = (ctypes.c_void_p * 1)(ctypes.addressof(number))
        attributes = (ctypes.c_int * 1)(_DEVICE_ORDINAL)
        pointer = ctypes.c_uint64(address)
        self.call("cuPointerGetAttributes", 1, attributes, values, pointer)
        return number.value

    def retain(self, device: int) -> ctypes.c_void_p:
        """The context of a GPU, alive until it is released."""
        number, context = ctypes.c_int(0), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(number), device)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        return context

    def release(self, device: int) -> None:
        number = ctypes.c_int(0)
        self.call("cuDeviceGet", ctypes.byref(number), device)
        self.call("cuDevicePrimaryCtxRelease_v2", number)

    def call_in(self, context: ctypes.c_void_p, name: str, *arguments: Any) -> None:
        """A call for which this thread works in the context; afterwards it does as before."""
        left = ctypes.c_void_p()
        self.call("cuCtxPushCurrent_v2", context)
        try:
            self.call(name, *arguments)
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(left))


@functools.lru_cache(maxsize=1)
def driver() -> _Driver:
    return _Driver()


def _nccl_library() -> ctypes.CDLL:
    """The NCCL that libhvd takes in a program with torch: the loaded one, the named one, or the one
    that the loader finds or that pip has put beside torch."""
    named = os.environ.get("HVD_NCCL_LIBRARY")
    torch = importlib.util.find_spec("torch")
    folders = torch.submodule_search_locations if torch is not None else None
    usual = [_NCCL] + [os.path.join(folder, _FROM_TORCH) for folder in folders or []]
    try:
        return ctypes.CDLL(_NCCL, mode=os.RTLD_NOLOAD)
    except OSError:
        pass
    for file in [named] if named else usual:
        try:
            return ctypes.CDLL(file)
        except OSError:
            pass
    raise OSError("no NCCL")


@functools.lru_cache(maxsize=1)
def nccl_version() -> int:
    """The version of the NCCL that libhvd finds, in NCCL's own numbers; 0 without CUDA's driver or
    without NCCL."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1")
        _nccl_library().ncclGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value


class DeviceMemory:
    """One allocation on a GPU, freed with the last array on it."""

    def __init__(self, count: int, device: int):
        self.address, self.device, self._pid = 0, device, os.getpid()
        self._context = driver().retain(device)
        address = ctypes.c_uint64(0)
        size = ctypes.c_size_t(count)
        try:
            driver().call_in(self._context, "cuMemAlloc_v2", ctypes.byref(address), size)
        except HvdError:
            driver().release(device)
            raise
        self.address = address.value

    def __del__(self) -> None:
        if not self.address or self._pid != os.getpid():
            return
        try:
            driver().call_in(self._context, "cuMemFree_v2", ctypes.c_uint64(self.address))
            driver().release(self.device)
        except HvdError:
            pass  # the driver has ended before, and freed everything


class DeviceArray:
    """An array on a GPU that is not torch's, such as a result. cupy.asarray,
    numba.cuda.as_cuda_array and torch.as_tensor(result, device="cuda") use its memory without a
    copy."""

    def __init__(
        self,
        memory: Any,  # has an address; None: there are no elements
        shape: Tuple[int, ...],
        typestr: str,
        device: int,
        stream: Optional[int],
    ):
        self._memory, self.shape, self.device = memory, tuple(shape), device
        self.__cuda_array_interface__ = {
            "shape": self.shape,
            "typestr": typestr,
            "data": (memory.address or 0 if memory is not None else 0, False),
            "strides": None,
            "stream": stream or _LEGACY_STREAM,
            "version": 3,
        }

    def __repr__(self) -> str:
        return "hvd.DeviceArray(shape=%s, typestr=%r, device=%d)" % (
            self.shape,
            self.__cuda_array_interface__["typestr"],
            self.device,
        )
