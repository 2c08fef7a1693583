"""How the tensors of repeated branches lie in memory: one axis of copies, so that all copies run at once."""

from typing import NamedTuple

import torch
from torch import nn


class Layout(NamedTuple):
    """Of a tensor whose operations stand in ``copies`` repeated branches.

    ``(batch, *shape)`` outside of repeated branches and while all copies still share one tensor (``shared``),
    ``(batch, copies, *shape)`` as soon as they differ. Copies of copies are one axis, the outer ones varying slowest.
    """

    copies: int = 1
    shared: bool = False

    @property
    def lead(self) -> int:
        """Axes before those of the shape."""
        return 2 if self.copies > 1 and not self.shared else 1


class Repeat(nn.Module):
    """``y[b, i] = x[b]`` for every copy ``i``; after a first axis of copies, copies of copies."""

    def __init__(self, ways: int, lead: int) -> None:
        super().__init__()
        self.ways, self.lead = ways, lead

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, *shape) or (batch, copies, *shape)
        """``(batch, ways, *shape)`` or ``(batch, copies * ways, *shape)``."""
        sizes = [-1] * (x.ndim + 1)
        sizes[self.lead] = self.ways
        y = x.unsqueeze(self.lead).expand(sizes)
        return y if self.lead == 1 else y.flatten(1, 2)


class Group(nn.Module):
    """Parts along an axis become copies: ``y[b, i] = i-th part of x[b]``."""

    def __init__(self, dim: int, size: int, ways: int, lead: int) -> None:
        super().__init__()
        self.axis, self.sizes, self.lead = lead + dim - 1, (ways, size // ways), lead

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, *shape) or (batch, copies, *shape)
        """``(batch, ways, *shape)`` or ``(batch, copies * ways, *shape)``."""
        y = x.unflatten(self.axis, self.sizes).movedim(self.axis, self.lead)
        return y if self.lead == 1 else y.flatten(1, 2)


class SumCopies(nn.Module):
    """``y = sum over i of x[:, i]``."""

    def __init__(self, ways: int, copies: int) -> None:
        super().__init__()
        self.ways, self.copies = ways, copies

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, copies * ways, *shape)
        """``(batch, *shape)`` or ``(batch, copies, *shape)``."""
        return x.sum(1) if self.copies == 1 else x.unflatten(1, (self.copies, self.ways)).sum(2)


class JoinCopies(nn.Module):
    """Copies become parts along an axis again."""

    def __init__(self, dim: int, ways: int, copies: int) -> None:
        super().__init__()
        self.dim, self.ways, self.copies = dim, ways, copies

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, copies * ways, *shape)
        """``(batch, *shape)`` or ``(batch, copies, *shape)``."""
        lead = 1
        if self.copies > 1:
            x, lead = x.unflatten(1, (self.copies, self.ways)), 2
        axis = lead + self.dim - 1
        return x.movedim(lead, axis).flatten(axis, axis + 1)


def among_channels(layer: nn.Module, channels: int, layout: Layout) -> nn.Module:
    """``layer`` on tensors whose copies lie among the channels."""
    if layout.copies == 1:
        return layer
    parts = [layer, nn.Unflatten(1, (layout.copies, channels))]
    return nn.Sequential(*parts) if layout.shared else nn.Sequential(nn.Flatten(1, 2), *parts)
