"""Convolutions of torch, and what they pad: points before the first one of an axis and behind the last."""

from torch import nn

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d


def padding_of(conv: Conv, place: int) -> tuple[int, int]:
    """The padding of a convolution along one of its axes."""
    if conv.padding == "same":
        return same_padding(conv.kernel_size[place], conv.dilation[place])
    return (0, 0) if isinstance(conv.padding, str) else (conv.padding[place],) * 2


def same_padding(kernel: int, dilation: int) -> tuple[int, int]:
    """What torch's ``padding="same"`` pads."""
    total = dilation * (kernel - 1)
    return total // 2, total - total // 2
