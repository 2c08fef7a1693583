"""The eleven operations of the space (NOS paper, 3.1 and 4.2), one record each.

A feature operation gives features, an attention factors, a dynamic one kernels. All are over one to three axes.
"""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from torch import nn

from eclose.ops.attention import ChannelAttention, SpatialAttention, reduced
from eclose.ops.dynamic import DynamicKernel
from eclose.ops.separable import dilated, pooled, separable, shortening
from eclose.spaces.operation import FREE, Args, Cost, Operation

Sizes = tuple[int, ...]
FEATURE, ATTENTION, DYNAMIC = "feature", "attention", "dynamic"
SKIP = "skip"


class Site(NamedTuple):
    """Where an operation stands: what it reads, and how many channels are calibrated by what it gives."""

    channels: int
    sizes: Sizes
    stride: Sizes
    calibrated: int

    @property
    def after(self) -> Sizes:
        """The sizes of the features of the block."""
        return tuple(-(-size // step) for size, step in zip(self.sizes, self.stride, strict=True))

    @property
    def axes(self) -> int:
        """Number of space axes."""
        return len(self.sizes)


Record = Operation[Site, Sizes, bool]  # the shape of what comes out, and whether norms have parameters
Built = Callable[[Site, bool], nn.Module]
Counted = Callable[[Site], Cost]


def _record(name: str, kind: str, words: str, shape: Callable[[Site], Sizes], build: Built, cost: Counted) -> Record:
    def after(args: Args, site: Site) -> Sizes:
        return shape(site)

    def costs(args: Args, site: Site, shape: Sizes) -> Cost:
        return cost(site)

    def modules(args: Args, site: Site, affine: bool) -> list[nn.Module]:
        return [build(site, affine)]

    return Operation(name=name, kind=kind, words=words, after=after, cost=costs, build=modules)


def _features(site: Site) -> Sizes:
    return (site.channels, *site.after)


def _feature(name: str, words: str, build: Built, cost: Counted) -> Record:
    return _record(name, FEATURE, words, _features, build, cost)


def _products(taps: int, points: int, outputs: int = 1, norm: int = 0) -> Cost:
    """Of a convolution whose weights are ``taps`` in all, at so many points, and of a norm of ``norm`` channels."""
    return Cost(taps + 2 * norm, 2 * taps * points, outputs * points * (2 if norm else 1))


def _separable_cost(taps: int, layers: int) -> Counted:
    def cost(site: Site) -> Cost:
        channels, points = site.channels, prod(site.after)
        depthwise = _products(channels * taps**site.axes, points, channels)
        return (depthwise + _products(channels**2, points, channels, channels)).times(layers)

    return cost


def _separable(taps: int) -> Record:
    return _feature(
        f"sep_conv_{taps}",
        f"separable convolution of {taps} points",
        lambda site, affine: separable(site.channels, taps, site.stride, affine),
        _separable_cost(taps, 2),
    )


def _dilated(taps: int) -> Record:
    return _feature(
        f"dil_conv_{taps}",
        f"dilated separable convolution of {taps} points",
        lambda site, affine: dilated(site.channels, taps, site.stride, affine),
        _separable_cost(taps, 1),
    )


def _pool(name: str, words: str, kind: str) -> Record:
    return _feature(
        name,
        words,
        lambda site, affine: pooled(kind, site.channels, site.sizes, site.stride),
        lambda site: Cost(0, 0, 2 * site.channels * prod(site.after)),
    )


def _skip(site: Site, affine: bool) -> nn.Module:
    flat = max(site.stride) == 1
    return nn.Sequential() if flat else shortening(site.channels, site.channels, site.stride, affine)


def _skip_cost(site: Site) -> Cost:
    channels = site.channels
    return FREE if max(site.stride) == 1 else _products(channels**2, prod(site.after), channels, channels)


def _spatial_cost(site: Site) -> Cost:
    hidden, points = reduced(site.channels, 16), prod(site.after)
    return _products(site.channels * hidden, points, hidden, hidden) + _products(hidden * 3**site.axes, points)


def _channel_cost(site: Site) -> Cost:
    hidden = reduced(site.channels, 16)
    return _products(site.channels * hidden, 1, hidden) + _products(hidden * site.calibrated, 1, site.calibrated)


def _dynamic_cost(taps: int) -> Counted:
    def cost(site: Site) -> Cost:
        hidden, points, size = reduced(site.channels, 8), prod(site.sizes), taps**site.axes
        narrow = _products(site.channels * hidden, points, hidden, hidden)
        looks = _products(site.channels * size, points, size)
        latent = Cost(0, 2 * hidden * points * size, hidden * size)
        return narrow + looks + latent + _products(hidden * site.calibrated, size, site.calibrated)

    return cost


def _dynamic(taps: int) -> Record:
    return _record(
        f"dynamic_conv_{taps}",
        DYNAMIC,
        f"dynamic convolution of {taps} points",
        lambda site: (site.calibrated, *(taps,) * site.axes),
        lambda site, affine: DynamicKernel(site.channels, site.calibrated, taps, site.axes, affine=affine),
        _dynamic_cost(taps),
    )


_ALL: tuple[Record, ...] = (
    _separable(3),
    _separable(5),
    _dilated(3),
    _dilated(5),
    _pool("avg_pool_3", "average pooling of 3 points", "AvgPool"),
    _pool("max_pool_3", "max pooling of 3 points", "MaxPool"),
    _feature(SKIP, "skip", _skip, _skip_cost),
    _record(
        "spatial_attention",
        ATTENTION,
        "spatial attention",
        lambda site: (1, *site.after),
        lambda site, affine: SpatialAttention(site.channels, site.stride, affine=affine),
        _spatial_cost,
    ),
    _record(
        "channel_attention",
        ATTENTION,
        "channel attention",
        lambda site: (site.calibrated, *(1,) * site.axes),
        lambda site, affine: ChannelAttention(site.channels, site.calibrated, site.axes),
        _channel_cost,
    ),
    _dynamic(3),
    _dynamic(5),
)
OPERATIONS: dict[str, Record] = {record.name: record for record in _ALL}
FEATURES: tuple[str, ...] = tuple(record.name for record in _ALL if record.kind == FEATURE)


def built(name: str, site: Site, affine: bool) -> nn.Module:
    """The module of an operation."""
    (module,) = OPERATIONS[name].build((), site, affine)
    return module


def cost_of(name: str, site: Site) -> Cost:
    """What an operation costs, known without building it. The convolution with kernels it made belongs to the block."""
    record = OPERATIONS[name]
    shape = record.after((), site)
    assert shape is not None
    return record.cost((), site, shape)
