"""Mean and spread taken out of inputs and put back into outputs, as part of the network.

A found network therefore takes raw values and gives raw values wherever it is used.
"""

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


class Unstandardise(Standardise):
    """``y * std + mean``, by output, or by output and point."""

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs, *space)``."""
        return torch.addcmul(self.mean, x, self.std)
