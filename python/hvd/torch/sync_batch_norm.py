"""Batch normalisation over the batches of all ranks."""
from typing import Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from hvd._job import size
from hvd._names import fixed_name
from hvd.torch.mpi_ops import Sum, allreduce

# All layers have the same names: a program waits for one after another, in the order of its model.
_SUMS = fixed_name("sync_batch_norm.sums", 0)
_SQUARES = fixed_name("sync_batch_norm.squares", 0)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose mean and variance are those of the batches of all ranks together, in
    training. Ranks may have batches of different sizes, empty ones too. It computes in float32, or
    in float64 if that is the type of its input; the result has the input's type."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError("expected at least 2D input (got {}D input)".format(input.dim()))
        if not input.is_floating_point():
            raise ValueError("expected input of a floating point type (got %s)" % input.dtype)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not self.training or size() == 1:
            return super().forward(input)
        precise = input if input.dtype == torch.float64 else input.float()
        mean, variance, count = _statistics(precise)
        if self.track_running_stats and count > 0:
            self._follow(mean.detach(), variance.detach(), count)
        shape = (1, -1) + (1,) * (input.dim() - 2)
        result = (precise - mean.view(shape)) * torch.rsqrt(variance.view(shape) + self.eps)
        if self.affine:
            weight, bias = self.weight.to(precise.dtype), self.bias.to(precise.dtype)
            result = result * weight.view(shape) + bias.view(shape)
        return result.to(input.dtype)

    def _follow(self, mean: torch.Tensor, variance: torch.Tensor, count: int) -> None:
        """Move the running statistics towards those of this step."""
        self.num_batches_tracked.add_(1)
        factor = self.momentum
        if factor is None:
            factor = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / max(count - 1, 1))
        for running, now in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.copy_((1 - factor) * running.to(now.dtype) + factor * now)


def _statistics(input: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, int]:
    """Mean and variance of each channel over all ranks, with gradients, and the number of
    elements, which float64 counts exactly."""
    axes = [0] + list(range(2, input.dim()))
    own = input.numel() // max(input.shape[1], 1)
    count = torch.full((1,), float(own), dtype=torch.float64, device=input.device)
    sums = allreduce(torch.cat([input.sum(axes).double(), count]), name=_SUMS, op=Sum)
    total = int(sums[-1])
    mean = (sums[:-1] / max(total, 1)).to(input.dtype)
    shape = (1, -1) + (1,) * (input.dim() - 2)
    squares = (input - mean.view(shape)).pow(2).sum(axes)
    return mean, allreduce(squares, name=_SQUARES, op=Sum) / max(total, 1), total
