"""One axis of an XD-operation: how large its transform is, and which entries of K, L and M a convolution uses.

With an extended signal e of size n, ``F^-1 diag(F c) F e`` is a circular convolution. Output p of a convolution
reads positions ``p s + t d - left``, so tap t goes to place ``(left - t d) mod n`` of c, output p is row ``p s``,
and e only has to hold the right value at every position that is read, modulo n.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from eclose.ops.kaleidoscope.sizes import next_smooth

LARGEST = 5
"""Largest prime factor of a transform: the dense blocks of large ones (85 = 5 x 17) overfit."""

Mode = Literal["zeros", "circular", "reflect", "replicate"]


@dataclass(frozen=True)
class Axis:
    """``size`` inputs, ``kernel`` taps, and a transform of size ``transform``; ``left`` and ``right`` are padding."""

    kind: ClassVar[str] = "convolution"

    size: int
    kernel: int
    transform: int
    stride: int = 1
    dilation: int = 1
    left: int = 0
    right: int = 0
    mode: Mode = "zeros"
    fixed: bool = False  # what it starts as is something else at another size

    @property
    def out(self) -> int:
        """Number of outputs, as torch's convolutions count."""
        return (self.size + self.left + self.right - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def needed(self) -> int:
        """The smallest exact transform, rows and taps having places of their own, of a signal that does not wrap."""
        last = (self.out - 1) * self.stride
        if self.mode == "zeros":  # positions outside the signal must meet zeros, from either side
            reach = max(self.size + self.left, last + self.dilation * (self.kernel - 1) - self.left + 1)
        else:
            reach = self.size + self.left + self.right
        return max(reach, last + 1, self.kernel)

    @property
    def pairs(self) -> bool:
        """Whether taps are complex: their real parts lie before their imaginary parts."""
        return False

    @property
    def wraps(self) -> bool:
        """Whether the signal fills the transform and is periodic by itself."""
        return self.mode == "circular" and self.transform == self.size

    @property
    def merges(self) -> bool:
        """Whether the merged order serves this axis, for which inputs are neighbours and taps are real."""
        return True

    def rows(self) -> slice:
        """Rows of K: one for every output."""
        return slice(0, (self.out - 1) * self.stride + 1, self.stride)

    def inputs(self) -> slice:
        """Columns of M: one for every input."""
        return slice(0, self.size)

    def columns(self) -> Tensor:
        """Columns of L ``(kernel,)``: one for every tap."""
        return (self.left - self.dilation * torch.arange(self.kernel)) % self.transform

    def sources(self) -> Tensor | None:
        """Which input stands at each place of an extended signal ``(transform,)``, -1 where zero does.

        None: the signal itself, and zeros behind it.
        """
        if self.mode == "zeros" or self.wraps:
            return None
        places = torch.arange(-self.left, self.size + self.right)
        sources = torch.full((self.transform,), -1)
        sources[places % self.transform] = _inputs(places, self.size, self.mode)
        return sources

    @property
    def ahead(self) -> int:
        """How far behind its own place the last tap of an output lies; negative where it lies before."""
        return self.dilation * (self.kernel - 1) - self.left

    def causal(self, device: torch.device | None = None) -> Tensor:
        """``(out, size)``, true where an output may see an input: up to its last tap."""
        last = self.stride * torch.arange(self.out, device=device) + self.ahead
        return torch.arange(self.size, device=device) <= last.unsqueeze(1)

    @property
    def fits(self) -> bool:
        """Whether the transform is large enough for the convolution to be exact."""
        if self.wraps and self.size >= max(self.kernel, self.rows().stop):
            return True
        return self.needed <= self.transform

    def check(self) -> None:
        """Refuses numbers that no convolution has."""
        if self.mode not in get_args(Mode):
            raise ValueError(f"padding mode {self.mode!r} is not one of {', '.join(get_args(Mode))}")
        if min(self.size, self.kernel, self.stride, self.dilation) < 1 or min(self.left, self.right) < 0:
            raise ValueError(f"sizes, strides and dilations must be positive, paddings not negative: {self}")
        if self.out < 1:
            raise ValueError(
                f"{self.kernel} taps with dilation {self.dilation} reach over {self.dilation * (self.kernel - 1) + 1} "
                f"points, more than an input of size {self.size} padded by {self.left} and {self.right}"
            )
        widest = self.size - 1 if self.mode == "reflect" else self.size
        if self.mode in ("circular", "reflect") and max(self.left, self.right) > widest:
            raise ValueError(
                f"{self.mode} padding of an input of size {self.size} is at most {widest}, not {self.left} and "
                f"{self.right}"
            )

    def at(self, size: int) -> "Axis":
        """The same convolution of an input of another size, which may not fit."""
        if self.fixed and size != self.size:
            raise ValueError(
                f"an input of size {size} has other windows than one of size {self.size}, for which this operation was "
                f"planned: build the operation for size {size}"
            )
        other = replace(self, size=size)
        other.check()
        return other

    def misfit(self, size: int) -> str:
        """Why an input of another size cannot be taken."""
        return (
            f"an input of size {size} needs transforms of size {self.at(size).needed}; these were planned for inputs "
            f"of size {self.size} and have size {self.transform}"
        )


def plan_axis(
    size: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    padding: tuple[int, int] = (0, 0),
    mode: Mode = "zeros",
    paper: bool = False,
    largest: int = LARGEST,
) -> Axis:
    """The axis with the smallest transform without prime factors above ``largest`` that makes the start exact.

    ``paper``: powers of two, of at least the padded size, as in the paper.
    """
    axis = Axis(size, kernel, size, stride, dilation, *padding, mode)
    axis.check()
    largest = 2 if paper else largest
    if axis.wraps and axis.fits and next_smooth(size, largest) == size:
        return axis
    needed = max(axis.needed, size + sum(padding)) if paper else axis.needed
    return replace(axis, transform=next_smooth(needed, largest))


def _inputs(places: Tensor, size: int, mode: Mode) -> Tensor:
    if mode == "circular":
        return places % size
    if mode == "replicate":
        return places.clamp(0, size - 1)
    return size - 1 - (size - 1 - places.abs()).abs()


@dataclass(frozen=True)
class NodeAxis(Axis):
    """Inputs and outputs are the nodes of a graph, which are not neighbours in space; there is one such axis only."""

    kind: ClassVar[str] = "graph convolution"

    def at(self, size: int) -> "NodeAxis":
        """A graph has the nodes that it has."""
        if size != self.size:
            raise ValueError(f"an input of {size} nodes given for a graph of {self.size}: build another operation")
        return self
