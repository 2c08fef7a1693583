"""Every row of one complex matrix times every row of another, entry by entry, and the derivatives of that.

Real and imaginary parts lie along the first dimension: innermost loops over whole rows are several times faster than
over pairs.
"""

from typing import Any

import torch
from torch import Tensor

from eclose.ops.kernels import served


def join(x: Tensor, y: Tensor) -> Tensor:  # (2, *batch, m, n), (2, *batch, k, n)
    """``(2, *batch, k, m, n)``."""
    found: Tensor = _Join.apply(x, y)
    return found


class _Join(torch.autograd.Function):
    """The derivative by a factor is that by the product times the other's conjugate, summed up over its rows.

    It is made of operations that can be differentiated again, wherever that may be asked for.
    """

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        if served(x, y, double=True):
            from eclose.ops.kaleidoscope import triton_join

            return triton_join.product(x, y)
        (a, b), (c, d) = x.unsqueeze(-3), y.unsqueeze(-2)
        return torch.stack([torch.addcmul(a * c, b, d, value=-1), torch.addcmul(a * d, b, c)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:  # (2, *batch, k, m, n)
        x, y = ctx.saved_tensors
        if served(cotangent, x, y, double=True):
            from eclose.ops.kaleidoscope import triton_join

            return triton_join.derivatives(cotangent, x, y)
        return _summed(cotangent, y.unsqueeze(-2), -3), _summed(cotangent, x.unsqueeze(-3), -2)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, y: Tensor) -> tuple[Tensor, int]:
        x, y = (
            part.expand(info.batch_size, *part.shape).movedim(0, 1) if dim is None else part.movedim(dim, 1)
            for part, dim in zip((x, y), in_dims, strict=True)
        )
        return _Join.apply(x, y), 1


def _summed(cotangent: Tensor, factor: Tensor, dim: int) -> Tensor:
    """``z conj(w)``, summed up along a dimension."""
    (real, imaginary), (c, d) = cotangent, factor
    found = (torch.addcmul(real * c, imaginary, d), torch.addcmul(imaginary * c, real, d, value=-1))
    return torch.stack([part.sum(dim) for part in found])
