"""One axis of an XD-operation that starts as a layer of the Fourier neural operator (Claim A.6, Remark A.3).

The taps are complex numbers for the lowest frequencies. A real signal has the conjugate at every frequency -f, so
``irfft z = Real(F^-1 (c z))`` with c = 2, but for 0 and the highest frequency of an even size, where c = 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope import diagonal_left, identity
from eclose.ops.kaleidoscope.sizes import Radices, digit_reversal, next_smooth, stages
from eclose.ops.xd.architecture import Starts, transforms
from eclose.ops.xd.geometry import Axis
from eclose.ops.xd.options import Options
from eclose.ops.xd.start import Start, architecture_of, each, matrix_dtype

Ends = tuple[int, int]
"""How many of the first frequencies of an axis are kept, and how many of the last ones."""


@dataclass(frozen=True)
class FrequencyAxis(Axis):
    """Taps are frequencies, at ``places`` of the order of the matrices; ``half``: all signs, or positive ones only."""

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

    def resized(self, size: int) -> "FrequencyAxis":
        """Frequencies of another size are other ones."""
        if size != self.size:
            raise ValueError(
                f"an input of size {size} has other frequencies than those of size {self.size} that this operation "
                f"was planned for: build the operation for size {size}"
            )
        return self


def fno_start(weight: nn.Parameter, input_size: int | Sequence[int], options: Options) -> Start:
    """``irfft(weight * rfft(x))``, the weight being ``(c_in, c_out, *kept, 2)``."""
    if weight.dim() not in (4, 5, 6) or weight.shape[-1] != 2:
        raise ValueError(f"a weight of Fourier modes is (c_in, c_out, *kept, 2), not {tuple(weight.shape)}")
    sizes = each(input_size, weight.dim() - 3, "input sizes")
    ends = _kept(sizes, weight.shape[2:-1])
    radices = [_radices(size, options) for size in sizes]
    axes = [
        _planned(*axis, half=place == len(sizes) - 1)
        for place, axis in enumerate(zip(sizes, ends, radices, strict=True))
    ]
    layout, starts = partial(spectral_taps, ends=ends), _starts(axes, radices, matrix_dtype(weight))
    architecture = architecture_of(layout(weight), axes, options, radices=radices, starts=starts)
    return Start(weight, axes, architecture, layout=layout)


def spectral_taps(weight: Tensor, ends: Sequence[Ends]) -> Tensor:  # (c_in, c_out, *kept, 2)
    """``(c_out, c_in, *kernels)``, real parts before imaginary ones along the last axis."""
    for axis, (first, last) in enumerate(ends, start=2):
        size = weight.shape[axis]
        if first + last < size:
            weight = torch.cat([weight.narrow(axis, 0, first), weight.narrow(axis, size - last, last)], dim=axis)
    return weight.transpose(0, 1).movedim(-1, -2).flatten(-2)


def _kept(sizes: Sequence[int], counts: Sequence[int]) -> list[Ends]:
    """Of the frequencies that have a weight, those that a grid has."""
    found = [(min(n // 2, (size + 1) // 2), min(n // 2, size // 2)) for size, n in zip(sizes, counts, strict=True)]
    return [*found[:-1], (min(counts[-1], sizes[-1] // 2 + 1), 0)]


def _radices(size: int, options: Options) -> Radices:
    """Stages of a transform of just this size: a large prime factor is one stage."""
    if options.paper and next_smooth(size, 2) != size:
        raise ValueError(
            f"Fourier modes need transforms of the input's size, and {size} is no power of two: leave out paper"
        )
    return options.radices(size) if next_smooth(size, options.largest) == size else stages(size, size)


def _planned(size: int, ends: Ends, radices: Radices, *, half: bool) -> FrequencyAxis:
    first, last = ends
    kept = torch.cat([torch.arange(first), torch.arange(size - last, size)])
    places = torch.argsort(digit_reversal(radices))[kept].tolist()
    taps = 2 * len(places) if half else len(places)
    return FrequencyAxis(size, taps, size, mode="circular", places=tuple(places), half=half)


def _starts(axes: Sequence[Axis], radices: Sequence[Radices], dtype: torch.dtype) -> Starts:
    """Transforms for K and M; L puts every tap at its frequency."""
    outer, _, inner = transforms(axes, radices, dtype)
    filters = [identity(axis.transform, radices=r, dtype=dtype) for axis, r in zip(axes, radices, strict=True)]
    filters[-1] = diagonal_left(_multiplicities(axes[-1].transform, radices[-1]).to(dtype), filters[-1])
    return outer, filters, inner


def _multiplicities(size: int, radices: Radices) -> Tensor:
    """c of every frequency in the order of the matrices, as pairs ``(size, 2)``."""
    frequencies = digit_reversal(radices)
    counts = torch.where((frequencies == 0) | (2 * frequencies == size), 1.0, 2.0)
    return torch.stack([counts, torch.zeros_like(counts)], dim=-1)
