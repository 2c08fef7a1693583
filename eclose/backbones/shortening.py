"""How networks with one answer a sample bound their cost: long axes are shortened, axes of a few points stay whole."""

from torch import nn

from eclose.backbones.layers import batch_norm, conv
from eclose.signature import Signature

_LONGEST = {1: 1024, 2: 64, 3: 32}  # points along an axis behind the stem
_HALVED = {1: 256, 2: 8, 3: 8}  # an axis of more points is halved between the stages

Sizes = tuple[int, ...]


def shortened(sizes: Sizes, stride: Sizes) -> Sizes:
    """What a stride leaves of every axis."""
    return tuple(-(-n // s) for n, s in zip(sizes, stride, strict=True))


def stem_strides(sizes: Sizes) -> list[Sizes]:
    """Strides of the stem's convolutions, at most 4 each, until every axis is short enough; none for short ones."""
    longest = _LONGEST[len(sizes)]
    strides = []
    while max(sizes) > longest:
        stride = tuple(4 if n > 2 * longest else 2 if n > longest else 1 for n in sizes)
        sizes = shortened(sizes, stride)
        strides.append(stride)
    return strides


def behind_stem(sizes: Sizes) -> Sizes:
    """What the stem leaves of every axis."""
    for stride in stem_strides(sizes):
        sizes = shortened(sizes, stride)
    return sizes


def halving(sizes: Sizes) -> Sizes:
    """Stride that a stage starts with: 2 along the axes that are long enough."""
    return tuple(2 if n > _HALVED[len(sizes)] else 1 for n in sizes)


def taps(kernel: int, sizes: Sizes) -> Sizes:
    """An odd kernel along every axis, no longer than what can meet two points of it."""
    return tuple(min(kernel, 2 * n - 1) for n in sizes)


def strided(inputs: int, outputs: int, kernel: Sizes, stride: Sizes) -> list[nn.Module]:
    """Convolution that shortens, norm, ReLU. It is wider than its stride: no point is left out."""
    axes = len(stride)
    kernel = tuple(max(k, 2 * s - 1) for k, s in zip(kernel, stride, strict=True))
    padding = tuple(k // 2 for k in kernel)
    convolution = conv(axes)(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
    return [convolution, batch_norm(axes)(outputs), nn.ReLU()]


def stem(signature: Signature, width: int, kernel: int) -> tuple[list[nn.Module], int, Sizes]:
    """Layers that shorten long axes, with the channels and the sizes that they leave."""
    layers: list[nn.Module] = []
    channels, sizes = signature.channels, signature.sizes
    for stride in stem_strides(sizes):
        layers += strided(channels, width, taps(kernel, sizes), stride)
        channels, sizes = width, shortened(sizes, stride)
    return layers, channels, sizes
