"""Batch normalisation over the batches of all ranks."""
from typing import Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from hvd.torch.mpi_ops import Sum, allreduce
from hvd._job import size


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose mean and variance are those of the batches of all ranks together, in
    training. Ranks may have batches of different sizes, empty ones too."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError("expected at least 2D input (got {}D input)".format(input.dim()))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not self.training or size() == 1:
            return super().forward(input)
        mean, variance, count = _statistics(input)
        if self.track_running_stats:
            self._follow(mean.detach(), variance.detach(), count)
        shape = (1, -1) + (1,) * (input.dim() - 2)
        result = (input - mean.view(shape)) * torch.rsqrt(variance.view(shape) + self.eps)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result

    def _follow(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        """Move the running statistics towards those of this step."""
        self.num_batches_tracked.add_(1)
        factor = self.momentum
        if factor is None:
            factor = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / max(count - 1, 1))
        self.running_mean.mul_(1 - factor).add_(mean.to(self.running_mean.dtype), alpha=factor)
        self.running_var.mul_(1 - factor).add_(unbiased.to(self.running_var.dtype), alpha=factor)


def _statistics(input: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, float]:
    """Mean and variance of each channel over all ranks, with gradients, and the number of
    elements."""
    axes = [0] + list(range(2, input.dim()))
    own = input.numel() // max(input.shape[1], 1)
    count = input.new_full((1,), float(own))
    sums = allreduce(torch.cat([input.sum(axes), count]), op=Sum)
    total = float(sums[-1])
    mean = sums[:-1] / total
    shape = (1, -1) + (1,) * (input.dim() - 2)
    squares = (input - mean.view(shape)).pow(2).sum(axes)
    return mean, allreduce(squares, op=Sum) / total, total
