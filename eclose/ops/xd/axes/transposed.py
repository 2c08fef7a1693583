"""One axis of an XD-operation that starts as a transposed convolution (Claim A.7, for any stride and padding).

Input u lies at place ``u s`` of the extended signal, zeros between; tap t of it goes to output ``u s + t d - left``.
So tap t has place ``(t d - left) mod n``, and output p is row p.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from eclose.ops.kaleidoscope.sizes import next_smooth
from eclose.ops.xd.axes.axis import Axis


@dataclass(frozen=True)
class TransposedAxis(Axis):
    """``left`` and ``right`` outputs are cut off; fewer than none on the right: so many more are there."""

    kind: ClassVar[str] = "transposed convolution"

    @property
    def out(self) -> int:
        """Number of outputs, as torch's transposed convolutions count."""
        return (self.size - 1) * self.stride + self.dilation * (self.kernel - 1) + 1 - self.left - self.right

    @property
    def needed(self) -> int:
        """The smallest exact transform: what is read beside the inputs meets zeros, from either side."""
        beside = max(0, self.dilation * (self.kernel - 1) - min(self.left, self.right))
        return max(self.inputs().stop + beside, self.kernel)

    @property
    def merges(self) -> bool:
        """Inputs have gaps between them."""
        return False

    def rows(self) -> slice:
        """Rows of K: one for every output."""
        return slice(0, self.out)

    def inputs(self) -> slice:
        """Columns of M: one for every input."""
        return slice(0, (self.size - 1) * self.stride + 1, self.stride)

    def columns(self) -> Tensor:
        """Columns of L ``(kernel,)``: one for every tap."""
        return (self.dilation * torch.arange(self.kernel) - self.left) % self.transform

    def check(self) -> None:
        """Refuses numbers that no transposed convolution has."""
        if min(self.size, self.kernel, self.stride, self.dilation) < 1 or self.left < 0:
            raise ValueError(f"sizes, strides and dilations must be positive, paddings not negative: {self}")
        if self.out < 1:
            raise ValueError(
                f"padding cuts off {self.left} and {self.right} of {self.out + self.left + self.right} outputs of an "
                f"input of size {self.size}: nothing is left"
            )


def plan_transposed(
    size: int, kernel: int, *, stride: int, dilation: int, cut: tuple[int, int], largest: int
) -> TransposedAxis:
    """The axis with the smallest transform without prime factors above ``largest`` that makes the start exact."""
    axis = TransposedAxis(size, kernel, size, stride, dilation, *cut)
    axis.check()
    return replace(axis, transform=next_smooth(axis.needed, largest))


def transposed_taps(weight: Tensor, groups: int) -> Tensor:  # (c_in, c_out / groups, *kernels)
    """``(c_out, c_in / groups, *kernels)``."""
    return weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
