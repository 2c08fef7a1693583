"""Kronecker products of complex matrices, many at once, with a derivative that is a few matrix products."""

from typing import Any

import torch
from torch import Tensor


def kronecker(x: Tensor, y: Tensor) -> Tensor:  # (count, 2, n, m), (count, 2, k, p)
    """``(count, 2, n * k, m * p)``."""
    return _Kronecker.apply(x, y) if not torch.compiler.is_compiling() else _product(x, y)


def _product(x: Tensor, y: Tensor) -> Tensor:
    a, b = x[..., :, None, :, None].unbind(1)
    c, d = y[..., None, :, None, :].unbind(1)
    found = torch.stack([torch.addcmul(a * c, b, d, value=-1), torch.addcmul(a * d, b, c)], dim=1)
    return found.flatten(2, 3).flatten(3)


class _Kronecker(torch.autograd.Function):
    generate_vmap_rule = True  # for torch.func

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return _product(x, y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        (n, m), (k, p) = x.shape[2:], y.shape[2:]
        # (count, 2, n * m, k * p): what belongs to an entry of x, and to one of y, lies in a row or column
        parts = cotangent.view(-1, 2, n, k, m, p).transpose(3, 4).reshape(-1, 2, n * m, k * p)
        rows, columns = x.flatten(2), y.flatten(2)  # (count, 2, n * m), (count, 2, k * p)
        by_x = parts @ columns.unsqueeze(1).mT  # (count, parts of the cotangent, n * m, parts of y)
        by_y = rows.unsqueeze(1) @ parts  # (count, parts of the cotangent, parts of x, k * p)
        return _real_and_imaginary(by_x.movedim(3, 2)).view_as(x), _real_and_imaginary(by_y).view_as(y)


def _real_and_imaginary(products: Tensor) -> Tensor:  # (count, 2, 2, entries)
    """``z conj(w)`` from all products of the parts of z and of w."""
    (a, b), (c, d) = (part.unbind(1) for part in products.unbind(1))
    return torch.stack([a + d, c - b], dim=1)
