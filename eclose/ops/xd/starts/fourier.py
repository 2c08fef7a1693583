"""From which weight and geometry an XD-operation starts that is a layer of the Fourier neural operator."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.sizes import Radices, next_smooth
from eclose.ops.xd.axes.fourier import KeptEnds, plan_frequencies
from eclose.ops.xd.options import Options
from eclose.ops.xd.starts.start import Start, architecture_of, each


def fno_start(weight: nn.Parameter, input_size: int | Sequence[int], options: Options) -> Start:
    """``irfft(weight * rfft(x))``, the weight being ``(c_in, c_out, *kept, 2)``."""
    if weight.dim() not in (4, 5, 6) or weight.shape[-1] != 2:
        raise ValueError(f"a weight of Fourier modes is (c_in, c_out, *kept, 2), not {tuple(weight.shape)}")
    sizes = each(input_size, weight.dim() - 3, "input sizes")
    ends = _kept(sizes, weight.shape[2:-1])
    radices = [_radices(size, options) for size in sizes]
    axes = [
        plan_frequencies(*axis, half=place == len(sizes) - 1)
        for place, axis in enumerate(zip(sizes, ends, radices, strict=True))
    ]
    layout = partial(spectral_taps, ends=ends)
    return Start(weight, axes, architecture_of(layout(weight), axes, options, radices=radices), layout=layout)


def spectral_taps(weight: Tensor, ends: Sequence[KeptEnds]) -> Tensor:  # (c_in, c_out, *kept, 2)
    """``(c_out, c_in, *kernels)``, real parts before imaginary ones along the last axis."""
    for axis, (first, last) in enumerate(ends, start=2):
        size = weight.shape[axis]
        if first + last < size:
            weight = torch.cat([weight.narrow(axis, 0, first), weight.narrow(axis, size - last, last)], dim=axis)
    return weight.transpose(0, 1).movedim(-1, -2).flatten(-2)


def _kept(sizes: Sequence[int], counts: Sequence[int]) -> list[KeptEnds]:
    """Of the frequencies that have a weight, those that a grid has."""
    both_ends = [(min(n // 2, (size + 1) // 2), min(n // 2, size // 2)) for size, n in zip(sizes, counts, strict=True)]
    return [*both_ends[:-1], (min(counts[-1], sizes[-1] // 2 + 1), 0)]


def _radices(size: int, options: Options) -> Radices:
    """Stages of a transform of just this size: a large prime factor is one stage."""
    if options.paper and next_smooth(size, 2) != size:
        raise ValueError(
            f"Fourier modes need transforms of the input's size, and {size} is no power of two: leave out paper"
        )
    return options.radices(size)
