"""One axis of an XD-operation that starts as a layer of the Fourier neural operator (Claim A.6, Remark A.3).

The taps are complex numbers for the lowest frequencies. A real signal has the conjugate at every frequency -f, so
``irfft z = Real(F^-1 (c z))`` with c = 2, but for 0 and the highest frequency of an even size, where c = 1.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import KMatrix, diagonal_left, identity
from eclose.ops.kaleidoscope.sizes import Radices, digit_reversal
from eclose.ops.xd.axes.axis import Axis

KeptEnds = tuple[int, int]
"""How many of the first frequencies of an axis are kept, and how many of the last ones."""


@dataclass(frozen=True)
class FrequencyAxis(Axis):
    """Taps are frequencies, at ``places`` of the order of the matrices; ``half``: none below 0, and taps are pairs."""

    kind: ClassVar[str] = "Fourier layer"

    places: tuple[int, ...] = ()
    half: bool = False

    @property
    def out(self) -> int:
        """As many outputs as inputs."""
        return self.size

    @property
    def pairs(self) -> bool:
        """The last axis has the real and then the imaginary parts of all taps."""
        return self.half

    def columns(self) -> Tensor:
        """Columns of L: one for every frequency."""
        return torch.tensor(self.places)

    @property
    def fits(self) -> bool:
        """There is no other size."""
        return True

    @property
    def merges(self) -> bool:
        """Taps are complex."""
        return False

    def at(self, size: int) -> "FrequencyAxis":
        """Frequencies of another size are other ones."""
        if size != self.size:
            raise ValueError(
                f"an input of size {size} has other frequencies than those of size {self.size} that this operation "
                f"was planned for: build the operation for size {size}"
            )
        return self


def plan_frequencies(size: int, ends: KeptEnds, radices: Radices, *, half: bool) -> FrequencyAxis:
    """The axis that keeps the ``ends`` of its frequencies."""
    first, last = ends
    kept = torch.cat([torch.arange(first), torch.arange(size - last, size)])
    places = torch.argsort(digit_reversal(radices))[kept].tolist()
    taps = 2 * len(places) if half else len(places)
    return FrequencyAxis(size, taps, size, mode="circular", places=tuple(places), half=half)


def placed(axis: FrequencyAxis, radices: Radices, dtype: torch.dtype) -> KMatrix:
    """L: every tap at its frequency, c times where the axis has positive frequencies only."""
    matrix = identity(axis.size, radices=radices, dtype=dtype)
    if not axis.half:
        return matrix
    frequencies = digit_reversal(radices)
    counts = torch.where((frequencies == 0) | (2 * frequencies == axis.size), 1.0, 2.0)
    return diagonal_left(torch.stack([counts, torch.zeros_like(counts)], dim=-1).to(dtype), matrix)
