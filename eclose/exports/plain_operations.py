"""A program in operations that ONNX has, where torch has more: complex numbers, averages, a kernel for every sample.

A rule is the decomposition of one operation of torch. It answers ``NotImplemented`` where ONNX can say it as it is.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram, default_decompositions
from torch.nn import functional as F

from eclose.exports.fourier_products import complex_transform, real_inverse, real_transform

_aten = torch.ops.aten


def in_plain_operations(program: ExportedProgram) -> ExportedProgram:
    """A program that computes the same with few kinds of operations: those of the core of torch, less our rules."""
    table = {operation: how for operation, how in default_decompositions().items() if operation not in _KEPT}
    return program.run_decompositions({**table, **_RULES})


def _by_parts(operation: Callable[..., Tensor]) -> Callable[..., Any]:
    """A linear operation: of the real and of the imaginary part."""

    def decomposed(x: Tensor, *arguments: Any, **options: Any) -> Any:
        if not x.is_complex():
            return NotImplemented
        return torch.complex(operation(x.real, *arguments, **options), operation(x.imag, *arguments, **options))

    return decomposed


def _product(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    def decomposed(x: Tensor, y: Tensor) -> Any:
        if not x.is_complex():
            return NotImplemented
        real = operation(x.real, y.real) - operation(x.imag, y.imag)
        return torch.complex(real, operation(x.real, y.imag) + operation(x.imag, y.real))

    return decomposed


def _constant(size: list[int], value: complex, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    if dtype is None or not dtype.is_complex:
        return NotImplemented
    return torch.complex(*(torch.full(size, part, dtype=dtype.to_real()) for part in (value.real, value.imag)))


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any:
    """As many groups as a batch has channels: ONNX wants their number now, so shifted copies are added."""
    plain = not transposed and bias is None and weight.shape[1] == 1 and set(stride) == {1}
    if isinstance(groups, int) or not plain:
        return NotImplemented
    padded = F.pad(x, [size for one in reversed(padding) for size in (one, one)])
    lengths = [n - far * (taps - 1) for n, far, taps in zip(padded.shape[2:], dilation, weight.shape[2:], strict=True)]
    total = torch.zeros(())
    for tap in itertools.product(*map(range, weight.shape[2:])):
        shifted = padded
        for axis, (place, far, length) in enumerate(zip(tap, dilation, lengths, strict=True), start=2):
            shifted = shifted.narrow(axis, place * far, length)
        factor = weight[(slice(None), 0, *tap)]
        total = total + shifted * factor.reshape(1, -1, *(1 for _ in lengths))
    return total


def _adaptive_average(x: Tensor, cells: list[int]) -> Tensor:
    """The average over a box is the average of averages along its axes; each is a product with a matrix."""
    for axis, count in enumerate(cells, start=-len(cells)):
        x = (x.movedim(axis, -1) @ _averages(x.shape[axis], count, x.dtype)).movedim(-1, axis)
    return x


def _averages(points: int, cells: int, dtype: torch.dtype) -> Tensor:
    """Column k averages the points from ``k points / cells``, rounded down, to the next such bound, rounded up."""
    point, cell = torch.arange(points)[:, None], torch.arange(cells)
    inside = (point >= cell * points // cells) & (point * cells < (cell + 1) * points)
    return inside.to(dtype) / inside.sum(0)


_KEPT = (_aten.linear.default, _aten.matmul.default)
_LINEAR = (
    *(_aten.alias.default, _aten.constant_pad_nd.default, _aten.expand.default),
    *(_aten.select.int, _aten.unsqueeze.default),
)
_RULES: dict[Any, Callable[..., Any]] = {
    **{operation: _by_parts(operation) for operation in _LINEAR},
    **{operation: _product(operation) for operation in (_aten.bmm.default, _aten.mm.default)},
    _aten.full.default: _constant,
    _aten._fft_c2c.default: complex_transform,
    _aten._fft_r2c.default: real_transform,
    _aten._fft_c2r.default: real_inverse,
    _aten.convolution.default: _convolution,
    _aten._adaptive_avg_pool2d.default: _adaptive_average,
    _aten._adaptive_avg_pool3d.default: _adaptive_average,
}
