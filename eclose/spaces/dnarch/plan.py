"""What masks can do in a residual network, as data: its blocks, the widths inside of them, fewer points.

``residual_blocks.py`` finds the blocks, ``inner_widths.py`` the widths, ``coarse_blocks.py`` the fewer points.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch

from eclose.ops.resolution import Sizes
from eclose.spaces.dnarch.recording import Recording, Repeat


@dataclass(frozen=True)
class Width:
    """Channels inside of a branch. ``unit``: so many stay or go together, as they share the statistics of a group."""

    maker: str  # path of the layer that makes them
    channels: int
    unit: int
    between: tuple[tuple[str, int], ...]  # norms and grouped convolutions that they pass, with the channels of a group
    readers: tuple[str, ...]  # layers that read them
    gain: str  # a norm whose gain and shift a mask can go into: only positive factors pass what follows; or none
    values: frozenset[int]


@dataclass(frozen=True)
class Span:
    """What of a block runs on fewer points: from the inputs of some of its modules to the output of one.

    Paths begin at the module that is skipped. ``begins`` empty: all of it; ``x`` is taken off its sum again.
    """

    begins: tuple[str, ...]
    end: str
    values: frozenset[int]
    written: bool = False  # whether the sum is written into x


@dataclass(frozen=True)
class Closing:
    """How a branch is skipped: the module at ``path`` becomes ``steps``; ``last``: the layer whose output is added."""

    path: str
    steps: tuple[Repeat, ...]
    last: str
    spared: frozenset[int]  # values that are not computed then
    span: Span | None
    why_whole: str  # why it has no span


@dataclass(frozen=True)
class Block:
    """A sum ``shortcut(x) + branch(x)``; ``why_open`` says why it cannot be skipped."""

    name: str
    inside: frozenset[int]  # values of the branch and of the shortcut
    shape: torch.Size
    closing: Closing | None
    why_open: str


@dataclass(frozen=True)
class Coarsening:
    """A block whose branch runs on fewer points as well, as was tried (``coarse_blocks.py``)."""

    block: int
    channels: int  # of a sample: some networks have axes of it where others have the batch
    sizes: Sizes  # points of its signals in the training
    temperatures: tuple[float, ...]  # of the masks of its axes
    down: tuple["Down", ...]  # of every signal that is brought to fewer points
    powers: Mapping[int, "Powers"]  # of the values on fewer points


class Down(NamedTuple):
    """What a training step without masks does with a signal that is brought to fewer points."""

    kept: bool
    read: bool  # on the way back, by the branch


class Powers(NamedTuple):
    """How a value follows the share of points that are computed: linearly (1), not at all (0), ..."""

    products: int = 0
    size: int = 0
    kept: int = 0  # of it for the way back


@dataclass(frozen=True)
class Plan:
    """What masks can do in a network, and what stands in their way."""

    recording: Recording
    blocks: tuple[Block, ...]
    widths: tuple[Width, ...]
    home: tuple[int, ...]  # the block of every width
    kept: tuple[str, ...]  # why other channels stay, in words
    coarse: tuple[Coarsening, ...] = ()  # blocks whose branches may run on fewer points
    fine: tuple[str, ...] = ()  # why others do not, in words

    @property
    def stages(self) -> list[list[int]]:
        """Blocks that can be skipped, by neighbours of the same shape: each stage has a depth."""
        open_ = [number for number, block in enumerate(self.blocks) if block.closing]
        return [list(group) for _, group in groupby(open_, key=lambda number: self.blocks[number].shape)]
