"""From features to predictions (B.1): one answer a sample, or one a position."""

from math import prod

import torch
from torch import nn

from eclose.backbones.layers import GlobalAverage, conv
from eclose.signature import Signature
from eclose.spaces.einspace.build.routing import Col2Im
from eclose.spaces.einspace.shapes import Shape, State


class TokenAverage(nn.Module):
    """The mean over tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, tokens, features)
        """``(batch, features)``."""
        return x.mean(1)


class Resize(nn.Module):
    """Adaptive average pooling to any size, as a product along every axis: its gradient is deterministic on CUDA."""

    def __init__(self, sizes: Shape, wanted: Shape) -> None:
        super().__init__()
        self.axes = len(sizes)
        for axis, (size, goal) in enumerate(zip(sizes, wanted, strict=True)):
            matrix = averages(size, goal) if size != goal else None
            self.register_buffer(f"averages_{axis}", matrix, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *sizes)
        """``(batch, channels, *wanted)``."""
        for axis in range(self.axes):
            matrix: torch.Tensor | None = getattr(self, f"averages_{axis}")
            if matrix is not None:
                x = (x.movedim(2 + axis, -1) @ matrix.T).movedim(-1, 2 + axis)
        return x


def averages(size: int, goal: int) -> torch.Tensor:
    """Row ``i`` averages the points from ``floor(i size / goal)`` up to ``ceil((i + 1) size / goal)``."""
    row, point = torch.arange(goal).unsqueeze(1), torch.arange(size)
    inside = (point >= row * size // goal) & (point < -(-(row + 1) * size // goal))
    return inside / inside.sum(1, keepdim=True)


def head(state: State, signature: Signature) -> nn.Module:
    """From features in ``state`` to the outputs of ``signature``.

    Pooled tasks average over space or tokens. Dense ones resize the features to the space of the task; tokens lie on
    their stored grid, or without one along a line that is folded into that space.
    """
    image = state.mode == "im"
    channels = state.shape[0 if image else 1]
    if signature.pooled:
        return nn.Sequential(GlobalAverage() if image else TokenAverage(), nn.Linear(channels, signature.outputs))
    last = conv(signature.axes)(channels, signature.outputs, 1)
    if image:
        return nn.Sequential(Resize(state.shape[1:], signature.space), last)
    if prod(state.grid) == state.shape[0]:
        return nn.Sequential(Col2Im(state.grid), Resize(state.grid, signature.space), last)
    line = Resize(state.shape[:1], (prod(signature.space),))
    return nn.Sequential(Col2Im(state.shape[:1]), line, nn.Unflatten(2, signature.space), last)
