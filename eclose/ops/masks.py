"""Differentiable masks (DNArch, Romero and Zeghidour 2023, section 2.1): how long an axis is, learned by gradients.

Every axis runs from -1 to 1. A mask is zero below ``THRESHOLD``; where that happens is known in closed form, so that
only what lies inside has to be computed ("rendered", section 2.1.1). The two modules are tables: one mask for each
entry of their parameter, all of them computed and clamped at once. Masks over several axes are products.

The ``n`` places of an axis lie at ``2 i / n - 1`` for ``i = 1 .. n``: the last at 1, and a mask that reaches to ``x``
covers ``floor(n (x + 1) / 2)`` of them. The least sizes of the paper follow: 28 of 280 channels, 2 of 8 blocks.
"""

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

THRESHOLD = 0.1
START_WIDTH = 0.0325  # sigma of a kernel mask at the start: 3 points of 33
HIGHEST, LOWEST = 0.85, 0.95  # a sigmoid's value at the last place where it is longest, at -1 where it is shortest
_SLACK = 1e-5  # a place that rounding errors put behind the cut-off is still inside

_REACH = math.sqrt(-2 * math.log(THRESHOLD))  # of a Gaussian, in units of sigma


def _logit(value: float) -> float:
    return math.log(value / (1 - value))


_TAIL = -_logit(THRESHOLD)  # how far behind its offset a sigmoid ends, in units of 1 / temperature


def gaussian(x: Tensor, width: Tensor | float, mean: Tensor | float = 0.0) -> Tensor:
    """``exp(-(x - mean)^2 / (2 width^2))``, zero below the threshold (equation 1)."""
    return torch.where((x - mean).abs() <= _REACH * width + _SLACK, torch.exp(-0.5 * ((x - mean) / width) ** 2), 0.0)


def gaussian_reach(width: float) -> float:
    """How far from its mean a Gaussian mask ends (equation 3)."""
    return _REACH * width + _SLACK


def sigmoid(x: Tensor, offset: Tensor | float, temperature: Tensor | float) -> Tensor:
    """``1 - 1 / (1 + exp(-temperature (x - offset)))``, zero below the threshold (equation 2)."""
    values = torch.sigmoid(-temperature * (x - offset))
    return torch.where(x <= offset + _TAIL / temperature + _SLACK, values, 0.0)


def sigmoid_end(offset: float, temperature: float) -> float:
    """Where a sigmoid mask ends (equation 4)."""
    return offset + _TAIL / temperature + _SLACK


def places(number: int, device: torch.device | None = None) -> Tensor:
    """Where the places of an axis lie."""
    return 2 * torch.arange(1, number + 1, device=device) / number - 1


def covered(end: float, number: int) -> int:
    """How many of ``number`` places a mask that ends at ``end`` covers; one at least."""
    return max(1, min(number, math.floor(number * (end + 1) / 2)))


def lengths(offset: Tensor, temperature: Tensor, number: Tensor | int) -> Tensor:
    """How many of ``number`` places (of all masks, or of each) a sigmoid mask covers, at least 1 (equation 10).

    The result is whole and no more than there are places. Its gradient is that of the length itself (straight through),
    also where a mask is as long as the axis: it could never become shorter otherwise.
    """
    length = number * part(offset, temperature)
    most = torch.as_tensor(number, dtype=length.dtype, device=length.device)
    return straight_through(length, torch.minimum(length.detach().floor().clamp(min=1), most))


def part(offset: Tensor, temperature: Tensor) -> Tensor:
    """How much of its axis each sigmoid mask covers; more than 1 where it ends behind it."""
    return (offset + _TAIL / temperature + 1 + _SLACK) / 2


def straight_through(value: Tensor, exact: Tensor) -> Tensor:
    """``exact``, with the gradient of ``value``."""
    return exact + (value - value.detach())


def product(lines: Sequence[Tensor]) -> Tensor:
    """What is given along every axis, multiplied at all points: of it, not of what it multiplies, parts are kept."""
    return reduce(lambda grid, line: grid[..., None] * line, lines)


class Cut:
    """Cuts the rows of a table to lengths of their own, all of them at once.

    No entry is taken twice. The way back adds up nothing, then: a GPU would do so in any order.
    """

    def __init__(self, lengths: Sequence[int], longest: int, device: torch.device) -> None:
        self.lengths = list(lengths)
        self.inside: Tensor | None = None  # where what is left lies in the flat table
        if any(length < longest for length in lengths):
            rows = [row * longest + torch.arange(length) for row, length in enumerate(lengths)]
            self.inside = torch.cat(rows).to(device)

    def __call__(self, flat: Tensor) -> Tensor:  # (rows * longest, ...)
        """What is left, one row behind the other."""
        return flat if self.inside is None else flat.index_select(0, self.inside)


class Lines:
    """Places along which many masks are computed at once: the rows of a table, those of a short line go on with 0."""

    def __init__(self, lines: Sequence[Tensor], device: torch.device) -> None:
        self.at = nn.utils.rnn.pad_sequence(list(lines), batch_first=True).to(device)  # (masks, longest)
        self.cut = Cut([len(line) for line in lines], self.at.shape[1], device)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:  # (masks, longest)
        """The values of each mask on its own line."""
        return self.cut(values.flatten()).split(self.cut.lengths)


class GaussianMasks(nn.Module):
    """Masks of convolution kernels: a width for each, and the mean 0 unless it is learned, too.

    ``steps`` is the distance of neighbouring points, by the last axis of ``shape``: no kernel becomes a single point.
    """

    undecayed = ("width", "mean")

    least: Tensor

    def __init__(
        self, shape: tuple[int, ...], steps: tuple[float, ...], *, width: float = START_WIDTH, learn_mean: bool = False
    ) -> None:
        super().__init__()
        self.register_buffer("least", torch.tensor(steps) / _REACH, persistent=False)
        self.width = nn.Parameter(torch.full(shape, width))
        self.mean = nn.Parameter(torch.zeros(shape), requires_grad=learn_mean)
        self.clamp()

    def arch_parameters(self) -> list[nn.Parameter]:
        """See ``train/module_hooks.py``."""
        return [self.width, self.mean] if self.mean.requires_grad else [self.width]

    @torch.no_grad()
    def clamp(self) -> None:
        """The widest mask has the value 0.85 at the end of the axis: a wider one would hardly feel a gradient."""
        largest = torch.full_like(self.least, 1 / math.sqrt(-2 * math.log(HIGHEST)))
        self.width.clamp_(self.least, torch.maximum(self.least, largest))
        self.mean.clamp_(-1.0, 1.0)


class SigmoidMasks(nn.Module):
    """Masks of widths, depths and resolutions: an offset for each, and a temperature that may be learned, too.

    The temperature is that of all masks, or one for each.
    """

    undecayed = ("offset", "temperature")

    usual: Tensor

    def __init__(
        self,
        shape: tuple[int, ...],
        temperature: float | Sequence[float] | Sequence[Sequence[float]],
        *,
        end: float | None = None,
        learn_temperature: bool = False,
    ) -> None:
        """``end``: where all masks end at the start; None: as far as they may."""
        super().__init__()
        self.register_buffer("usual", torch.tensor(temperature, dtype=torch.float32), persistent=False)
        self.temperature = nn.Parameter(self.usual.clone(), requires_grad=learn_temperature)
        offset = 9.0 if end is None else end - _TAIL / self.usual
        self.offset = nn.Parameter(torch.zeros(shape) + offset)  # brought into range below
        self.clamp()

    def arch_parameters(self) -> list[nn.Parameter]:
        """See ``train/module_hooks.py``."""
        return [self.offset, self.temperature] if self.temperature.requires_grad else [self.offset]

    @torch.no_grad()
    def clamp(self) -> None:
        """No mask closes the first place, and none is so long that it would not feel a gradient."""
        if self.temperature.requires_grad:
            self.temperature.clamp_(self.usual / 4, self.usual * 4)
        self.offset.clamp_(*offset_range(self.temperature))


def steepest(number: int) -> float:
    """The temperature at which a sigmoid falls from 0.9 to 0.1 between two places.

    A steeper one would feel no gradient while its end lies between them.
    """
    return _TAIL * number


def offset_range(temperature: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the largest offset of a sigmoid mask."""
    return -1 + _logit(LOWEST) / temperature, 1 + _logit(HIGHEST) / temperature
