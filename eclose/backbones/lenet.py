"""LeNet as the XD paper (C.1) and the Chrysalis paper (C.1.1) use it, and the wider network of the latter.

Two convolutions of size 5, each followed by ReLU and pooling by 2, and two fully connected layers before the
linear output. Widths 6, 16, 120 and 84, and padding that keeps the size, are those of the Chrysalis paper.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import average_pool, batch_norm, conv, max_pool
from eclose.backbones.needs import need_at_least, need_pooled, need_size
from eclose.errors import ConfigError
from eclose.ops.kaleidoscope import KaleidoscopeLayer
from eclose.signature import Signature

_KERNEL = 5
_POOLS = {"max": max_pool, "average": average_pool}
_LAYERS = ("convolution", "linear", "kaleidoscope")


@backbones.register("lenet")
def lenet(
    signature: Signature,
    *,
    widths: tuple[int, ...] = (6, 16),
    hidden: tuple[int, ...] = (120, 84),
    padding: bool = True,
    pool: str = "max",
    layers: str = "convolution",
) -> nn.Module:
    """Two convolutions with pooling and two fully connected layers, for small images.

    ``pool="average"`` is the start of XD searches, ``padding=False`` the LeNet of 1998. ``layers``: what stands in
    place of convolutions, ``linear`` (and no pooling) or ``kaleidoscope``, the baselines of K-operations.
    """
    need_pooled("lenet", signature)
    _check_lenet(widths, hidden, padding, pool, layers)
    border = 0 if padding else _KERNEL - 1
    smallest = 1
    for _ in widths:
        smallest = 2 * smallest + border
    need_size("lenet", signature, smallest)

    stack: list[nn.Module] = []
    space = signature.sizes
    for inputs, outputs in pairwise((signature.channels, *widths)):
        pooled = tuple((size - border) // 2 for size in space)
        if layers == "linear":
            stack += [nn.Flatten(), nn.Linear(inputs * math.prod(space), outputs * math.prod(pooled)), nn.ReLU()]
        else:
            stack += [_layer(layers, inputs, outputs, space, padding), nn.ReLU(), _POOLS[pool](signature.axes)(2)]
        space = pooled
    stack.append(nn.Flatten())
    features = (widths[-1] * math.prod(space), *hidden)
    for inputs, outputs in pairwise(features):
        stack += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*stack, nn.Linear(features[-1], signature.outputs))


def _check_lenet(widths: Sequence[int], hidden: Sequence[int], padding: bool, pool: str, layers: str) -> None:
    if not widths:
        raise ConfigError("backbone.widths is empty, but lenet needs at least one width, e.g. [6, 16]")
    need_at_least("lenet", 1, widths=min(widths), hidden=min(hidden, default=1))
    if pool not in _POOLS:
        raise ConfigError(f"backbone.pool is '{pool}', but lenet knows max and average")
    if layers not in _LAYERS:
        raise ConfigError(f"backbone.layers is '{layers}', but lenet knows {', '.join(_LAYERS)}")
    if layers != "convolution" and not padding:
        raise ConfigError(f"backbone.padding is false, but only convolutions pad, not {layers} layers: leave one out")


def _layer(kind: str, inputs: int, outputs: int, space: Sequence[int], padding: bool) -> nn.Module:
    if kind == "kaleidoscope":
        return KaleidoscopeLayer(inputs, outputs, space)
    return conv(len(space))(inputs, outputs, _KERNEL, padding=_KERNEL // 2 if padding else 0)


@backbones.register("wide-lenet")
def wide_lenet(
    signature: Signature, *, widths: tuple[int, ...] = (32, 64, 128), hidden: int = 128, pool: int = 1
) -> nn.Module:
    """Three convolutions of 3 taps with batch norm and two linear layers, for small images (Chrysalis paper).

    The paper names no pooling; ``pool`` is the window of an average behind the last convolution. Layers are called
    conv1, conv2 and so on.
    """
    need_pooled("wide-lenet", signature)
    if not widths:
        raise ConfigError("backbone.widths is empty, but wide-lenet needs at least one width, e.g. [32, 64, 128]")
    need_at_least("wide-lenet", 1, widths=min(widths), hidden=hidden, pool=pool)
    need_size("wide-lenet", signature, pool)
    axes = signature.axes
    named: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (inputs, outputs) in enumerate(pairwise((signature.channels, *widths)), 1):
        named[f"conv{number}"] = conv(axes)(inputs, outputs, 3, padding=1)
        if number < len(widths):
            named[f"norm{number}"] = batch_norm(axes)(outputs)
        named[f"relu{number}"] = nn.ReLU()
    if pool > 1:
        named["pool"] = average_pool(axes)(pool)
    features = widths[-1] * math.prod(size // pool for size in signature.sizes)
    ends = {"flatten": nn.Flatten(), "hidden": nn.Linear(features, hidden), "norm": nn.BatchNorm1d(hidden)}
    named |= {**ends, "relu": nn.ReLU(), "output": nn.Linear(hidden, signature.outputs)}
    return nn.Sequential(named)
