"""Networks on data that is smaller than what they were found on."""

import torch
from torch import Tensor, nn

from eclose.signature import Signature


class Padded(nn.Module):
    """``network`` on inputs with zeros behind the last position of every axis, so that they have ``sizes``.

    Answers at every position are cut to the size of the input.
    """

    def __init__(self, network: nn.Module, sizes: tuple[int, ...], signature: Signature) -> None:
        super().__init__()
        self.network = network
        self.missing = [n for size, small in zip(sizes, signature.sizes, strict=True) for n in (size - small, 0)][::-1]
        self.kept = None if signature.pooled else signature.sizes

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space), or (batch, length) tokens
        """As the network: one answer a sample, or one a position of ``x``."""
        y: Tensor = self.network(nn.functional.pad(x, self.missing))
        for axis, size in enumerate(self.kept or ()):
            y = torch.narrow(y, 2 + axis, 0, size)
        return y
