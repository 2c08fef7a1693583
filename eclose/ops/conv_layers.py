"""Convolutions of torch by their number of axes, and what they pad: points before the first one and behind the last."""

from collections.abc import Callable

from torch import nn

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d


def layer(kind: str, axes: int) -> Callable[..., nn.Module]:
    """``Conv2d`` of ``Conv`` and two axes; likewise ``BatchNorm``, ``MaxPool``, ``AvgPool``."""
    made: Callable[..., nn.Module] = getattr(nn, f"{kind}{axes}d")
    return made


def padding_of(conv: Conv, place: int) -> tuple[int, int]:
    """The padding of a convolution along one of its axes."""
    if conv.padding == "same":
        return same_padding(conv.kernel_size[place], conv.dilation[place])
    return (0, 0) if isinstance(conv.padding, str) else (conv.padding[place],) * 2


def same_padding(kernel: int, dilation: int) -> tuple[int, int]:
    """What torch's ``padding="same"`` pads."""
    total = dilation * (kernel - 1)
    return total // 2, total - total // 2
