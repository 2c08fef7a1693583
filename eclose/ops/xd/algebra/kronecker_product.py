"""Kronecker products of complex matrices, many at once, and their derivatives."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from eclose.ops.kernels import served, traced
from eclose.ops.precision import full_precision


def kronecker(matrices: Sequence[Tensor]) -> Tensor:  # (count, 2, n_a, m_a)
    """``(count, 2, n, m)``, n and m being the products of rows and of columns.

    A zero row makes n even: products with columns of both parts, one above the other, are aligned then.
    """
    *others, last = matrices
    first = reduce(_times, others)
    return _times(first, last, first.shape[2] * last.shape[2] % 2)


def _times(x: Tensor, y: Tensor, more: int = 0) -> Tensor:
    """With so many zero rows below."""
    return _product(x, y, more) if traced() else _Kronecker.apply(x, y, more)


def _product(x: Tensor, y: Tensor, more: int) -> Tensor:
    a, b = x[..., :, None, :, None].unbind(1)  # (count, n, 1, m, 1)
    c, d = y[..., None, :, None, :].unbind(1)  # (count, 1, k, 1, p)
    real, imaginary = torch.addcmul(a * c, b, d, value=-1), torch.addcmul(a * d, b, c)
    parts = [part.flatten(1, 2).flatten(2) for part in (real, imaginary)]
    blank = x.new_zeros(len(x), more, parts[0].shape[2])
    return torch.cat([parts[0], blank, parts[1], blank] if more else parts, dim=1).unflatten(1, (2, -1))


class _Kronecker(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, more: int) -> Tensor:
        if served(x, y, double=True):
            from eclose.ops.xd.kernels.kronecker import kronecker_product

            return kronecker_product(x, y, more)
        return _product(x, y, more)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, None]:  # (count, 2, n * k + more, m * p)
        x, y = ctx.saved_tensors
        if served(cotangent, x, y, double=True):
            from eclose.ops.xd.kernels.kronecker import kronecker_gradients

            return *kronecker_gradients(cotangent, x, y), None
        with full_precision(cotangent.device.type):
            return *_slopes(x, y, cotangent), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, y: Tensor, more: int
    ) -> tuple[Tensor, int]:  # each with one more dimension, or as it is for all
        x, y = (
            part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
            for part, dim in zip((x, y), in_dims[:2], strict=True)
        )
        return _Kronecker.apply(x.flatten(0, 1), y.flatten(0, 1), more).unflatten(0, x.shape[:2]), 0


def _slopes(x: Tensor, y: Tensor, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives by x and y."""
    (n, m), (k, p) = x.shape[2:], y.shape[2:]
    # (count, 2, n * m, k * p): what belongs to an entry of x, and to one of y, lies in a row or column
    parts = cotangent[:, :, : n * k].unflatten(3, (m, p)).unflatten(2, (n, k)).transpose(3, 4)
    parts = parts.reshape(-1, 2, n * m, k * p)
    rows, columns = x.flatten(2), y.flatten(2)  # (count, 2, n * m), (count, 2, k * p)
    by_x = parts @ columns.unsqueeze(1).mT  # (count, parts of the cotangent, n * m, parts of y)
    by_y = rows.unsqueeze(1) @ parts  # (count, parts of the cotangent, parts of x, k * p)
    return _real_and_imaginary(by_x.movedim(3, 2)).view_as(x), _real_and_imaginary(by_y).view_as(y)


def _real_and_imaginary(products: Tensor) -> Tensor:  # (count, 2, 2, entries)
    """``z conj(w)`` from all products of the parts of z and of w."""
    (a, b), (c, d) = (part.unbind(1) for part in products.unbind(1))
    return torch.stack([a + d, c - b], dim=1)
