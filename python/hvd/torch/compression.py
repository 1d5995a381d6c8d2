"""Compression of tensors while they travel."""
from typing import Any, Optional, Tuple

import torch


class Compressor:
    """What compress returns travels; decompress makes a tensor of the result and the context."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _Cast(Compressor):
    """Floating-point tensors are cast; the context is the type that they had. In operations float32
    is cast by libhvd, which sums it as float32."""

    dtype = torch.float16
    wire = "float16"

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        packed = tensor.to(cls.dtype) if tensor.is_floating_point() else tensor
        return packed, tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_Cast):
    """Elements travel as float16."""


class BF16Compressor(_Cast):
    """Elements travel as bfloat16."""

    dtype = torch.bfloat16
    wire = "bfloat16"


class Compression:
    """What the argument compression may be."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


_CASTS = (FP16Compressor, BF16Compressor)  # classes derived from these have a compress of their own


def travels_as_it_is(compression: Any, dtype: torch.dtype) -> bool:
    """Is libhvd given tensors of this type themselves?"""
    if compression in _CASTS:
        return dtype == torch.float32 or not dtype.is_floating_point
    return compression is NoneCompressor


def pack(compression: Any, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
    """The tensor that libhvd is given, and the context for unpack."""
    if travels_as_it_is(compression, tensor.dtype):
        return tensor, None
    packed, ctx = compression.compress(tensor)
    return packed, (ctx,)


def unpack(compression: Any, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
    """The result for the program."""
    return tensor if ctx is None else compression.decompress(tensor, ctx[0])


def wire_of(compression: Any, *tensors: torch.Tensor) -> Optional[str]:
    """The type in which libhvd sends these tensors of one operation; None is their own."""
    floats = all(tensor.dtype == torch.float32 for tensor in tensors)
    return compression.wire if compression in _CASTS and floats else None
