"""Routing operations: they move values and compute nothing."""

import torch
from torch import nn
from torch.nn import functional as F

from eclose.spaces.einspace.shapes import Shape


class Permute(nn.Module):
    """The axes of the shape in another order."""

    def __init__(self, order: Shape, lead: int) -> None:
        super().__init__()
        self.order = (*range(lead), *(lead + axis - 1 for axis in order))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A view."""
        return x.permute(self.order)


class Im2Col(nn.Module):
    """Windows as tokens: ``y[l, (c, *k)] = x[c, stride * grid[l] + k - padding]``, for any number of space axes."""

    def __init__(self, axes: int, window: Shape, lead: int) -> None:
        super().__init__()
        self.axes, self.lead = axes, lead
        self.kernel, self.stride, self.padding = window

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., channels, *space)
        """``(..., windows, channels * kernel ** axes)``."""
        lead, axes = self.lead, self.axes
        if self.padding:
            x = F.pad(x, [self.padding] * (2 * axes))
        for axis in range(lead + 1, lead + 1 + axes):
            x = x.unfold(axis, self.kernel, self.stride)  # (..., channels, *grid, *kernel)
        x = x.movedim(lead, lead + axes)
        return x.flatten(lead + axes).flatten(lead, lead + axes - 1)


class Col2Im(nn.Module):
    """Tokens as points of the stored grid."""

    def __init__(self, grid: Shape) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., tokens, features)
        """``(..., features, *grid)``."""
        return x.transpose(-1, -2).unflatten(-1, self.grid)


class Tokens(nn.Module):
    """Points as tokens, the inverse of :class:`Col2Im`."""

    def __init__(self, axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., features, *grid)
        """``(..., tokens, features)``."""
        return x.flatten(-self.axes).transpose(-1, -2)
