"""Memory of hvd_alloc, which the other ranks of the node can reach, and of hvd_alloc_on, which NCCL
registers: allreduces in it copy nothing."""
import ctypes
import os
from typing import Any, Optional, Sequence, Union

from hvd._arrays import numpy_adapter, owned_bytes, refuse, torch_adapter
from hvd._device import DeviceArray
from hvd._library import lib
from hvd.errors import check


class _Memory:
    """One allocation, freed with the last array on it. [device]: the number of a GPU; None: the
    host."""

    def __init__(self, count: int, device: Optional[int] = None):
        address = ctypes.c_void_p()
        if device is None:
            check(lib.hvd_alloc(count, ctypes.addressof(address)))
        else:
            check(lib.hvd_alloc_on(device, count, ctypes.addressof(address)))
        self.address = address.value
        self.pid = os.getpid()

    def __del__(self) -> None:
        if getattr(self, "address", None) and self.pid == os.getpid():
            lib.hvd_free(self.address)


def alloc_bytes(count: int):
    """[count] zeroed bytes as a ctypes array. They are freed with the last array on them."""
    memory = _Memory(count)
    return owned_bytes(memory.address, count, memory)


def _element_count(shape: Union[int, Sequence[int]]) -> int:
    count = 1
    for dimension in (shape,) if isinstance(shape, int) else shape:
        count *= dimension
    return count


def alloc(
    shape: Union[int, Sequence[int]], dtype: Any = "float32", device: Optional[int] = None
) -> Any:
    """A zeroed numpy array in memory that all ranks of the node can reach. Allreduces between ranks
    of one node copy nothing if all inputs and outputs are in such memory. Not collective. Valid
    also after shutdown. [device] is the number of a GPU: then it is an hvd.DeviceArray there, not
    zeroed, in memory that NCCL registers; ranks make such calls in the same order and sizes.
    """
    adapter = numpy_adapter()
    kind = adapter.numpy.dtype(dtype)
    adapter.code_of(kind)
    count = _element_count(shape) * kind.itemsize
    if device is not None:
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        return DeviceArray(_Memory(count, device), extents, kind.str, device, None)
    if count == 0:
        return adapter.numpy.zeros(shape, kind)
    return adapter.numpy.frombuffer(alloc_bytes(count), kind).reshape(shape)


def alloc_tensor(shape: Union[int, Sequence[int]], dtype: Any = None, device: Any = None) -> Any:
    """As hvd.alloc, but a torch tensor, float32 unless [dtype] says otherwise. [device] is what
    torch.device takes, such as "cuda:1". On a GPU the memory goes back with the last tensor on it:
    keep one until the GPU has done all work there, as by torch.cuda.synchronize()."""
    torch = torch_adapter().torch
    kind = torch.float32 if dtype is None else dtype
    place = torch.device("cpu" if device is None else device)
    count = _element_count(shape) * torch.empty(0, dtype=kind).element_size()
    if place.type not in ("cpu", "cuda"):
        why = "expected the host or a GPU of CUDA, such as 'cuda:0'"
        raise refuse("memory on", place, why)
    if count == 0:
        return torch.zeros(shape, dtype=kind, device=place)
    if place.type == "cuda":
        number = torch.cuda.current_device() if place.index is None else place.index
        # as bytes, because the interface has no name for bfloat16 or float8
        room = DeviceArray(_Memory(count, number), (count,), "|u1", number, None)
        return torch.as_tensor(room).view(kind).reshape(shape)
    return torch.frombuffer(alloc_bytes(count), dtype=kind).reshape(shape)
