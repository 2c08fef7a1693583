"""The first channels of a signal: layers that a search makes narrower read, normalise and change only these."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def first(x: Tensor, number: int, axis: int = 0) -> Tensor:
    """The first entries along an axis; nothing is cut in vain, as the way back through a cut fills in zeros."""
    return x if x.shape[axis] == number else x.narrow(axis, 0, number)


def add_to_first(x: Tensor, y: Tensor) -> Tensor:
    """``y`` added to the first channels of ``x``."""
    if y.shape[1] == x.shape[1]:
        return x + y
    if torch.compiler.is_compiling():
        return torch.cat([x[:, : y.shape[1]] + y, x[:, y.shape[1] :]], dim=1)
    total: Tensor = _AddedToFirst.apply(x, y)
    return total


class _AddedToFirst(torch.autograd.Function):
    """One copy. Its gradient is there already: torch's own way back fills in zeros and adds them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.channels = y.shape[1]
        total = x.clone()
        total[:, : y.shape[1]] += y
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, gradient[:, : ctx.channels]


class Norm(nn.Module):
    """Batch norm over the first channels of as many as there are, all of which have a gain and a shift.

    In training it takes the statistics of the batch. Otherwise it takes the average of those of the last steps; a
    channel that was not computed is forgotten, so that one which comes back never meets statistics of another network.
    ``batch_statistics``: those of the batch always, as in the DNArch paper; predictions then depend on each other.
    """

    averaged = ("mean", "var", "seen")
    momentum, eps = 0.1, 1e-5

    mean: Tensor
    var: Tensor
    seen: Tensor

    def __init__(self, channels: int, batch_statistics: bool = False) -> None:
        super().__init__()
        self.batch_statistics = batch_statistics
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        for name in self.averaged:  # sums that began at zero, and how much of a whole average they are
            self.register_buffer(name, torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """The same shape."""
        number, n = x.shape[:2]  # len(x) would become a constant of an exported program
        mean, var, seen, weight, bias = (
            first(each, n) for each in (self.mean, self.var, self.seen, self.weight, self.bias)
        )
        if self.training:
            with torch.no_grad():
                seen.lerp_(torch.ones_like(seen), self.momentum)
                if n < len(self.seen):  # unseen by autograd: of a pair this is the second pass of one step
                    torch._foreach_zero_([each.data[n:] for each in (self.mean, self.var, self.seen)])
            return first(F.batch_norm(_several(x), mean, var, weight, bias, True, self.momentum, self.eps), number)
        if self.batch_statistics:
            return first(F.batch_norm(_several(x), None, None, weight, bias, True, eps=self.eps), number)
        whole = torch.where(seen > 0, seen, 1.0)
        var = torch.where(seen > 0, var / whole, 1.0)
        return F.batch_norm(x, mean / whole, var, weight, bias, False, eps=self.eps)


def _several(x: Tensor) -> Tensor:
    """Torch refuses statistics of a single value, which then stands beside itself."""
    return torch.cat([x, x]) if x.numel() == x.shape[1] else x
