"""The Fourier layer of the Fourier neural operator (Li et al. 2021, equation 5) over one to three axes."""

import torch
from torch import nn


class SpectralConv(nn.Module):
    """``y = irfft(R * rfft(x))``: a learned complex matrix ``R[k]`` for each of the lowest frequencies ``k``.

    Kept are the frequencies ``-m <= k < m`` of every axis and, the input being real, ``0 <= k < m`` of the
    last: the corners of the spectrum. All others become zero. ``R`` belongs to frequencies and not to grid
    points, so one layer works at every resolution; a grid that is too coarse for ``m`` modes uses those that
    it has.
    """

    def __init__(self, inputs: int, outputs: int, modes: int, axes: int) -> None:
        super().__init__()
        self.modes = modes
        self.axes = axes
        scale = 1 / (inputs * outputs)
        kept = (*(2 * modes,) * (axes - 1), modes)  # frequencies 0 .. m-1, then -m .. -1
        self.weight = nn.Parameter(scale * torch.rand(inputs, outputs, *kept, 2))  # real and imaginary parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *space)``."""
        space = x.shape[2:]
        axes = tuple(range(2, 2 + self.axes))
        dtype = torch.promote_types(x.dtype, torch.float32)  # there is no FFT of half precision
        weight = torch.view_as_complex(self.weight.to(dtype))
        spectrum = torch.fft.rfftn(x.to(dtype), dim=axes)
        for axis, size in zip(axes[:-1], space[:-1], strict=True):
            low, high = (size + 1) // 2, size // 2  # how many frequencies >= 0 and < 0 the grid has
            spectrum = _ends(spectrum, axis, min(self.modes, low), min(self.modes, high))
            weight = _ends(weight, axis, min(self.modes, low), min(self.modes, high))
        last = min(self.modes, space[-1] // 2 + 1)
        mixed = torch.einsum("bi...,io...->bo...", spectrum[..., :last], weight[..., :last])
        for axis, size in zip(axes[:-1], space[:-1], strict=True):
            mixed = _spread(mixed, axis, min(self.modes, (size + 1) // 2), size)
        mixed = nn.functional.pad(mixed, (0, space[-1] // 2 + 1 - last))
        return torch.fft.irfftn(mixed, s=space, dim=axes).to(x.dtype)


def _ends(x: torch.Tensor, axis: int, first: int, last: int) -> torch.Tensor:
    """The ``first`` first and ``last`` last entries along ``axis``."""
    size = x.shape[axis]
    return torch.cat([x.narrow(axis, 0, first), x.narrow(axis, size - last, last)], dim=axis)


def _spread(x: torch.Tensor, axis: int, first: int, size: int) -> torch.Tensor:
    """Inverse of :func:`_ends`: zeros between the ends, up to ``size`` entries along ``axis``."""
    shape = list(x.shape)
    gap = x.new_zeros([*shape[:axis], size - shape[axis], *shape[axis + 1 :]])
    return torch.cat([x.narrow(axis, 0, first), gap, x.narrow(axis, first, shape[axis] - first)], dim=axis)
