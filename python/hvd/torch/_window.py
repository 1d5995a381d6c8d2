"""Rooms for gradients in memory of hvd_alloc, where ranks of one node reduce them without
copies."""
import ctypes
import weakref
from typing import Any, List, Optional, Sequence, Tuple

import torch

from hvd._arrays import owned_bytes
from hvd._memory import alloc_bytes

_ALIGNMENT = 64  # bytes; each gradient begins on a cache line of its own


def _strides_of_gradient(parameter: torch.Tensor) -> Tuple[int, ...]:
    """torch gives a gradient the strides of its parameter if that is dense in memory; otherwise it
    is contiguous."""
    like = torch.empty_like(parameter.detach(), device="meta")  # has other strides if not dense
    if like.stride() == parameter.stride():
        return parameter.stride()
    return torch.empty(parameter.shape, device="meta").stride()


def memory_order(parameter: torch.Tensor) -> Optional[Tuple[int, ...]]:
    """The dimensions of the gradient, the one with the largest stride first; None if that is their
    own order."""
    strides = _strides_of_gradient(parameter)
    if parameter.is_contiguous():
        return None
    order = tuple(sorted(range(len(strides)), key=lambda i: -strides[i]))
    return None if order == tuple(range(len(strides))) else order


class Room:
    """The place of one gradient in the window. Tensors over it are made anew, and only as long as
    nothing else has one: programs keep gradients of earlier steps, and views of them."""

    __slots__ = ("_address", "_bytes", "_memory", "_dtype", "_shape", "_strides", "_lent")

    def __init__(self, parameter: torch.Tensor, memory: Any, offset: int, address: int):
        self._memory, self._address = memory, address + offset
        self._bytes = parameter.numel() * parameter.element_size()
        self._dtype, self._shape = parameter.dtype, parameter.shape
        self._strides = _strides_of_gradient(parameter)
        self._lent: Optional["weakref.ref[Any]"] = None  # what lives as long as the last tensor

    def fits(self, grad: torch.Tensor) -> bool:
        """Can the gradient be here?"""
        return (
            grad.layout is torch.strided
            and grad.dtype is self._dtype
            and grad.device.type == "cpu"
            and grad.shape == self._shape
        )

    def holds(self, grad: Optional[torch.Tensor]) -> bool:
        """Is the memory of the gradient here? The same tensor may have other memory than before."""
        return (
            grad is not None
            and grad.layout is torch.strided
            and grad.data_ptr() == self._address
            and grad.dtype is self._dtype
            and grad.shape == self._shape
            and grad.stride() == self._strides
            and not grad.is_neg()
        )

    def is_free(self) -> bool:
        """Does no tensor use this memory?"""
        return self._lent is None or self._lent() is None

    def tensor(self) -> torch.Tensor:
        """A tensor over this memory."""
        owner = owned_bytes(self._address, self._bytes, self._memory)
        self._lent = weakref.ref(owner)
        flat = torch.frombuffer(owner, dtype=self._dtype)
        return flat.as_strided(self._shape, self._strides).data


def make_rooms(parameters: Sequence[torch.Tensor]) -> List[Room]:
    """Rooms for the gradients of these parameters, which have elements, in one piece of memory."""
    offsets, total = [], 0
    for parameter in parameters:
        offsets.append(total)
        size = parameter.numel() * parameter.element_size()
        total += (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
    memory = alloc_bytes(max(total, _ALIGNMENT))
    address = ctypes.addressof(memory)
    return [Room(each, memory, offset, address) for each, offset in zip(parameters, offsets)]
