"""Kronecker products of complex matrices, many at once, with a derivative that is a few matrix products."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def kronecker(matrices: Sequence[Tensor]) -> Tensor:  # (count, 2, n_a, m_a)
    """``(count, 2, n, m)``, n and m being the products of rows and of columns; a zero row makes n even.

    A column lies in memory as one piece, real parts first: the matrix and its adjoint are equally good factors then,
    and with n even aligned ones.
    """
    *others, last = matrices
    first = reduce(_times, others)
    return _times(first, last, first.shape[2] * last.shape[2] % 2)


def _times(x: Tensor, y: Tensor, more: int = 0) -> Tensor:
    """With so many zero rows below."""
    return _product(x, y, more) if torch.compiler.is_compiling() else _Kronecker.apply(x, y, more)


def _product(x: Tensor, y: Tensor, more: int) -> Tensor:
    """By operations that torch can trace."""
    (a, b), (c, d) = _factors(x, y)
    parts = torch.stack([a * c - b * d, a * d + b * c], dim=3)  # (count, m, p, 2, n, k)
    return F.pad(parts.flatten(4), (0, more)).flatten(1, 2).permute(0, 2, 3, 1)


def _written(x: Tensor, y: Tensor, more: int) -> Tensor:
    """The same, every part at once where it belongs."""
    (n, m), (k, p) = x.shape[2:], y.shape[2:]
    (a, b), (c, d) = _factors(x, y)
    found = x.new_zeros(len(x), m, p, 2, n * k + more)
    real, imaginary = found[..., : n * k].unflatten(-1, (n, k)).unbind(3)
    torch.mul(a, c, out=real).addcmul_(b, d, value=-1)
    torch.mul(a, d, out=imaginary).addcmul_(b, c)
    return found.flatten(1, 2).permute(0, 2, 3, 1)


def _factors(x: Tensor, y: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Both parts of ``x^T``, ``(count, m, 1, n, 1)``, and of ``y^T``, ``(count, 1, p, 1, k)``."""
    return x.mT[:, :, :, None, :, None].unbind(1), y.mT[:, :, None, :, None, :].unbind(1)


class _Kronecker(torch.autograd.Function):
    generate_vmap_rule = True  # for torch.func

    @staticmethod
    def forward(x: Tensor, y: Tensor, more: int) -> Tensor:
        return _written(x, y, more)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        (n, m), (k, p) = x.shape[2:], y.shape[2:]
        # (count, 2, n * m, k * p): what belongs to an entry of x, and to one of y, lies in a row or column
        parts = cotangent[:, :, : n * k].unflatten(3, (m, p)).unflatten(2, (n, k)).transpose(3, 4)
        parts = parts.reshape(-1, 2, n * m, k * p)
        rows, columns = x.flatten(2), y.flatten(2)  # (count, 2, n * m), (count, 2, k * p)
        by_x = parts @ columns.unsqueeze(1).mT  # (count, parts of the cotangent, n * m, parts of y)
        by_y = rows.unsqueeze(1) @ parts  # (count, parts of the cotangent, parts of x, k * p)
        return _real_and_imaginary(by_x.movedim(3, 2)).view_as(x), _real_and_imaginary(by_y).view_as(y), None


def _real_and_imaginary(products: Tensor) -> Tensor:  # (count, 2, 2, entries)
    """``z conj(w)`` from all products of the parts of z and of w."""
    (a, b), (c, d) = (part.unbind(1) for part in products.unbind(1))
    return torch.stack([a + d, c - b], dim=1)
