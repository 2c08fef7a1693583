"""The plain network that Cohen et al. (2018) compare spherical ones with; the Chrysalis paper begins with it."""

import math
from collections import OrderedDict
from itertools import pairwise

from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import conv
from eclose.backbones.needs import need_at_least, need_pooled, need_size
from eclose.errors import ConfigError
from eclose.signature import Signature

_KERNEL, _STRIDE = 5, 3


@backbones.register("spherical")
def spherical(signature: Signature, *, widths: tuple[int, ...] = (20, 40)) -> nn.Module:
    """Two convolutions of size 5 and stride 3 and a linear layer, for spheres that lie in a plane (Cohen et al. 2018).

    The convolutions themselves are the usual ones. Layers are called conv1 and conv2.
    """
    need_pooled("spherical", signature)
    if not widths:
        raise ConfigError("backbone.widths is empty, but spherical needs at least one width, e.g. [20, 40]")
    need_at_least("spherical", 1, widths=min(widths))
    smallest = 1
    for _ in widths:
        smallest = _STRIDE * (smallest - 1) + _KERNEL
    need_size("spherical", signature, smallest)
    named: OrderedDict[str, nn.Module] = OrderedDict()
    sizes = signature.sizes
    for number, (inputs, outputs) in enumerate(pairwise((signature.channels, *widths)), 1):
        named[f"conv{number}"] = conv(signature.axes)(inputs, outputs, _KERNEL, stride=_STRIDE)
        named[f"relu{number}"] = nn.ReLU()
        sizes = tuple((size - _KERNEL) // _STRIDE + 1 for size in sizes)
    named["flatten"] = nn.Flatten()
    named["output"] = nn.Linear(widths[-1] * math.prod(sizes), signature.outputs)
    return nn.Sequential(named)
