"""Drop-path (Larsson et al. 2017): while a network is trained, single samples go without single operations."""

import torch
from torch import Tensor, nn


class DropPath(nn.Module):
    """Scales up what stays, so that the mean over the draws is the output itself. All operations of a network share it.

    The probability rises to its value over so many ``epochs``; with 0 it is there from the first step on.
    """

    kept: Tensor

    def __init__(self, probability: float, epochs: float = 0.0) -> None:
        super().__init__()
        self.probability, self.epochs = probability, epochs
        self.register_buffer("kept", torch.tensor(1 - probability), persistent=False)

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``; the number goes into a tensor, which a CUDA graph reads."""
        if self.probability and self.epochs:
            self.kept.fill_(1 - self.probability * min(1.0, epochs / self.epochs))

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...)
        """The same shape."""
        if not self.training or not self.probability:
            return x
        stays = torch.rand(x.shape[0], *(1,) * (x.dim() - 1), device=x.device) < self.kept
        return x * (stays / self.kept).to(x.dtype)
