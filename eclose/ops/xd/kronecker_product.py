"""Kronecker products of complex matrices, many at once, with a derivative that is a few matrix products."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor


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
    a, b = x.mT[:, :, :, None, :, None].unbind(1)  # (count, m, 1, n, 1)
    c, d = y.mT[:, :, None, :, None, :].unbind(1)  # (count, 1, p, 1, k)
    real, imaginary = torch.addcmul(a * c, b, d, value=-1).flatten(3), torch.addcmul(a * d, b, c).flatten(3)
    blank = x.new_zeros(*real.shape[:3], more)
    found = torch.cat([real, blank, imaginary, blank] if more else [real, imaginary], dim=3)
    return found.unflatten(3, (2, -1)).flatten(1, 2).permute(0, 2, 3, 1)


class _Kronecker(torch.autograd.Function):
    generate_vmap_rule = True  # for torch.func

    @staticmethod
    def forward(x: Tensor, y: Tensor, more: int) -> Tensor:
        return _product(x, y, more)

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
