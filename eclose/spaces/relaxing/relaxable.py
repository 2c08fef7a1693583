"""Layers that have an XD-operation of the same function, by kind (Claims A.1 to A.3, A.6 and A.7 of the XD paper)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.layers import Subsample
from eclose.backbones.spectral import SpectralConv
from eclose.ops.xd import XD, adopt

Layers = tuple[type[nn.Module], ...]
Chosen = list[tuple[str, nn.Module]]  # modules and their paths; one may stand in several places
CONVS: Layers = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED: Layers = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_AVERAGES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_ADAPTIVE: Layers = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
MAXIMA: Layers = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)

KINDS: Mapping[str, Layers] = {
    "conv": (*CONVS, *_TRANSPOSED),
    "fno": (SpectralConv,),
    "pool": (*_AVERAGES, *_ADAPTIVE),
    "max_pool": MAXIMA,
    "skip": (nn.Identity, Subsample),
}
"""Layers by kind. Of max pooling the start is the average pooling of the same windows (C.1): another function."""

_GROWING = ("kernel_size", "padding")
"""What is not true any more of a layer whose kernel has grown."""


def axes_of(module: nn.Module, dimensions: int) -> int:
    """How many axes a layer works on, given an input of so many dimensions."""
    if isinstance(module, SpectralConv):
        return module.axes
    for family in (CONVS, _TRANSPOSED, _AVERAGES, _ADAPTIVE, MAXIMA):
        for axes, layer in enumerate(family, start=1):
            if isinstance(module, layer):
                return axes
    return dimensions - 2


def operation_of(
    module: nn.Module, shape: Sequence[int], dtype: torch.dtype, max_kernel: int | None, causal: bool, **options: Any
) -> XD:  # (channels, *space)
    """The operation that does to a signal of this shape what ``module`` does, and says of itself what it says."""
    check_forward(module)
    if causal:
        check_causal(module)
        options["causal"] = True
    operation = _started_as(module, shape, dtype, max_kernel, **options)
    weight = getattr(module, "weight", None)
    grown = isinstance(weight, Tensor) and weight.shape != operation.weight.shape
    for name, value in vars(module).items():  # stride, dilation, marks of the user: networks read them
        if not name.startswith("_") and not hasattr(operation, name) and not (grown and name in _GROWING):
            setattr(operation, name, value)
    return operation


def _started_as(
    module: nn.Module, shape: Sequence[int], dtype: torch.dtype, max_kernel: int | None, **options: Any
) -> XD:
    channels, sizes = shape[0], tuple(shape[1:])
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return XD.from_conv(module, sizes, max_kernel=max_kernel, **options)
    if isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        return XD.from_transposed(module, sizes, max_kernel=max_kernel, **options)
    if isinstance(module, SpectralConv):
        return adopt(XD.from_fno(module.weight, sizes, **options), module)
    options |= {"bias": True, "dtype": dtype}  # what has no weight starts as its b
    if isinstance(module, nn.Identity | Subsample):
        return adopt(XD.from_identity(channels, sizes, stride=getattr(module, "stride", 1), **options), module)
    if isinstance(module, _AVERAGES):
        pool = module
    else:
        pool = _of_windows(module, sizes) if isinstance(module, _ADAPTIVE) else _of_maxima(module, len(sizes))
    return adopt(XD.from_avg_pool(pool, channels, sizes, fixed=isinstance(module, _ADAPTIVE), **options), module)


def _of_windows(pool: Any, sizes: tuple[int, ...]) -> nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d:
    """The average pooling that an adaptive one is, where all its windows are alike."""
    given = pool.output_size if isinstance(pool.output_size, tuple | list) else (pool.output_size,) * len(sizes)
    outs = tuple(out or size for out, size in zip(given, sizes, strict=True))
    if any(size % out for size, out in zip(sizes, outs, strict=True)):
        raise ValueError(f"adaptive pooling of {sizes} to {outs} has windows of several sizes")
    kernel: Any = tuple(size // out for size, out in zip(sizes, outs, strict=True))
    return _AVERAGES[len(sizes) - 1](kernel)


def _of_maxima(pool: Any, axes: int) -> nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d:
    """The average pooling with the windows of a max pooling."""
    if pool.return_indices or pool.dilation not in (1, (1,) * axes):
        raise ValueError("max pooling with dilation or return_indices has no average pooling beside it")
    return _AVERAGES[axes - 1](pool.kernel_size, pool.stride, pool.padding, ceil_mode=pool.ceil_mode)


def check_causal(module: nn.Module) -> None:
    """Refuses layers whose operations would come to see the future."""
    if not isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        raise ValueError(
            f"the network sees no future, and only convolutions can be kept from it, not {type(module).__name__}: "
            "causal=False lets it see the future"
        )


def check_forward(module: nn.Module) -> None:
    """Refuses classes derived from torch's that compute something else."""
    known = next(layer for layers in KINDS.values() for layer in layers if isinstance(module, layer))
    for name in ("forward", "_conv_forward"):
        if name in vars(module) or getattr(type(module), name, None) is not getattr(known, name, None):
            raise ValueError(f"this {type(module).__name__} has another forward than {known.__name__}")


def placed(model: nn.Module, chosen: Chosen, made: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """The network with what was made in all places of its module."""
    for path, module in chosen:
        if not path:
            return made[module]
        if module in made:
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, made[module])
    return model
