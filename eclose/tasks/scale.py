"""Mean and spread of a training split, in one pass of blocks so that memory maps stay on disk."""

import torch
from torch import Tensor

from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks.splits import blocks
from eclose.tasks.task import Scale, Split

_RESOLUTION = 2e-6  # spread over mean, a dozen roundings of single precision


def measure_scale(split: Split, signature: Signature) -> Scale:
    """Scale of the training samples; tokens and class labels get mean 0 and spread 1."""
    x_axes = () if signature.tokens else tuple(range(2, 2 + signature.axes))
    y_axes = () if signature.pooled else tuple(range(2, 2 + signature.axes))
    x_sums, y_sums = _Sums(), _Sums()
    for index in blocks(split):
        x, y = split.take(index)
        if not signature.tokens:
            x_sums.add(x, x_axes)
        if not signature.labels:
            y_sums.add(y, y_axes)
    return Scale(*x_sums.mean_std("x"), *y_sums.mean_std("y"))


class _Sums:
    """Running mean and variance over samples and space (Chan's pairwise update, float64)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = torch.zeros(1, dtype=torch.float64)
        self.squares = torch.zeros(1, dtype=torch.float64)

    def add(self, values: Tensor, axes: tuple[int, ...]) -> None:
        values = values.double()
        dims = (0, *axes)
        count = values.numel() // values.shape[1]
        mean = values.mean(dims)
        shape = (1, -1, *(1 for _ in axes))
        squares = (values - mean.view(shape)).square().sum(dims)
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
        std = std.float()
        # So does one whose spread single precision cannot tell from none.
        constant |= std < torch.finfo(std.dtype).tiny
        return self.mean.float(), torch.where(constant, torch.ones_like(std), std)
