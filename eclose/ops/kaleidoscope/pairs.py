"""Complex arithmetic on real tensors whose last axis holds the real and the imaginary part."""

import torch
from torch import Tensor


def turned(x: Tensor) -> Tensor:  # (..., 2)
    """``i x``."""
    real, imaginary = x.unbind(-1)
    return torch.stack([-imaginary, real], dim=-1)


def conjugate(x: Tensor) -> Tensor:  # (..., 2)
    """``x`` with the other sign of the imaginary part."""
    real, imaginary = x.unbind(-1)
    return torch.stack([real, -imaginary], dim=-1)


def multiply(x: Tensor, y: Tensor) -> Tensor:  # (..., 2), (..., 2)
    """``x y`` entry by entry, with broadcasting."""
    return torch.addcmul(x[..., 1:] * turned(y), x[..., :1], y)


def matmul(x: Tensor, y: Tensor) -> Tensor:  # (*batch, n, m, 2), (*batch, m, p, 2)
    """Matrix product ``(*batch, n, p, 2)`` by one real product of ``(n, 2m)`` with ``(2m, 2p)``."""
    return (x.flatten(-2) @ blocks(y)).unflatten(-1, (-1, 2))


def blocks(y: Tensor) -> Tensor:  # (..., m, p, 2)
    """The real matrix ``(..., 2m, 2p)`` that multiplies rows of pairs as the complex ``y`` does."""
    both = torch.stack([y, turned(y)], dim=-3)  # (..., m, 2, p, 2)
    return both.flatten(-2).flatten(-3, -2)


def from_complex(x: Tensor) -> Tensor:  # (...)
    """Pairs ``(..., 2)`` of a complex or real tensor."""
    return torch.view_as_real(x).clone() if x.is_complex() else torch.stack([x, torch.zeros_like(x)], dim=-1)


def to_complex(x: Tensor) -> Tensor:  # (..., 2)
    """The complex tensor ``(...)`` of pairs."""
    return torch.view_as_complex(x.contiguous())
