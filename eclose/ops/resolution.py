"""Other resolutions by Fourier transform (DNArch, section 2.4.2), and the same in space (appendix B).

A signal on ``n`` points keeps the frequencies that ``low`` points can hold. Of an even number of points the highest
one, which stands for two, is left out: down and up again is then the same projection for all sizes.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.masks import part, sigmoid_end, straight_through
from eclose.ops.precision import full_precision

Sizes = tuple[int, ...]
Lags = tuple[tuple[int, int], ...]  # the first and the last one along every axis

_FARTHER = 1  # lag
_SHORT = 128  # points of an axis up to which a matrix is quicker than a transform


def resample(x: Tensor, sizes: Sequence[int]) -> Tensor:  # (batch, channels, *space)
    """``(batch, channels, *sizes)``: the same signal on other points, ``x`` itself where nothing changes."""
    before = x.shape[2:]
    if tuple(before) == tuple(sizes):
        return x
    if not torch.compiler.is_compiling() and x.shape[0] == 0:  # a process without a share of the batch
        return x.new_empty(*x.shape[:2], *sizes)
    if len(before) < 3 and max(*before, *sizes) <= _SHORT:
        return _by_matrices(x, before, sizes)
    dtype = torch.promote_types(x.dtype, torch.float32)  # there is no FFT of half precision
    if torch.compiler.is_compiling():
        return _by_transforms(x.to(dtype), sizes).to(x.dtype)
    y: Tensor = _Resampling.apply(x.to(dtype), tuple(sizes))
    return y.to(x.dtype)


def without_highest(x: Tensor, axes: Sequence[int]) -> Tensor:
    """``x`` without the frequency that an even number of points hold only half of, along these axes.

    It is what other points give back of ``x``: ``resample(resample(x, finer), x.shape[2:])``.
    """
    axes = tuple(axis for axis in axes if x.shape[axis] % 2 == 0)
    if not axes or torch.compiler.is_compiling():
        return _without_highest(x, axes)
    y: Tensor = _WithoutHighest.apply(x, axes)
    return y


def resample_kernel(
    kernel: Tensor, lags: Lags, points: Sizes, goal: Sizes, lags_there: Lags
) -> Tensor:  # (channels, *lags)
    """``(channels, *lags_there)``: a kernel on ``points`` for signals on ``goal`` points of the same domain.

    It keeps the frequencies that both hold, as its signals do, and a point counts by how much of the domain it stands
    for. Outside of its lags it is zero; it lies on a circle of two domains, on which no lag meets another.
    """
    with full_precision(kernel.device.type):
        for axis, (n, m) in enumerate(zip(points, goal, strict=True)):
            if n != m:
                by = _by_matrix if max(n, m) <= _SHORT else _on_a_circle
                moved = by(kernel.movedim(axis + 1, -1), lags[axis], n, m, lags_there[axis])
                kernel = moved.movedim(-1, axis + 1)
    return kernel


def lags_on(points: int, goal: int, lags: tuple[int, int]) -> tuple[int, int]:
    """Where a kernel on ``points`` lies on ``goal`` points; what it has left of sharp ends reaches a little farther."""
    if points == goal:
        return lags
    first, last = (lag * goal / points for lag in lags)
    return max(1 - goal, math.floor(first) - _FARTHER), min(goal - 1, math.ceil(last) + _FARTHER)


def _by_matrix(kernel: Tensor, lags: tuple[int, int], n: int, m: int, there: tuple[int, int]) -> Tensor:
    make = _new_kernel_matrix if torch.compiler.is_compiling() else _kept_kernel_matrix
    matrix = make(n, m, kernel.dtype, kernel.device)  # lag 0 lies in its middle
    return kernel @ matrix[there[0] + m - 1 : there[1] + m, lags[0] + n - 1 : lags[1] + n].T


def _on_a_circle(kernel: Tensor, lags: tuple[int, int], n: int, m: int, there: tuple[int, int]) -> Tensor:
    placed = F.pad(kernel, (0, 2 * n - kernel.shape[-1])).roll(lags[0], -1)
    moved = resample(placed.flatten(0, -2)[None], (2 * m,))[0].reshape(*kernel.shape[:-1], 2 * m)
    return moved.roll(-there[0], -1)[..., : there[1] - there[0] + 1] * (n / m)


def _new_kernel_matrix(n: int, m: int, dtype: torch.dtype, device: torch.device) -> Tensor:  # (2 m - 1, 2 n - 1)
    rows, columns = torch.arange(1 - m, m) % (2 * m), torch.arange(1 - n, n) % (2 * n)
    matrix = _new_matrix(2 * n, 2 * m, torch.float64, torch.device("cpu"))
    return (matrix[rows][:, columns] * (n / m)).to(device, dtype)


def _by_transforms(x: Tensor, sizes: Sequence[int]) -> Tensor:
    axes = tuple(range(2, x.ndim))
    spectrum = torch.fft.rfftn(x, dim=axes, norm="forward")
    for axis, n, goal in zip(axes, x.shape[2:], sizes, strict=True):
        if n != goal:
            spectrum = _resized(spectrum, axis, highest(min(n, goal)), goal, last=axis == axes[-1])
    return torch.fft.irfftn(spectrum, s=tuple(sizes), dim=axes, norm="forward")


class _Resampling(torch.autograd.Function):
    """By transforms. The way back is the same with the sizes exchanged; torch's own has complex ones and keeps x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: Sizes) -> Tensor:
        ctx.before = tuple(x.shape[2:])
        return _by_transforms(x, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        share = math.prod(gradient.shape[2:]) / math.prod(ctx.before)
        return share * _Resampling.apply(gradient, ctx.before), None


def _without_highest(x: Tensor, axes: Sizes) -> Tensor:
    for axis in axes:
        even, odd = x.unflatten(axis, (-1, 2)).sum(axis).unbind(axis)
        make = _new_wave if torch.compiler.is_compiling() else _kept_wave
        wave = make(x.shape[axis], x.dtype, x.device).view(-1, *[1] * (x.ndim - 1 - axis))
        x = torch.addcmul(x, (even - odd).unsqueeze(axis), wave, value=-1 / len(wave))
    return x


class _WithoutHighest(torch.autograd.Function):
    """The way back is the same, and needs nothing that was there before."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: Sizes) -> Tensor:
        ctx.axes = axes
        return _without_highest(x, axes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return without_highest(gradient, ctx.axes), None


def _by_matrices(x: Tensor, before: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The same by a matrix for each axis: short axes are done before a transform has begun."""
    if before[-1] != sizes[-1]:
        x = x @ _matrix(before[-1], sizes[-1], x.dtype, x.device).T
    if len(sizes) == 2 and before[0] != sizes[0]:
        x = _matrix(before[0], sizes[0], x.dtype, x.device) @ x
    return x


def _matrix(size: int, goal: int, dtype: torch.dtype, device: torch.device) -> Tensor:  # (goal, size)
    make = _new_matrix if torch.compiler.is_compiling() else _kept_matrix  # traced tensors are not to be kept
    return make(size, goal, dtype, device)


def _new_matrix(size: int, goal: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Of a cosine for each frequency that both hold."""
    cycles = torch.arange(highest(min(size, goal)) + 1, dtype=torch.float64)
    distance = torch.arange(goal).double()[:, None] / goal - torch.arange(size).double() / size
    waves = torch.cos(2 * math.pi * distance[..., None] * cycles).sum(-1)
    return ((2 * waves - 1) / size).to(device, dtype)


def _new_wave(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1, -1, 1, -1, ..."""
    return 1 - 2 * (torch.arange(size, device=device) % 2).to(dtype)


# Few and small; none may go while a CUDA graph reads it. A training may come to use what an inference has made.
_kept_matrix, _kept_kernel_matrix, _kept_wave = (
    cache(torch.inference_mode(False)(make)) for make in (_new_matrix, _new_kernel_matrix, _new_wave)
)


def highest(size: int) -> int:
    """The highest frequency that ``size`` points hold for certain."""
    return (size - 1) // 2


def low_size(offset: float, temperature: float, trained: int, size: int) -> int:
    """The points that a resolution mask leaves of an axis of ``size``; its frequencies count those of ``trained``."""
    kept = max(0, math.floor(trained / 2 * (sigmoid_end(offset, temperature) + 1) / 2))
    return min(size, fast_size(2 * kept + 1))


def low_sizes(offset: Tensor, temperature: Tensor, sizes: Sizes) -> Tensor:  # (..., axes)
    """The same for a table of masks, with the gradient of the length of a mask."""
    trained = torch.tensor(sizes, device=offset.device)
    length = trained * part(offset, temperature)
    kept = (length.detach() / 2).floor().clamp(min=0).minimum(trained // 2).long()
    return straight_through(length, _fast_sizes(max(sizes) // 2 + 1).to(kept.device)[kept].minimum(trained))


@cache
def _fast_sizes(number: int) -> Tensor:
    """Points that hold 0, 1, 2, ... frequencies besides the constant."""
    return torch.tensor([fast_size(2 * kept + 1) for kept in range(number)])


def frequencies(number: int, trained: int, low: int, device: torch.device, *, last: bool) -> Tensor:
    """Where the frequencies of ``number`` points lie on the axis of a mask: 0 at -1, the highest of ``trained`` at 1.

    ``low`` of the points are one period of the domain. ``last``: those of a real transform.
    """
    cycles = (torch.fft.rfftfreq if last else torch.fft.fftfreq)(number, 1 / low, device=device).abs()
    return 4 * cycles / trained - 1


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


def fast_size(size: int) -> int:
    """The next number of points that a real FFT is quick for: even, no prime factor above 5."""
    size += size % 2
    while _rest(size) > 1:
        size += 2
    return size


def _rest(number: int) -> int:
    for prime in (2, 3, 5):
        while number % prime == 0:
            number //= prime
    return number
