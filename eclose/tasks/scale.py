"""Mean and spread of a training split, in one pass of blocks so that memory maps stay on disk."""

import math

import torch
from torch import Tensor

from eclose.config import Standardise
from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks.levels import WIDE, may_be_levelled, measure_levels
from eclose.tasks.splits import blocks
from eclose.tasks.task import Scale, Split

_RESOLUTION = 2e-6  # spread over mean, a dozen roundings of single precision
_FLOOR = 1e-3
"""What is added to the spread of a point, as a share of that of its channel: a boundary may hold values fast.

The code of the Fourier neural operator adds 1e-5, whatever the units: 2e-3 of the spread of its Darcy data.
"""


def standardise_of(scale: Scale | None) -> Standardise:
    """The setting that a scale was measured by."""
    if scale is None:
        return False
    return "pointwise" if scale.pointwise else "channels" if scale.levels is None else "levels"


def measure_scale(split: Split, signature: Signature, standardise: Standardise = True) -> Scale | None:
    """Scale of the training samples; tokens and class labels get mean 0 and spread 1. None where nothing is scaled.

    ``True``: by channel, and samples of classes that differ very much in size are levelled.
    """
    if not standardise:
        return None
    if standardise == "pointwise":
        return _pointwise(split, signature)
    x_axes = () if signature.tokens else tuple(range(2, 2 + signature.axes))
    y_axes = () if signature.pooled else tuple(range(2, 2 + signature.axes))
    x_sums, y_sums = _Sums(), _Sums()
    for index in blocks(split):
        x, y = split.take(index)
        if not signature.tokens:
            x_sums.add(x, x_axes)
        if not signature.labels:
            y_sums.add(y, y_axes)
    scale = Scale(*x_sums.mean_std("x"), *y_sums.mean_std("y"))
    if standardise == "levels" or (standardise is True and may_be_levelled(signature)):
        levelled, wide = measure_levels(split, signature, scale)
        if standardise == "levels" or wide > WIDE:
            return levelled
    return scale


def _pointwise(split: Split, signature: Signature) -> Scale:
    """Scale of every point by itself, for fields on one grid."""
    if signature.kind != "dense":
        raise TaskError(
            f"task.standardise is 'pointwise', which is for fields on a grid (kind dense), and this is a "
            f"{signature.kind} task: set it to true or false"
        )
    sums = [(_Sums(), _Sums()) for _ in "xy"]  # of every point, and of all points of a channel
    for index in blocks(split):
        for values, (points, whole) in zip(split.take(index), sums, strict=True):
            points.add(values, ())
            whole.add(values, tuple(range(2, values.ndim)))
    found: list[Tensor] = []
    for name, (points, whole) in zip("xy", sums, strict=True):
        spread = whole.mean_std(name)[1].double()
        spread = _FLOOR * spread.view(-1, *[1] * signature.axes) + (points.squares / points.count).sqrt()
        found += [points.mean.float(), spread.float()]
    x_mean, x_std, y_mean, y_std = found
    return Scale(x_mean, x_std, y_mean, y_std)


class _Sums:
    """Running mean and variance over samples and the given axes (Chan's pairwise update, float64)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = torch.zeros(1, dtype=torch.float64)
        self.squares = torch.zeros(1, dtype=torch.float64)

    def add(self, values: Tensor, axes: tuple[int, ...]) -> None:
        values = values.double()
        dims = (0, *axes)
        count = math.prod(values.shape[axis] for axis in dims)
        mean = values.mean(dims, keepdim=True)
        squares = (values - mean).square().sum(dims)
        mean = mean.sum(dims)
        delta, total = mean - self.mean, self.count + count
        self.squares = self.squares + squares + delta.square() * (self.count * count / total)
        self.mean = self.mean + delta * (count / total)
        self.count = total

    def mean_std(self, name: str) -> tuple[Tensor, Tensor]:
        if not self.count:
            return torch.zeros(1), torch.ones(1)
        std = (self.squares / self.count).sqrt()
        # A constant channel carries no information: leave its scale alone instead of dividing by noise.
        constant = std <= 1e-12 * self.mean.abs()
        lost = ~constant & (std < _RESOLUTION * self.mean.abs())
        if bool(lost.any()):
            channel = int(lost.nonzero()[0])
            raise TaskError(
                f"{name} has mean {float(self.mean[channel]):.6g} and spread {float(std[channel]):.3g} in channel "
                f"{channel}, which single precision cannot hold together: subtract an offset first"
            )
        # So does one whose spread single precision cannot tell from none.
        unseen = ~constant & (std < torch.finfo(torch.float32).tiny)
        if bool(unseen.any()) and bool((constant | unseen).all()):
            raise TaskError(
                f"{name} has a spread of {float(std.max()):.3g}, which single precision cannot tell from none: "
                "give it in other units"
            )
        std = std.float()
        return self.mean.float(), torch.where(constant | unseen, torch.ones_like(std), std)
