"""Where cells stand and what they read: all sizes of a network, before a parameter is allocated."""

from typing import NamedTuple

from eclose.backbones.shortening import halving, shortened
from eclose.backbones.tokens import EMBEDDING_WIDTH
from eclose.signature import Signature
from eclose.spaces.nos.operations import Site, Sizes

NORMAL, REDUCTION = "normal", "reduction"
KINDS = (NORMAL, REDUCTION)
_LONGEST = {1: 1024, 2: 32, 3: 32}  # points along an axis behind the stem
_STEM = 3  # times the width: channels of a stem that shortens nothing


class Place(NamedTuple):
    """Where a cell stands. It reads the outputs of the two cells before it: ``before`` and ``last``."""

    kind: str
    channels: tuple[int, int]  # of what it reads
    sizes: tuple[Sizes, Sizes]
    width: int  # channels of its nodes
    stride: Sizes

    @property
    def after(self) -> Sizes:
        """The sizes of its nodes."""
        return shortened(self.sizes[1], self.stride)

    @property
    def catches_up(self) -> Sizes:
        """The stride that gives ``before`` the sizes of ``last``."""
        return tuple(2 if one != other else 1 for one, other in zip(*self.sizes, strict=True))

    def site(self, source: int) -> Site:
        """Of an operation that reads a node; -1 is the surrogate node of a block."""
        if source in (0, 1):
            return Site(self.width, self.sizes[1], self.stride, self.width)
        return Site(self.width, self.after, (1,) * len(self.stride), self.width)

    def sites(self, block: int) -> list[Site]:
        """Of the first tier of a block, by the nodes that it reads."""
        return [self.site(source) for source in range(2 + block)]


class Layout(NamedTuple):
    """All sizes of a network of cells."""

    channels: int  # of the input
    stem: tuple[Sizes, ...]  # strides of its convolutions; the last is a layer of its own where anything is shortened
    stem_channels: tuple[int, int]  # of the two outputs of the stem
    places: tuple[Place, ...]

    @property
    def ends(self) -> list[int]:
        """The cells that end a stage."""
        reductions = [number for number, place in enumerate(self.places) if place.kind == REDUCTION]
        return [number - 1 for number in reductions if number] + [len(self.places) - 1]


def lay_out(signature: Signature, cells: int, width: int, blocks: int) -> Layout:
    """Cells at a third and at two thirds of the depth are reduction cells: half as many points, twice the channels.

    Long axes are shortened first, if one answer a sample is asked for. Short axes keep their points.
    """
    stem, sizes = _stem(signature)
    whole = (1,) * signature.axes
    if stem == (whole,):
        channels = (_STEM * width,) * 2
        shapes = (sizes, sizes)
    else:
        channels, shapes = (width, width), (_before(signature, stem), sizes)
    places, stem_channels = [], channels
    for number in range(cells):
        reduces = number in (cells // 3, 2 * cells // 3)
        width *= 2 if reduces else 1
        stride = halving(sizes) if reduces else whole
        place = Place(REDUCTION if reduces else NORMAL, channels, shapes, width, stride)
        places.append(place)
        sizes = place.after
        channels, shapes = (channels[1], blocks * width), (shapes[1], sizes)
    inputs = EMBEDDING_WIDTH if signature.tokens else signature.channels
    return Layout(inputs, stem, stem_channels, tuple(places))


def _stem(signature: Signature) -> tuple[tuple[Sizes, ...], Sizes]:
    """Strides of the stem and the sizes behind it: of 224 x 224 points 28 x 28 are left, as in DARTS."""
    sizes, strides = signature.sizes, []
    longest = _LONGEST[signature.axes]
    while signature.pooled and max(sizes) > longest:
        strides.append(tuple(2 if size > longest else 1 for size in sizes))
        sizes = shortened(sizes, strides[-1])
    whole = (1,) * signature.axes
    return tuple([whole] * (len(strides) < 2) + strides), sizes


def _before(signature: Signature, stem: tuple[Sizes, ...]) -> Sizes:
    sizes = signature.sizes
    for stride in stem[:-1]:
        sizes = shortened(sizes, stride)
    return sizes
