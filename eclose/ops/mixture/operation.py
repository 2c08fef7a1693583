"""A mixture of operations: every candidate of a discrete search space, weighted by a softmax (XD paper, section 2)."""

from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eclose.ops.conv_layers import Conv
from eclose.ops.mixture.filters import FilterSum
from eclose.ops.mixture.geometry import Taps, Window
from eclose.ops.precision import full_precision

CONVOLUTIONS = {"conv3": (3, 1), "conv5": (5, 1), "dilated_conv3": (3, 2), "dilated_conv5": (5, 2)}  # taps, dilation
OPERATIONS = ("zero", "identity", "max_pool3", "average_pool3", *CONVOLUTIONS)
OWN = "own"  # the convolution that a mixture starts as, where it is none of these

_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


class Mixture(nn.Module):
    """``y = sum_i lambda_i Op_i(x)`` with ``lambda = softmax(alpha)``, on 1, 2 or 3 axes.

    The operations are :data:`OPERATIONS`, all around the same ``windows`` of the input. ``convolutions`` hold their
    weights, channels, groups and padding mode; one of them may be :data:`OWN`. ``lambda`` starts as ``1 - perturb`` for
    ``start`` and equal parts of ``perturb`` for the others.

    Operations without weights keep channels. Those that the output has more are zero, half of them on either side;
    of those that it has less as many are left out on either side. Groups are layers of their own.

    All operations but one are linear: their filters are added up, and one or two convolutions run instead of seven.
    """

    undecayed = ("alpha",)

    def __init__(
        self, windows: Sequence[Window], convolutions: Mapping[str, Conv], start: str, *, perturb: float = 0.1
    ) -> None:
        super().__init__()
        if not 0 < perturb < 1:
            raise ValueError(f"perturb is {perturb}, but must lie between 0 and 1 (both excluded)")
        self.windows, self.start, self.perturb = tuple(windows), start, perturb
        self.operations = (*OPERATIONS, *(name for name in convolutions if name not in OPERATIONS))
        like = convolutions["conv3"]
        self.alpha = nn.Parameter(self.first_shares().log().to(like.weight))
        self.convolutions = nn.ModuleDict(convolutions)
        self.channels, self.groups = (like.in_channels, like.out_channels), like.groups
        self.mode = "constant" if like.padding_mode == "zeros" else like.padding_mode
        self.taps = {name: Taps(conv.kernel_size, conv.dilation) for name, conv in convolutions.items()}
        self.filters = FilterSum(self.operations, self.taps, self.channels, self.groups).to(like.weight)
        self.apart = tuple(name for name in self.taps if name not in self.filters.folded)
        for name in self.apart:
            if not self.taps[name].symmetric:
                raise ValueError(f"its filter {self.taps[name]} has no point in its middle")

    def first_shares(self) -> Tensor:
        """``lambda`` at the start, ``(operations,)``."""
        shares = torch.full((len(self.operations),), self.perturb / (len(self.operations) - 1))
        shares[self.operations.index(self.start)] = 1 - self.perturb
        return shares

    def arch_parameters(self) -> Iterator[nn.Parameter]:
        """What the search moves: alpha, not the weights."""
        yield self.alpha

    def forward(self, x: Tensor) -> Tensor:  # (batch, c_in, *space)
        """``(batch, c_out, *out)``."""
        outs = [window.out(size) for window, size in zip(self.windows, x.shape[2:], strict=True)]
        shares = self.alpha.softmax(0)
        share = dict(zip(self.operations, shares.unbind(), strict=True))
        x, margin = self._extended(x)
        with full_precision(x.device.type):
            weight = self.filters(shares, [self._weight(name) for name in self.filters.folded])
            bias = self._bias(share)
        y = self._convolved(x, margin, weight, bias, self.filters.reach, (1,) * len(outs))
        for name in self.apart:
            taps, weight = self.taps[name], share[name] * self._weight(name)
            y = y + self._convolved(x, margin, weight, None, taps.reach, taps.dilation)
        pooled = self._pooled(x, margin)
        y = torch.addcmul(y, pooled.to(y.dtype), share["max_pool3"].to(y.dtype))
        for axis, out in enumerate(outs, start=2):
            y = y.narrow(axis, 0, out)
        return y

    def extra_repr(self) -> str:
        """Channels, strides, and the operations in the order of alpha."""
        strides = tuple(window.stride for window in self.windows)
        return f"{self.channels[0]}, {self.channels[1]}, stride={strides}, operations={', '.join(self.operations)}"

    def _weight(self, name: str) -> Tensor:
        weight = self.convolutions[name].weight
        assert isinstance(weight, Tensor)
        return weight

    def _bias(self, share: Mapping[str, Tensor]) -> Tensor | None:
        biases = {name: conv.bias for name, conv in self.convolutions.items() if isinstance(conv.bias, Tensor)}
        if not biases:
            return None
        return torch.stack([share[name] for name in biases]) @ torch.stack(list(biases.values()))

    def _extended(self, x: Tensor) -> tuple[Tensor, list[int]]:
        """The input, where borders are not zeros with a margin along every axis for the widest operation."""
        if self.mode == "constant":
            return x, [0] * len(self.windows)
        widest = [max(reach) for reach in zip(*(taps.reach for taps in self.taps.values()), strict=True)]
        margin = [max(0, far - window.centre) for far, window in zip(widest, self.windows, strict=True)]
        return F.pad(x, [end for far in reversed(margin) for end in (far, far)], mode=self.mode), margin

    def _seen(self, x: Tensor, margin: Sequence[int], reach: Sequence[int]) -> tuple[Tensor, list[int]]:
        """What operations of such a reach look at, and how much padding on either side they need."""
        needed = [far - window.centre - m for far, window, m in zip(reach, self.windows, margin, strict=True)]
        for axis, more in enumerate(needed, start=2):
            if more < 0:
                x = x.narrow(axis, -more, x.shape[axis] + 2 * more)
        return x, [max(0, more) for more in needed]

    def _convolved(
        self,
        x: Tensor,
        margin: Sequence[int],
        weight: Tensor,
        bias: Tensor | None,
        reach: Sequence[int],
        dilation: Sequence[int],
    ) -> Tensor:
        x, padding = self._seen(x, margin, reach)
        strides = [window.stride for window in self.windows]
        y: Tensor = _CONVOLVE[len(strides)](x, weight, bias, strides, padding, dilation, self.groups)
        return y

    def _pooled(self, x: Tensor, margin: Sequence[int]) -> Tensor:
        axes = len(self.windows)
        x, padding = self._seen(x, margin, (1,) * axes)
        y: Tensor = _MAX_POOL[axes](x, 3, [window.stride for window in self.windows], padding)
        extra = (self.channels[1] - self.channels[0]) // self.groups
        if extra:
            ends = (*(0, 0) * axes, extra // 2, extra - extra // 2)
            y = F.pad(y.unflatten(1, (self.groups, -1)), ends).flatten(1, 2)
        return y
