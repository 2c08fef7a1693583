"""From features to predictions (B.1): one answer a sample, or one a position."""

from math import prod

import torch
from torch import nn

from eclose.backbones.layers import GlobalAverage, conv
from eclose.signature import Signature
from eclose.spaces.einspace.build.resize import resize
from eclose.spaces.einspace.build.routing import Col2Im
from eclose.spaces.einspace.shapes import State


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
        return nn.Sequential(last, *resize(state.shape[1:], signature.space))
    parts: list[nn.Module] = [nn.Linear(channels, signature.outputs)]
    if state.grid and prod(state.grid) == state.shape[0]:
        parts += [Col2Im(state.grid), *resize(state.grid, signature.space)]
    else:
        line = resize(state.shape[:1], (prod(signature.space),))
        parts += [Col2Im(state.shape[:1]), *line, nn.Unflatten(2, signature.space)]
    return nn.Sequential(*parts)
