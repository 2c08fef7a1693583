"""From features to predictions (B.1): one answer a sample, or one a position, resized to the space of the task.

Resizing is adaptive average pooling to any size, larger or smaller, in time and memory of what goes in and comes out.
Torch's own has a gradient that is not deterministic on CUDA; here both directions gather.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.backbones.layers import GlobalAverage, conv
from eclose.signature import Signature
from eclose.spaces.einspace.terminals.routing import Col2Im
from eclose.spaces.einspace.terminals.state import Shape, State


class TokenAverage(nn.Module):
    """The mean over tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, tokens, features)
        """``(batch, features)``."""
        return x.mean(1)


def head(state: State, signature: Signature) -> nn.Module:
    """From features in ``state`` to the outputs of ``signature``.

    Pooled tasks average over space or tokens. Dense ones resize to the space of the task; tokens lie on their stored
    grid, or without one along a line that is folded into that space. The linear layer comes before that: averages over
    points and sums over channels commute, and after it there are few channels.
    """
    image = state.mode == "im"
    channels = state.shape[0 if image else 1]
    if signature.pooled:
        return nn.Sequential(GlobalAverage() if image else TokenAverage(), nn.Linear(channels, signature.outputs))
    if image:
        last = conv(signature.axes)(channels, signature.outputs, 1)
        return nn.Sequential(last, *resize(state.shape[1:], signature.sizes))
    parts: list[nn.Module] = [nn.Linear(channels, signature.outputs)]
    if state.grid and prod(state.grid) == state.shape[0]:
        parts += [Col2Im(state.grid), *resize(state.grid, signature.sizes)]
    else:
        line = resize(state.shape[:1], (prod(signature.sizes),))
        parts += [Col2Im(state.shape[:1]), *line, nn.Unflatten(2, signature.sizes)]
    return nn.Sequential(*parts)


def resize(sizes: Shape, wanted: Shape) -> list[nn.Module]:
    """Layers from ``(batch, channels, *sizes)`` to ``(batch, channels, *wanted)``, one for each axis that changes."""
    pairs = enumerate(zip(sizes, wanted, strict=True))
    return [ResizeAxis(2 + axis, size, goal) for axis, (size, goal) in pairs if size != goal]


class ResizeAxis(nn.Module):
    """``y_i`` is the mean of ``x_j`` for ``j`` from ``floor(i size / goal)`` up to ``ceil((i + 1) size / goal)``."""

    points: Tensor
    lengths: Tensor
    around: Tensor

    def __init__(self, axis: int, size: int, goal: int) -> None:
        super().__init__()
        self.axis = axis
        points, lengths = windows(size, goal)
        around, _ = windows(goal, size)  # the windows that a point lies in, by the same formula
        for name, values in (("points", points), ("lengths", lengths), ("around", around)):
            self.register_buffer(name, values, persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (..., size, ...)
        """``(..., goal, ...)``."""
        sums: Tensor = _WindowSum.apply(x.movedim(self.axis, -1), self.points, self.around)
        return (sums / self.lengths).movedim(-1, self.axis)


def windows(size: int, goal: int) -> tuple[Tensor, Tensor]:
    """The points in each of ``goal`` windows, ``size`` in the place of missing ones, and how many there are."""
    number = torch.arange(goal)
    first, end = number * size // goal, -(-(number + 1) * size // goal)
    longest = size // goal + (2 if size % goal else 0)
    points = first.unsqueeze(1) + torch.arange(longest)
    return points.where(points < end.unsqueeze(1), size), end - first


class _WindowSum(torch.autograd.Function):
    """Sums over windows; the gradient sums, for every point, over the windows around it."""

    generate_vmap_rule = True  # gradients of every sample, by torch.func

    @staticmethod
    def forward(x: Tensor, points: Tensor, around: Tensor) -> Tensor:
        return F.pad(x, (0, 1)).index_select(-1, points.flatten()).unflatten(-1, points.shape).sum(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        points, around = ctx.saved_tensors
        return _WindowSum.apply(gradient, around, points), None, None
