"""Mean and spread taken out of inputs and put back into outputs, as part of the network.

A found network therefore takes raw values and gives raw values wherever it is used.
"""

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    """``(x - mean) / std``, by channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, axes: int) -> None:
        super().__init__()
        shape = (1, -1, *(1 for _ in range(axes)))
        self.register_buffer("mean", mean.view(shape))
        self.register_buffer("std", std.view(shape))

    def forward(self, x: Tensor) -> Tensor:
        """Any real dtype ``(batch, channels, *space)`` to the dtype of the mean."""
        return (x.to(self.mean.dtype) - self.mean) / self.std


class Unstandardise(Standardise):
    """``y * std + mean``, by output."""

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs, *space)``."""
        return torch.addcmul(self.mean, x, self.std)
