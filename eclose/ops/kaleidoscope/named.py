"""Matrices that make an XD-operation a known operation (Roberts et al. 2021, appendix A)."""

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly
from eclose.ops.kaleidoscope.benes import permutation
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices, check, digit_reversal


def dilation(
    size: int, taps: int, rate: int, *, radices: Radices | None = None, dtype: torch.dtype | None = None
) -> KMatrix:
    """Depth 2, claim A.1: a permutation that sends tap ``j < taps`` to ``rate j``."""
    return permutation(_placed(size, rate * torch.arange(taps)), radices=radices, dtype=dtype)


def separation(
    size: int, inputs: int, stride: int, *, radices: Radices | None = None, dtype: torch.dtype | None = None
) -> KMatrix:
    """Depth 2, claim A.7: a permutation that sends input ``j < inputs`` to ``stride j``, zeros going between."""
    if inputs * stride > size:
        raise ValueError(f"{inputs} inputs with stride {stride} give {inputs * stride} outputs, more than {size}")
    return permutation(_placed(size, stride * torch.arange(inputs)), radices=radices, dtype=dtype)


def reversal(size: int, *, radices: Radices | None = None, dtype: torch.dtype | None = None) -> KMatrix:
    """Depth 2: the digit reversal P, which takes natural to internal order of frequencies."""
    radices = check(size, radices)
    return permutation(digit_reversal(radices), radices=radices, dtype=dtype)


def fno(size: int, modes: int, *, radices: Radices | None = None, dtype: torch.dtype | None = None) -> KMatrix:
    """Depth 4, claim A.6: L of the Fourier neural operator with real weights.

    ``L w = P (w[0] + i w[m], .., w[m-1] + i w[2m-1], 0, .., 0)`` with m = ``modes``, as the matrices
    ``F^-1 P^T`` and ``P F`` on its two sides expect it. A permutation brings w[r] and w[m + r] before one
    switch of the last stage, which adds them; hence m is at most n / r_1, half the size if it is even.
    """
    radices = check(size, radices)
    rest = size // radices[0]
    if not 1 <= modes <= rest or radices[0] < 2:
        raise ValueError(f"{modes} modes given; a size of {size} with first radix {radices[0]} has 1 to {rest}")
    places = torch.cat([torch.arange(modes), rest + torch.arange(modes)])
    paired = permutation(_placed(size, places), radices=radices, dtype=dtype)
    entries = paired.entries.clone()
    real, imaginary = (butterfly.views(part, radices)[0] for part in entries[1].unbind(-1))
    imaginary[:, :, 0, :modes] = real[:, :, 1, :modes]  # (1, out, in, right), kept as its transpose
    real[:, :, 1:] = 0
    real[..., modes:] = 0
    return reversal(size, radices=radices, dtype=dtype) @ KMatrix(entries, radices)


def _placed(size: int, places: Tensor) -> Tensor:
    """Index of a permutation that sends j to ``places[j]``, all others keeping their order."""
    if len(places) > size or (len(places) and int(places.max()) >= size):
        raise ValueError(f"{len(places)} entries up to position {int(places.max())} do not fit into {size}")
    index = torch.full((size,), -1)
    index[places] = torch.arange(len(places))
    index[index < 0] = torch.arange(len(places), size)
    return index
