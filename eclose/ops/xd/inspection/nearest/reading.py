"""Which input an output reads: the shifts of one axis, with the padding of the operation."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.xd.axes.axis import Axis


@dataclass(frozen=True, eq=False)
class Reading:
    """Output p finds input ``sources[p, r - first]`` at place ``p s + r``, and nothing where that is -1.

    Places repeat with ``period`` if there is one.
    """

    size: int
    first: int
    sources: Tensor  # (out, places)
    period: int | None = None

    @property
    def counts(self) -> Tensor:
        """How many outputs read anything at a place, ``(places,)``."""
        return (self.sources >= 0).sum(0)

    def columns(self, places: Tensor) -> Tensor:
        """Where places stand in ``sources``; behind its end where no output reads anything."""
        end = self.sources.shape[1]
        columns = (places if self.period is None else places % self.period) - self.first
        return torch.where((columns >= 0) & (columns < end), columns, end)

    def along(self, matrix: Tensor) -> Tensor:  # (out, size)
        """Sum of what a matrix has for each place, ``(places,)``."""
        return (matrix.gather(1, self.sources.clamp(min=0)) * (self.sources >= 0)).sum(0)

    def shifts(self, places: Tensor) -> Tensor:  # (taps,)
        """``(taps, out, size)``, one where an output reads an input."""
        sources = F.pad(self.sources, (0, 1), value=-1)[:, self.columns(places)].mT  # (taps, out)
        return F.one_hot(sources + 1, self.size + 1)[..., 1:].to(torch.complex128)


def reading(axis: Axis, *, causal: bool = False) -> Reading:
    """The shifts of an axis; those of a causal operation do not look ahead of its last tap."""
    starts = axis.stride * torch.arange(axis.out).unsqueeze(1)
    if axis.mode == "circular":
        return Reading(axis.size, 0, (starts + torch.arange(axis.size)) % axis.size, axis.size)
    signal = torch.arange(axis.size, dtype=torch.float64).view(1, 1, -1)
    mode, filling = ("constant", -1.0) if axis.mode == "zeros" else (axis.mode, None)
    padded = F.pad(signal, (axis.left, axis.right), mode, filling).flatten().long()
    first, last = -axis.left - int(starts[-1]), axis.ahead if causal else axis.size + axis.right - 1
    places = starts + torch.arange(first, last + 1) + axis.left  # in the padded signal
    inside = (places >= 0) & (places < len(padded))
    return Reading(axis.size, first, torch.where(inside, padded[places.clamp(0, len(padded) - 1)], -1))
