"""LeNet as the XD paper (C.1) and the Chrysalis paper (C.1.1) use it.

Two convolutions of size 5, each followed by ReLU and pooling by 2, and two fully connected layers before the
linear output. Widths 6, 16, 120 and 84, and padding that keeps the size, are those of the Chrysalis paper.
"""

import math
from itertools import pairwise

from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.fit import need_at_least, need_pooled, need_size
from eclose.backbones.layers import average_pool, conv, max_pool
from eclose.errors import ConfigError
from eclose.signature import Signature

_KERNEL = 5
_POOLS = {"max": max_pool, "average": average_pool}


@backbones.register("lenet")
def lenet(
    signature: Signature,
    *,
    widths: tuple[int, ...] = (6, 16),
    hidden: tuple[int, ...] = (120, 84),
    padding: bool = True,
    pool: str = "max",
) -> nn.Module:
    """Two convolutions with pooling and two fully connected layers, for small images.

    ``pool="average"`` is the start of XD searches, ``padding=False`` the LeNet of 1998.
    """
    need_pooled("lenet", signature)
    if not widths:
        raise ConfigError("backbone.widths is empty, but lenet needs at least one width, e.g. [6, 16]")
    need_at_least("lenet", 1, widths=min(widths), hidden=min(hidden, default=1))
    if pool not in _POOLS:
        raise ConfigError(f"backbone.pool is '{pool}', but lenet knows max and average")
    axes, padded = signature.axes, _KERNEL // 2 if padding else 0
    border = _KERNEL - 1 - 2 * padded
    smallest = 1
    for _ in widths:
        smallest = 2 * smallest + border
    need_size("lenet", signature, smallest)

    layers: list[nn.Module] = []
    space = signature.sizes
    for inputs, outputs in pairwise((signature.channels, *widths)):
        layers += [conv(axes)(inputs, outputs, _KERNEL, padding=padded), nn.ReLU(), _POOLS[pool](axes)(2)]
        space = tuple((size - border) // 2 for size in space)
    layers.append(nn.Flatten())
    features = (widths[-1] * math.prod(space), *hidden)
    for inputs, outputs in pairwise(features):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(features[-1], signature.outputs))
