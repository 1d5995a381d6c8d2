"""Compression of tensors while they travel."""
from typing import Any, Tuple

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
    """float32 travels as a half type and is summed as float32; other floating-point types are
    cast."""

    dtype = torch.float16

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        if tensor.dtype == torch.float32 or not tensor.is_floating_point():
            return tensor, None
        return tensor.to(cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_Cast):
    """Elements travel as float16."""

    wire = "float16"


class BF16Compressor(_Cast):
    """Elements travel as bfloat16."""

    wire = "bfloat16"
    dtype = torch.bfloat16


class Compression:
    """What the argument compression may be."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def wire_of(compression: Any, tensor: torch.Tensor) -> Any:
    """The type in which libhvd sends this tensor."""
    return getattr(compression, "wire", None) if tensor.dtype == torch.float32 else None
