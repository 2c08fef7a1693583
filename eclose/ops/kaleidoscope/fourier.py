r"""The discrete Fourier transform ``F[k, j] = exp(-2 pi i j k / n)`` as a Kaleidoscope matrix.

Decimation in frequency: with ``j = j_1 m + j'`` and ``k = k_1 + r_1 k'``, ``m = n / r_1``,

    exp(-2 pi i j k / n) = exp(-2 pi i k_1 (j_1 m + j') / n) exp(-2 pi i j' k' / m),

a stage of radix r_1 followed by a transform of size m for every k_1. All stages together leave frequency
``k_1 + r_1 k_2 + ..`` at the position of digits k_1, k_2, ..: a block of decreasing strides is ``P F`` with
the digit reversal P (:func:`eclose.ops.kaleidoscope.digit_reversal`), its transpose of increasing strides is ``F P^T``.
"""

import math

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.benes import permutation
from eclose.ops.kaleidoscope.elementary import from_stages
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices, check, digit_reversal


def dft(
    size: int,
    *,
    inverse: bool = False,
    normalised: bool = False,
    radices: Radices | None = None,
    increasing: bool = False,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """Depth 1: ``P F``, or ``F P^T`` with ``increasing``; ``inverse``: ``P F^-1`` or ``F^-1 P^T``.

    The transform is a plain sum and its inverse has 1/n; ``normalised`` makes both unitary. Every stage
    takes its share of the factor.
    """
    stages, remaining = [], size
    radices = check(size, radices)
    for radix in radices:
        stage = _stage(radix, remaining // radix).expand(size // remaining, -1, -1, -1)
        scale = radix**-0.5 if normalised else 1 / radix if inverse else 1.0
        stages.append(scale * (stage.conj().resolve_conj() if inverse else stage))
        remaining //= radix
    return from_stages(stages, increasing=increasing).to(dtype or torch.get_default_dtype())


def natural_dft(
    size: int,
    *,
    inverse: bool = False,
    normalised: bool = False,
    radices: Radices | None = None,
    dtype: torch.dtype | None = None,
) -> KMatrix:
    """Depth 3: the transform with frequencies in their natural order, ``F = P^T (P F)``."""
    radices = check(size, radices)
    back = permutation(torch.argsort(digit_reversal(radices)), radices=radices, increasing=True, dtype=dtype)
    return back @ dft(size, inverse=inverse, normalised=normalised, radices=radices, dtype=dtype)


def _stage(radix: int, rest: int) -> Tensor:
    """``exp(-2 pi i k (j m + j') / (r m))`` as ``(1, k, j, j')``, complex, with m = ``rest``."""
    whole = radix * rest
    turns = torch.arange(radix).unsqueeze(1) * torch.arange(whole) % whole
    angle = turns.double() * (-2 * math.pi / whole)
    return pairs.to_complex(torch.stack([angle.cos(), angle.sin()], dim=-1)).reshape(1, radix, radix, rest)
