"""Where the outputs of a layer look, and which points a filter sees from there."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """One axis of a layer: output p looks around input ``centre + p stride``; n inputs have ``out(n)`` outputs.

    Filters of another width around the same points make a layer of the same size.
    """

    stride: int
    centre: int
    slack: int

    def out(self, size: int) -> int:
        """Number of outputs, as torch's convolutions and poolings count."""
        return (size + self.slack) // self.stride + 1


@dataclass(frozen=True)
class Taps:
    """A filter of ``count`` taps, ``dilation`` points apart, along every axis."""

    count: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def before(self) -> tuple[int, ...]:
        """Points between the first tap and the centre; of two points in the middle the first is the centre."""
        return tuple(d * (k - 1) // 2 for k, d in zip(self.count, self.dilation, strict=True))

    @property
    def reach(self) -> tuple[int, ...]:
        """The farthest tap on either side of the centre."""
        return tuple((d * (k - 1) + 1) // 2 for k, d in zip(self.count, self.dilation, strict=True))

    @property
    def symmetric(self) -> bool:
        """Whether the first and the last tap are equally far from the centre, along every axis."""
        return self.before == self.reach

    def fits(self, reach: Sequence[int]) -> bool:
        """Whether all taps are within ``reach``."""
        return all(mine <= theirs for mine, theirs in zip(self.reach, reach, strict=True))


def window(taps: int, dilation: int, stride: int, padding: tuple[int, int]) -> Window:
    """The window of a layer with a filter; a ``ValueError`` where outputs look outside of the input."""
    width = dilation * (taps - 1)
    centre = width // 2 - padding[0]
    if centre < 0:
        raise ValueError(f"its padding of {padding[0]} is more than {width // 2}, half the width of its filter")
    return Window(stride, centre, sum(padding) - width - 1)
