"""A network as the user gets it: raw values in, raw values out."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from eclose.config import Standardise as Setting
from eclose.ops.standardise import Levelled, Levels, Numbers, Standardise, Unstandardise
from eclose.signature import Signature
from eclose.tasks import Scale


def assemble(network: nn.Module, signature: Signature, scale: Scale | None) -> nn.Module:
    """``network`` between the standardisation of its inputs and the scale of its outputs, where they apply."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if signature.tokens or scale is None:
        parts["input"] = Numbers(signature.tokens)
    elif scale.levels is not None:
        parts["input"] = Levelled(scale.x_mean, scale.x_std, scale.levels, signature.axes)
    else:
        parts["input"] = Standardise(scale.x_mean, scale.x_std, signature.axes)
    parts["network"] = network
    if scale is not None and not signature.labels:
        axes = 0 if signature.pooled else signature.axes
        parts["output"] = Unstandardise(scale.y_mean, scale.y_std, axes)
    return nn.Sequential(parts)


def unit_scale(
    signature: Signature, standardise: Setting = True, weights: Mapping[str, Tensor] | None = None
) -> Scale | None:
    """A scale of the right shapes, to be filled from saved ``weights``; None where there is none."""
    if not standardise:
        return None
    grid = signature.sizes if standardise == "pointwise" else ()
    x, y = torch.ones(signature.channels, *grid), torch.ones(signature.outputs, *grid)
    scale = Scale(0 * x, x, 0 * y, y)
    if weights is None or "input.power" not in weights:
        return scale
    floor, power, gain = (torch.ones(()) for _ in range(3))
    return replace(scale, levels=Levels(floor, power, gain, x.clone(), 0 * x, x.clone()))
