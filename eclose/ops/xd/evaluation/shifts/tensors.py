"""Shift tensors: all that K, L and M of an axis do to a signal, tap by tap.

``T[s, p, u] = sum_f K[p, f] L[f, s] M[f, u]`` is what tap s of output p does to input u: at the start of a
convolution a matrix of zeros and ones that shifts the signal. On one axis the bias is one more tap, of weight C:
``D[p, u] = sum_f K[p, f] b[f] M[f, u]``.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eclose.ops.kernels import served, traced
from eclose.ops.precision import full_precision


def shift_tensors(outer: Sequence[Tensor], filters: Sequence[Tensor], inner: Sequence[Tensor]) -> list[Tensor]:
    """``(.., 2, kernel, out, size)`` of every axis; of a single one the real part, ``(.., 1, kernel, out, size)``."""
    single = len(outer) == 1
    return [shift_tensor(*matrices, real=single) for matrices in zip(outer, filters, inner, strict=True)]


def shift_tensor(outer: Tensor, filters: Tensor, inner: Tensor, *, real: bool = False) -> Tensor:
    """``(.., 2, kernel, out, size)`` from the adjoint of K ``(.., 2, n, out)``, L ``(.., 2, n, kernel)`` and M.

    Only these are kept for the derivative: what lies between is larger.
    """
    if traced():
        return _shift(outer, filters, inner, real)
    shifts: Tensor = _Shift.apply(outer, filters, inner, real)
    return shifts


def _shift(outer: Tensor, filters: Tensor, inner: Tensor, real: bool) -> Tensor:
    """One product of ``(kernel * out, 2n)`` with ``(2n, 2 * size)``."""
    left = _left(outer, filters)
    product = (left.flatten(-3, -2) @ _right(inner, real)).unflatten(-1, (-1, inner.shape[-1]))
    return product.movedim(-2, -3).unflatten(-2, left.shape[-3:-1]).contiguous()


def _left(outer: Tensor, filters: Tensor) -> Tensor:
    """``K[p, f] L[f, s]``, ``(.., kernel, out, 2n)``."""
    (a, b), (c, d) = filters.mT.unsqueeze(-2).unbind(-4), outer.mT.unsqueeze(-3).unbind(-4)
    return torch.cat([a * c + b * d, b * c - a * d], dim=-1)


def _right(inner: Tensor, real: bool) -> Tensor:
    """``(.., 2n, size)`` for the real part, ``(.., 2n, 2 * size)`` for both."""
    e, f = inner.unbind(-3)
    right = torch.cat([e, -f], dim=-2)
    return right if real else torch.cat([right, torch.cat([f, e], dim=-2)], dim=-1)


class _Shift(torch.autograd.Function):
    generate_vmap_rule = True  # for torch.func

    @staticmethod
    def forward(outer: Tensor, filters: Tensor, inner: Tensor, real: bool) -> Tensor:
        if not real and served(outer, filters, inner):
            from eclose.ops.xd.kernels.shift_tensors import shift_tensors_on_gpu

            return shift_tensors_on_gpu(outer, filters, inner)
        return _shift(outer, filters, inner, real)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *matrices, ctx.real = inputs
        ctx.save_for_backward(*matrices)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # (.., parts, kernel, out, size)
        outer, filters, inner = ctx.saved_tensors
        if not ctx.real and served(cotangent, outer, filters, inner):
            from eclose.ops.xd.kernels.shift_tensors import shift_tensor_gradients

            return *shift_tensor_gradients(outer, filters, inner, cotangent), None
        with full_precision(cotangent.device.type):
            return *_gradients(outer, filters, inner, cotangent, ctx.real), None


def _gradients(
    outer: Tensor, filters: Tensor, inner: Tensor, cotangent: Tensor, real: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives by the adjoint of K, by L and by M."""
    rows = cotangent.movedim(-4, -2).flatten(-4, -3).flatten(-2)  # (.., kernel * out, parts * size)
    left = _left(outer, filters)
    g, h = (rows @ _right(inner, real).mT).view_as(left).chunk(2, dim=-1)
    (a, b), (c, d) = filters.mT.unsqueeze(-2).unbind(-4), outer.mT.unsqueeze(-3).unbind(-4)
    by_filters = torch.stack([(g * c - h * d).sum(-2), (g * d + h * c).sum(-2)], dim=-3).mT
    by_outer = torch.stack([(g * a + h * b).sum(-3), (g * b - h * a).sum(-3)], dim=-3).mT
    by_right = left.flatten(-3, -2).mT @ rows
    upper, lower = by_right.chunk(2, dim=-2)
    if real:
        return by_outer, by_filters, torch.stack([upper, -lower], dim=-3)
    (one, two), (three, four) = upper.chunk(2, dim=-1), lower.chunk(2, dim=-1)
    return by_outer, by_filters, torch.stack([one + four, two - three], dim=-3)
