"""The Fourier layer of the Fourier neural operator (Li et al. 2021, equation 5) over one to three axes."""

import torch
from torch import nn

from eclose.ops.fourier_layer import fourier_layer


class SpectralConv(nn.Module):
    """``y = irfft(R * rfft(x))``: a learned complex matrix ``R[k]`` for each of the lowest frequencies ``k``.

    Kept are the frequencies ``-m <= k < m`` of every axis and, the input being real, ``0 <= k < m`` of the
    last: the corners of the spectrum. All others become zero. ``R`` belongs to frequencies and not to grid
    points, so one layer works at every resolution; a grid that is too coarse for ``m`` modes uses those that
    it has.
    """

    unslowed = ("weight",)  # a frequency sums over channels only, however many frequencies there are

    def __init__(self, inputs: int, outputs: int, modes: int, axes: int) -> None:
        super().__init__()
        self.modes = modes
        self.axes = axes
        scale = 1 / (inputs * outputs)
        kept = (*(2 * modes,) * (axes - 1), modes)  # frequencies 0 .. m-1, then -m .. -1
        self.weight = nn.Parameter(scale * torch.rand(inputs, outputs, *kept, 2))  # real and imaginary parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *space)``."""
        return fourier_layer(x, self.weight)
