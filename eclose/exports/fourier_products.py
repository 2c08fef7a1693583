"""Fourier transforms as products with small matrices, in real arithmetic: what every runtime of ONNX does quickly.

ONNX has an operation for them, but onnxruntime takes tens of times longer for it than torch does for the transform.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Parts = tuple[Tensor, Tensor | None]  # real and imaginary; None: zero

_SHORT = 128  # points of an axis up to which one product is quicker than two
_LONGEST = 4096  # side of a matrix


def complex_transform(x: Tensor, axes: Sequence[int], normalisation: int, forward: bool) -> Any:
    """``aten._fft_c2c``."""
    sizes = [x.shape[axis] for axis in axes]
    if not _factored(sizes):
        return NotImplemented
    parts: Parts = x.real, x.imag
    for axis, size in zip(axes, sizes, strict=True):
        parts = _along(parts, axis, size, size, normalisation, -1 if forward else 1)
    return _complex(parts)


def real_transform(x: Tensor, axes: Sequence[int], normalisation: int, onesided: bool) -> Any:
    """``aten._fft_r2c``; ``onesided``: of the last axis the frequencies from 0 up."""
    sizes = [x.shape[axis] for axis in axes]
    if not _factored(sizes):
        return NotImplemented
    kept = [*sizes[:-1], sizes[-1] // 2 + 1 if onesided else sizes[-1]]
    parts: Parts = x, None
    for axis, size, number in reversed(list(zip(axes, sizes, kept, strict=True))):
        parts = _along(parts, axis, size, number, normalisation, -1)
    return _complex(parts)


def real_inverse(x: Tensor, axes: Sequence[int], normalisation: int, size: int) -> Any:
    """``aten._fft_c2r``: ``Real(F^-1 (c x))``, c being 2 for frequencies of the last axis that stand for two."""
    sizes = [*(x.shape[axis] for axis in axes[:-1]), size]
    if not _factored(sizes):
        return NotImplemented
    frequency = torch.arange(size // 2 + 1)
    twice = torch.where((frequency == 0) | (2 * frequency == size), 1.0, 2.0).to(x.real.dtype)
    twice = twice.reshape(-1, *(1 for _ in range(axes[-1] + 1, x.ndim)))
    real, imaginary = (part.narrow(axes[-1], 0, size // 2 + 1) * twice for part in (x.real, x.imag))
    parts: Parts = real, imaginary
    for axis, number in zip(axes, sizes, strict=True):
        parts = _along(parts, axis, number, number, normalisation, 1)
    return parts[0]


def _factors(size: int) -> tuple[int, int]:
    """Two whole numbers whose product is ``size``, as close as possible; the first is 1 for a short axis."""
    if size <= _SHORT:
        return 1, size
    first = next(number for number in range(math.isqrt(size), 0, -1) if size % number == 0)
    return first, size // first


def _factored(sizes: Sequence[int]) -> bool:
    """Whether the matrices for these axes are small; a long axis of prime length would need a large one."""
    return all(_factors(size)[1] <= _LONGEST for size in sizes)


def _along(x: Parts, axis: int, size: int, kept: int, normalisation: int, sign: int) -> Parts:
    """The first ``kept`` values of a transform of ``size`` points; points that ``x`` does not have are zero."""
    scale = size ** (-normalisation / 2)  # 0: none, 1: orthogonal, 2: the mean
    moved = _each(x, lambda part: part.movedim(axis, -1))
    return _each(_transformed(moved, size, kept, scale, sign), lambda part: part.movedim(-1, axis))


def _transformed(x: Parts, size: int, kept: int, scale: float, sign: int) -> Parts:
    """Along the last axis. A long one is read as a table, both axes of which are transformed (Cooley and Tukey)."""
    points, dtype = x[0].shape[-1], x[0].dtype
    rows, columns = _factors(size)
    if rows == 1:
        return _multiplied(torch.matmul, x, _waves(points, kept, size, sign, scale, dtype))
    y = _each(x, lambda part: F.pad(part, (0, size - points)).unflatten(-1, (rows, columns)))
    y = _multiplied(torch.matmul, _waves(rows, rows, rows, sign, scale, dtype), y)
    y = _multiplied(torch.mul, y, _waves(rows, columns, size, sign, 1.0, dtype))
    y = _multiplied(torch.matmul, y, _waves(columns, columns, columns, sign, 1.0, dtype))
    return _each(y, lambda part: part.transpose(-1, -2).flatten(-2)[..., :kept])


def _waves(rows: int, columns: int, size: int, sign: int, scale: float, dtype: torch.dtype) -> Parts:
    """``scale exp(sign 2 pi i j k / size)`` for row j and column k."""
    turns = torch.arange(rows)[:, None] * torch.arange(columns) % size  # whole turns go while numbers are exact
    angle = turns.to(dtype) * (2 * math.pi / size)
    return angle.cos() * scale, angle.sin() * (sign * scale)


def _complex(x: Parts) -> Tensor:
    return torch.complex(x[0], torch.zeros_like(x[0]) if x[1] is None else x[1])


def _each(x: Parts, change: Callable[[Tensor], Tensor]) -> Parts:
    return change(x[0]), None if x[1] is None else change(x[1])


def _multiplied(by: Callable[[Tensor, Tensor], Tensor], x: Parts, y: Parts) -> Parts:
    if x[1] is None:
        return _each(y, lambda part: by(x[0], part))
    if y[1] is None:
        return _each(x, lambda part: by(part, y[0]))
    return by(x[0], y[0]) - by(x[1], y[1]), by(x[0], y[1]) + by(x[1], y[0])
