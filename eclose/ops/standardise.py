"""Mean and spread taken out of inputs and put back into outputs, as part of the network.

A found network therefore takes raw values and gives raw values wherever it is used.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Numbers(nn.Module):
    """Values of any type as those a network computes with: of the type of its weights, or ``long`` for tokens."""

    like: Tensor

    def __init__(self, tokens: bool = False) -> None:
        super().__init__()
        kind = torch.long if tokens else torch.get_default_dtype()
        self.register_buffer("like", torch.empty(0, dtype=kind), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        return x.to(self.like.dtype)


class Standardise(nn.Module):
    """``(x - mean) / std``, by channel, or by channel and point where mean and std have the axes of space."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, axes: int) -> None:
        super().__init__()
        shape = (1, *mean.shape, *(1 for _ in range(1 + axes - mean.ndim)))
        self.register_buffer("mean", mean.view(shape))
        self.register_buffer("std", std.view(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Any real dtype ``(batch, channels, *space)`` to the dtype of the mean."""
        if x.dtype != torch.uint8:  # bytes, as images have, are widened inside the subtraction: one launch less
            x = x.to(self.mean.dtype)
        return (x - self.mean) / self.std


class Levels(NamedTuple):
    """How samples of very different size are brought nearer to one another.

    The level of a sample is the root mean square of its values about their means, in units of ``std``.
    """

    floor: Tensor  # what noise and rounding are kept down by
    power: Tensor  # of a level that is left
    gain: Tensor  # with which values of all samples are about one
    unit: Tensor  # (channels,), of means: a level in the middle, or how far they are from theirs if that is more
    middle: Tensor  # (channels,), of the means on their scale
    weight: Tensor  # (channels,), of the same


class Levelled(Standardise):
    """Every sample about its own mean, its level raised to a power below one. Its mean, if far away, is on a log scale.

    Samples keep their shapes. How large one is and where it lies can still be seen, but no longer hides the others.
    """

    floor: Tensor
    power: Tensor
    gain: Tensor
    unit: Tensor
    middle: Tensor
    weight: Tensor

    def __init__(self, mean: Tensor, std: Tensor, levels: Levels, axes: int) -> None:
        super().__init__(mean, std, axes)
        for name, value in levels._asdict().items():
            self.register_buffer(name, value.view(self.mean.shape) if value.ndim else value)

    def forward(self, x: Tensor) -> Tensor:
        """Any real dtype ``(batch, channels, *space)`` to the dtype of the mean."""
        x = x.to(self.mean.dtype)
        space, whole = tuple(range(2, x.ndim)), tuple(range(1, x.ndim))
        mean = x.mean(space, keepdim=True)
        x = x - mean
        rest = x.mean(space, keepdim=True)  # rounding of a mean far from zero: perhaps more than a shape
        x = (x - rest) / self.std
        size = x.abs().amax(whole, keepdim=True).maximum(self.floor)  # squares of anything else may be lost or infinite
        level = size * ((x / size).square().mean(whole, keepdim=True) + (self.floor / size).square()).sqrt()
        place = torch.asinh((mean - self.mean + rest) / self.std / self.unit)
        return x * (self.gain * level.pow(self.power - 1)) + self.weight * (place - self.middle)


class Unstandardise(Standardise):
    """``y * std + mean``, by output, or by output and point."""

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs, *space)``."""
        return torch.addcmul(self.mean, x, self.std)
