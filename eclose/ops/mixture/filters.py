"""Linear operations of a mixture added up: one filter that does what all of them do together."""

import itertools
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from eclose.ops.mixture.geometry import Taps

FIXED = {"identity": 1, "average_pool3": 3}  # points whose mean is taken along every axis, channel by channel


class FilterSum(nn.Module):
    """``sum_i lambda_i w_i``, every tap at its place in a filter that reaches ``reach`` points to either side.

    ``folded`` are the convolutions whose taps find places; identity and average pooling are diagonal in the channels.
    """

    placement: Tensor  # (taps, places)
    owners: Tensor  # (taps, operations)
    fixed: Tensor  # (operations, places)
    kept: Tensor  # (c_out, c_in / groups)

    def __init__(self, operations: Sequence[str], taps: Mapping[str, Taps], channels: tuple[int, int], groups: int):
        super().__init__()
        dense = [each.reach for each in taps.values() if max(each.dilation) == 1]
        self.reach = tuple(max(reach) for reach in zip(*dense, strict=True))
        self.folded = tuple(name for name, each in taps.items() if each.fits(self.reach))
        places = [_places(taps[name], self.reach) for name in self.folded]
        placement = torch.zeros(sum(map(len, places)), _size(self.reach))
        placement[torch.arange(len(placement)), torch.cat(places)] = 1
        whose = [operations.index(name) for name, own in zip(self.folded, places, strict=True) for _ in own]
        fixed = torch.zeros(len(operations), _size(self.reach), dtype=torch.float64)  # a ninth is rounded once
        for name, width in FIXED.items():
            points = _places(Taps((width,) * len(self.reach), (1,) * len(self.reach)), self.reach)
            fixed[operations.index(name), points] = 1 / len(points)
        self.register_buffer("placement", placement, persistent=False)
        self.register_buffer("owners", torch.eye(len(operations))[whose], persistent=False)
        self.register_buffer("fixed", fixed, persistent=False)
        self.register_buffer("kept", kept_channels(channels, groups), persistent=False)

    def forward(self, shares: Tensor, weights: Sequence[Tensor]) -> Tensor:  # (operations,), (c_out, c_in / groups, *)
        """``(c_out, c_in / groups, *(2 reach + 1))``; ``weights`` are those of ``folded``."""
        taps = torch.cat([weight.flatten(2) for weight in weights], dim=2)
        scaled = self.placement * (self.owners @ shares).unsqueeze(1)
        total = torch.addcmul(taps @ scaled, self.kept.unsqueeze(2), shares @ self.fixed)
        return total.unflatten(2, [2 * reach + 1 for reach in self.reach])


def kept_channels(channels: tuple[int, int], groups: int) -> Tensor:
    """``(c_out, c_in / groups)``, one where an output channel is an input channel, zero elsewhere."""
    c_in, c_out = channels[0] // groups, channels[1] // groups
    outputs, inputs = torch.arange(c_out).unsqueeze(1), torch.arange(c_in)
    return (outputs == inputs + (c_out - c_in) // 2).to(torch.get_default_dtype()).repeat(groups, 1)


def _places(taps: Taps, reach: Sequence[int]) -> Tensor:
    """``(taps,)``: where the taps lie in a flattened filter."""
    along = [
        [far - before + dilation * tap for tap in range(count)]
        for count, dilation, before, far in zip(taps.count, taps.dilation, taps.before, reach, strict=True)
    ]
    grid = torch.arange(_size(reach)).view([2 * far + 1 for far in reach])
    return torch.stack([grid[place] for place in itertools.product(*along)])


def _size(reach: Sequence[int]) -> int:
    return math.prod(2 * far + 1 for far in reach)
