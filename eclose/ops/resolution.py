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

from eclose.ops.masks import part, product, sigmoid_end, straight_through
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
    if max(*before, *sizes) <= _SHORT:
        return _by_matrices(x, before, sizes)
    dtype = torch.promote_types(x.dtype, torch.float32)  # there is no FFT of half precision
    if torch.compiler.is_compiling():
        return _by_transforms(x.to(dtype), sizes).to(x.dtype)
    y: Tensor = _Resampling.apply(x.to(dtype), tuple(sizes))
    return y.to(x.dtype)


def low_pass(x: Tensor, filters: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:  # (batch, channels, *space)
    """``(batch, channels, *sizes)``: what masks leave of the frequencies of every axis, on as few points (appendix B).

    In space that is a convolution, on a circle, with the inverse transform of the mask, whose result is read at fewer
    places. As wide as a short axis it is a matrix; along long axes it is made by Fourier transforms. Of a coarser
    signal those frequencies count that its points hold for certain. ``filters`` are those of :func:`low_pass_filters`.
    """
    if not torch.compiler.is_compiling() and x.shape[0] == 0:
        return x.new_empty(*x.shape[:2], *sizes)
    with full_precision(x.device.type):  # what is added to a signal has the digits of the signal
        if takes_transforms(x.shape[2:]):
            dtype = torch.promote_types(x.dtype, torch.float32)
            return _by_transforms(x.to(dtype), sizes, filters).to(x.dtype)
        matrices = [matrix.to(x.dtype) for matrix in filters]
        if torch.compiler.is_compiling():
            return _multiplied(x, matrices)
        y: Tensor = _Multiplied.apply(x, *matrices)
        return y


def low_pass_filters(responses: Sequence[Tensor], before: Sequence[int], sizes: Sequence[int]) -> list[Tensor]:
    """What a signal on ``before`` points is multiplied with to lie on ``sizes``: a matrix for every short axis.

    ``responses`` has the values of the mask of every axis, at frequency 0 and so on up to half of its points.
    """
    if takes_transforms(before):
        return list(responses)
    with full_precision(responses[0].device.type):
        return [_low_pass_matrix(*axis) for axis in zip(responses, before, sizes, strict=True)]


def takes_transforms(sizes: Sequence[int]) -> bool:
    """Whether a low-pass of so many points is made by transforms, whose spectrum is kept for the way back."""
    return max(sizes) > _SHORT


def multiplications(sizes: Sizes, points: Tensor, *, up: bool = False) -> Tensor:  # (axes,)
    """How many a channel takes to come from ``sizes`` to fewer points by a low-pass, or ``up`` from there."""
    many, few = torch.tensor(sizes, dtype=points.dtype), points
    if up and torch.equal(many, few):
        return points.new_zeros(())
    if takes_transforms(sizes):
        return sum((n.prod() * torch.log2(n.prod().clamp(min=2)) for n in (many, few)), start=points.new_zeros(()))
    total, (begin, end) = points.new_zeros(()), (few, many) if up else (many, few)
    for axis, n in enumerate(sizes):
        if not (up and int(few[axis]) == n):
            total = total + begin[: axis + 1].prod() * end[axis:].prod()
    return total


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


def _by_transforms(x: Tensor, sizes: Sequence[int], responses: Sequence[Tensor] = ()) -> Tensor:
    axes = tuple(range(2, x.ndim))
    spectrum = torch.fft.rfftn(x, dim=axes, norm="forward")
    for axis, n, goal in zip(axes, x.shape[2:], sizes, strict=True):
        if n != goal:
            spectrum = _resized(spectrum, axis, highest(min(n, goal)), goal, last=axis == axes[-1])
    if responses:
        *lines, last = (response.to(x.dtype) for response in responses)
        lines = [_negative_too(*each) for each in zip(lines, sizes[:-1], strict=True)]
        spectrum = spectrum * product([*lines, last[: sizes[-1] // 2 + 1]])
    return torch.fft.irfftn(spectrum, s=tuple(sizes), dim=axes, norm="forward")


def _negative_too(response: Tensor, size: int) -> Tensor:
    """The values of a mask at all frequencies of ``size`` points, the negative ones behind, as in a spectrum."""
    return torch.cat([response[: size // 2 + 1], response[1 : (size + 1) // 2].flip(0)])


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
    axes = zip(before, sizes, strict=True)
    return _multiplied(x, [None if n == m else _matrix(n, m, x.dtype, x.device) for n, m in axes])


def _multiplied(x: Tensor, matrices: Sequence[Tensor | None]) -> Tensor:
    """Every axis by its matrix, the last one first."""
    y, start = _as_it_lies(x)
    for axis, matrix in reversed(list(enumerate(matrices, start))):
        y = y if matrix is None else _on_axis(y, axis, matrix)
    return y.movedim(-1, 1) if start == 1 else y


def _as_it_lies(x: Tensor) -> tuple[Tensor, int]:
    """``x`` with its channels behind all axes, if they lie there in memory, and the first of these axes."""
    last = x.stride(1) == 1 and x.shape[1] > 1
    return (x.movedim(1, -1), 1) if last else (x, 2)


def _on_axis(y: Tensor, axis: int, matrix: Tensor) -> Tensor:
    if axis == y.ndim - 1:
        return y @ matrix.T
    rows = y.flatten(0, axis - 1).flatten(2)
    product = torch.bmm(matrix.expand(rows.shape[0], -1, -1), rows)  # matmul would turn it, by copies
    return product.view(*y.shape[:axis], len(matrix), *y.shape[axis + 1 :])


class _Multiplied(torch.autograd.Function):
    """The same for matrices that learn: of what lies between the axes nothing is kept, ``x`` is there anyway."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *matrices: Tensor) -> Tensor:
        ctx.save_for_backward(x if any(ctx.needs_input_grad[1:]) else None, *matrices)
        return _multiplied(x, matrices)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, *matrices = ctx.saved_tensors
        if x is None:
            return _multiplied(gradient, [matrix.T for matrix in matrices]), *(None for _ in matrices)
        y, start = _as_it_lies(x)
        given = [y]  # what the first axis was given, the second one, ...
        for axis, matrix in reversed(list(enumerate(matrices, start))[1:]):
            given.insert(0, _on_axis(given[0], axis, matrix))
        back = gradient.movedim(1, -1) if start == 1 else gradient
        grads = []
        for axis, (matrix, y) in enumerate(zip(matrices, given, strict=True), start):
            grads.append(_products(back, y, axis))
            back = _on_axis(back, axis, matrix.T)
        return back.movedim(-1, 1) if start == 1 else back, *grads


def _products(one: Tensor, other: Tensor, axis: int) -> Tensor:
    """Of all pairs of points along an axis, summed over everything else."""
    if axis == one.ndim - 1:
        return one.flatten(0, -2).T @ other.flatten(0, -2)
    a, b = (each.flatten(0, axis - 1).flatten(2) for each in (one, other))
    return torch.bmm(a, b.transpose(1, 2)).sum(0)


def _low_pass_matrix(response: Tensor, size: int, goal: int) -> Tensor:  # (goal, size)
    """Row j is the inverse transform of the mask around the place of point j."""
    make = _new_waves if torch.compiler.is_compiling() else _kept_waves
    into, out = make(size, goal, response.dtype, response.device)
    values = response[: len(into) // 2]
    return (out * torch.cat([values, values])) @ into


def _new_waves(size: int, goal: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Of ``size`` points the cosines and sines that ``goal`` points hold, ``(2 waves, size)``, ``(goal, 2 waves)``."""
    cycles = torch.arange((size // 2 if goal == size else highest(goal)) + 1, dtype=torch.float64)
    here, there = (2 * math.pi * torch.arange(n).double()[:, None] / n * cycles for n in (size, goal))
    share = torch.where((cycles == 0) | (2 * cycles == size), 1, 2).double() / size  # all others stand for two
    into = torch.cat([share * torch.cos(here), share * torch.sin(here)], dim=1).T
    return into.to(device, dtype).contiguous(), torch.cat([torch.cos(there), torch.sin(there)], dim=1).to(device, dtype)


_kept_waves = cache(torch.inference_mode(False)(_new_waves))


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


def low_sizes(offset: Tensor, temperature: Tensor, sizes: Sizes | Sequence[Sizes]) -> Tensor:  # (..., axes)
    """The same for a table of masks, with the gradient of the length of a mask; ``sizes`` of all rows, or of each."""
    trained = torch.tensor(sizes, device=offset.device)
    length = trained * part(offset, temperature)
    kept = (length.detach() / 2).floor().clamp(min=0).minimum(trained // 2).long()
    return straight_through(length, _fast_sizes(int(trained.max()) // 2 + 1).to(kept.device)[kept].minimum(trained))


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
