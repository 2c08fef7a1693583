"""Channel gates C of an XD-operation, real or complex: how they start, and what they do to taps.

With complex gates ``(c + i d)(L w + b) = L (c w) + i L (d w) + c b + d (i b)``: an operation with real gates that has
twice as many taps on its last axis, the columns of L and of i L, and b as well as i b. Orders of evaluation see no more
of it.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from eclose.ops.xd.algebra.pairs_first import turned

Gates = bool | Literal["real", "complex"]
"""Whether there are gates, and of which kind; ``True``: real ones."""


def check_gates(gates: Any) -> None:
    """Refuses what names no kind of gates."""
    if not isinstance(gates, bool) and gates not in ("real", "complex"):
        raise ValueError(f"gates is {gates!r}, but must be 'real' (or true), 'complex' or false")


def ones(channels: tuple[int, int], gates: Gates, dtype: torch.dtype) -> Tensor:
    """``(c_out, c_in / groups)`` of real gates, pairs ``(c_out, c_in / groups, 2)`` of complex ones."""
    real = torch.ones(channels, dtype=dtype)
    return torch.stack([real, torch.zeros_like(real)], dim=-1) if gates == "complex" else real


def are_complex(gates: Tensor | None) -> bool:
    """Whether the gates are pairs."""
    return gates is not None and gates.dim() == 3


def gated(weight: Tensor, gates: Tensor, *, pairs: bool) -> Tensor:  # (c_out, c_in / groups, *kernels)
    """``C_ij w_ij``; of complex gates the real parts of all taps of the last axis, and then the imaginary parts.

    ``pairs``: that is how the taps of the last axis are already.
    """
    shape = (*weight.shape[:2], *[1] * (weight.dim() - 2))
    if not are_complex(gates):
        return weight * gates.view(shape)
    real, imaginary = (part.reshape(shape) for part in gates.unbind(-1))
    if not pairs:
        return torch.cat([weight * real, weight * imaginary], dim=-1)
    x, y = weight.chunk(2, dim=-1)
    return torch.cat([x * real - y * imaginary, x * imaginary + y * real], dim=-1)


def gated_bias(bias: Tensor, gates: Tensor | None) -> tuple[Tensor, Tensor | None]:  # (2, *transforms), C
    """``C b`` as a sum of products with real gates: b and C, or b and i b, and both parts of C, along a first axis."""
    if gates is None or not are_complex(gates):
        return bias, gates
    return torch.stack([bias, turned(bias)]), gates.movedim(-1, 0)


def plus_gated_bias(response: Tensor, bias: Tensor, gates: Tensor) -> Tensor:  # (n, m), (n,) or (2, n), (m,) or (2, m)
    """``response + bias gates^T``, summed over both parts of complex gates."""
    return response.addr(bias, gates) if gates.dim() == 1 else response.addmm(bias.mT, gates)
