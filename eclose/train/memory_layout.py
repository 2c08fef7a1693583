"""How the weights of a network lie in memory: channels last where its device is quicker so."""

import torch
from torch import nn

_CONVOLUTIONS = (nn.Conv2d, nn.ConvTranspose2d)


def lay_out(model: nn.Module, precision: str, device: torch.device) -> None:
    """Put the channels of two-dimensional convolutions last: on a CPU, and on a GPU where products need not be exact.

    Signals follow: the first convolution lays its input out, all that comes after keeps it so. Names, shapes and values
    stay. Networks in which another kind of layer has weights over space, such as XD-operations, stay as they are. So do
    those with depthwise convolutions in TF32: torch has kernels of its own for these, which need channels first.
    """
    weights = {module: list(module.parameters(recurse=False)) for module in model.modules()}
    spatial = [module for module, own in weights.items() if any(weight.ndim > 3 for weight in own)]
    quicker = device.type == "cpu" or precision not in ("float32", "tf32")
    quicker = quicker or (precision == "tf32" and not any(map(_depthwise, spatial)))
    if quicker and all(type(module) in _CONVOLUTIONS for module in spatial):
        for module in spatial:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _depthwise(module: nn.Module) -> bool:
    return isinstance(module, _CONVOLUTIONS) and 1 < module.groups == module.in_channels


@torch.no_grad()
def laid_out_as(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The same values, lying in memory as another tensor of this shape does: fused optimisers need it."""
    if tensor.shape != like.shape or tensor.stride() == like.stride():
        return tensor
    return torch.empty_like(like, dtype=tensor.dtype).copy_(tensor)
