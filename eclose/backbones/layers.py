"""Layers by their number of space axes, stochastic depth, and what ends a network with one answer a sample."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

Layer = Callable[..., nn.Module]

_CONVOLUTIONS: Mapping[int, Layer] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_BATCH_NORMS: Mapping[int, Layer] = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_MAX_POOLS: Mapping[int, Layer] = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_AVERAGE_POOLS: Mapping[int, Layer] = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}


def conv(axes: int) -> Layer:
    """``Conv1d``, ``Conv2d`` or ``Conv3d``."""
    return _CONVOLUTIONS[axes]


def batch_norm(axes: int) -> Layer:
    """``BatchNorm1d``, ``BatchNorm2d`` or ``BatchNorm3d``."""
    return _BATCH_NORMS[axes]


def max_pool(axes: int) -> Layer:
    """``MaxPool1d``, ``MaxPool2d`` or ``MaxPool3d``."""
    return _MAX_POOLS[axes]


def average_pool(axes: int) -> Layer:
    """``AvgPool1d``, ``AvgPool2d`` or ``AvgPool3d``."""
    return _AVERAGE_POOLS[axes]


class GlobalAverage(nn.Module):
    """``y[b, c] = mean over space of x[b, c]``.

    A plain mean: the backward pass of adaptive pooling is not deterministic on CUDA.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
        """``(batch, channels)``."""
        return x.flatten(2).mean(dim=2)


class RegionAverages(nn.Module):
    """The mean of every channel over each region: what is where counts, which a global average does not tell.

    Every axis is cut into so many ``parts`` of about the same length.
    """

    def __init__(self, parts: Sequence[int]) -> None:
        super().__init__()
        self.parts = tuple(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
        """``(batch, channels * regions)``."""
        for axis, parts in enumerate(self.parts, 2):
            x = torch.stack([part.mean(axis) for part in x.tensor_split(parts, dim=axis)], dim=axis)
        return x.flatten(1)

    def extra_repr(self) -> str:
        """For ``print``."""
        return f"parts={self.parts}"


class LastPoint(nn.Module):
    """``y[b, c] = x[b, c, -1]``: of a causal network the answer that has seen the whole signal."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, length)
        """``(batch, channels)``."""
        return x[:, :, -1]


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016): in training a sample goes without this branch, with ``probability``.

    Branches that stay are scaled up, so that the mean over the draws is the branch itself.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, ...)
        """The same shape."""
        if not self.training or self.probability == 0:
            return x
        kept = 1 - self.probability
        return x * x.new_empty(x.shape[0], *(1,) * (x.dim() - 1)).bernoulli_(kept).div_(kept)

    def extra_repr(self) -> str:
        """For ``print``."""
        return f"probability={self.probability}"


class Subsample(nn.Module):
    """``y = x`` at every ``stride``-th point of every axis: a skip that shortens."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
        """``(batch, channels, *ceil(space / stride))``."""
        return x[(slice(None), slice(None), *(slice(None, None, self.stride),) * (x.dim() - 2))]


def answer(channels: int, sizes: Sequence[int], outputs: int, regions: int, dropout: float) -> list[nn.Module]:
    """Layers that end a network with one answer a sample: averages of its features, and a linear map of these."""
    parts = [min(regions, points) for points in sizes]
    averages = RegionAverages(parts) if regions > 1 else GlobalAverage()
    return [averages, nn.Dropout(dropout), nn.Linear(channels * math.prod(parts), outputs)]
