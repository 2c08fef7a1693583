"""Other resolutions by Fourier transform (DNArch, section 2.4.2), and the same in space (appendix B).

A signal on ``n`` points keeps the frequencies that ``low`` points can hold. Of an even number of points the highest
one, which stands for two, is left out: down and up again is then the same projection for all sizes.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eclose.ops.masks import part, sigmoid_end, straight_through

Sizes = tuple[int, ...]


def resample(x: Tensor, sizes: Sequence[int]) -> Tensor:  # (batch, channels, *space)
    """``(batch, channels, *sizes)``: the same signal on other points, ``x`` itself where nothing changes."""
    before = x.shape[2:]
    if tuple(before) == tuple(sizes):
        return x
    axes = tuple(range(2, x.ndim))
    dtype = torch.promote_types(x.dtype, torch.float32)  # there is no FFT of half precision
    spectrum = torch.fft.rfftn(x.to(dtype), dim=axes, norm="forward")
    for axis, n, goal in zip(axes, before, sizes, strict=True):
        if n != goal:
            spectrum = _resized(spectrum, axis, highest(min(n, goal)), goal, last=axis == axes[-1])
    return torch.fft.irfftn(spectrum, s=tuple(sizes), dim=axes, norm="forward").to(x.dtype)


def highest(size: int) -> int:
    """The highest frequency that ``size`` points hold for certain."""
    return (size - 1) // 2


def low_size(offset: float, temperature: float, trained: int, size: int, step: int = 1) -> int:
    """The points that a resolution mask leaves of an axis of ``size``; its frequencies count those of ``trained``.

    ``step``: rounded up to a multiple of it.
    """
    kept = max(0, math.floor(trained / 2 * (sigmoid_end(offset, temperature) + 1) / 2))
    return min(size, -(-(2 * kept + 1) // step) * step)


def low_sizes(offset: Tensor, temperature: Tensor, trained: Tensor) -> Tensor:
    """The same for a table of masks, with the gradient of the length of a mask."""
    length = trained * part(offset, temperature)
    return straight_through(length, (2 * (length.detach() / 2).floor().clamp(min=0) + 1).minimum(trained))


def frequencies(number: int, trained: int, low: int, device: torch.device, *, last: bool) -> Tensor:
    """Where the frequencies of ``number`` points lie on the axis of a mask: 0 at -1, the highest of ``trained`` at 1.

    ``low`` of the points are one period of the domain. ``last``: those of a real transform.
    """
    cycles = (torch.fft.rfftfreq if last else torch.fft.fftfreq)(number, 1 / low, device=device).abs()
    return 4 * cycles / trained - 1


def resample_in_space(x: Tensor, response: Tensor, size: int) -> Tensor:  # (..., n), (n // 2 + 1,)
    """The last axis filtered by ``response`` at every frequency, then read at ``size`` places, ``(..., size)``.

    A convolution with the inverse transform of the mask, as in appendix B: for networks without Fourier transforms.
    """
    n = x.shape[-1]
    cycles = torch.arange(len(response)).to(x)
    twice = torch.where((cycles == 0) | (2 * cycles == n), 1.0, 2.0)  # every other frequency stands for two
    distance = torch.arange(size).to(x)[:, None] / size - torch.arange(n).to(x) / n
    waves = torch.cos(2 * math.pi * distance[..., None] * cycles)  # (size, n, frequencies)
    return nn.functional.linear(x, (waves * (twice * response)).sum(-1) / n)


def _resized(spectrum: Tensor, axis: int, kept: int, size: int, *, last: bool) -> Tensor:
    """Frequencies up to ``kept``, with zeros for all others that ``size`` points have."""
    low = spectrum.narrow(axis, 0, kept + 1)
    shape = list(spectrum.shape)
    if last:
        shape[axis] = size // 2 + 1 - (kept + 1)
        return torch.cat([low, spectrum.new_zeros(shape)], dim=axis)
    shape[axis] = size - (2 * kept + 1)
    negative = spectrum.narrow(axis, spectrum.shape[axis] - kept, kept)
    return torch.cat([low, spectrum.new_zeros(shape), negative], dim=axis)
