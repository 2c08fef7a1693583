"""The feature operations of DARTS (Liu et al. 2019) over one to three axes: separable convolutions, skips that shorten.

All of them are sequences that end with a normalisation, so that whoever weighs an operation can weigh it there.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.conv_layers import layer

Sizes = tuple[int, ...]


def separable(channels: int, taps: int, stride: Sizes, affine: bool = True) -> nn.Sequential:
    """Twice: ReLU, a convolution of each channel, one over the channels, norm. The first of them has the stride."""
    flat = (1,) * len(stride)
    return nn.Sequential(*_layers(channels, taps, stride, 1, affine), *_layers(channels, taps, flat, 1, affine))


def dilated(channels: int, taps: int, stride: Sizes, affine: bool = True) -> nn.Sequential:
    """ReLU, a convolution of each channel that leaves out every second point, one over the channels, norm."""
    return nn.Sequential(*_layers(channels, taps, stride, 2, affine))


def _layers(channels: int, taps: int, stride: Sizes, dilation: int, affine: bool) -> list[nn.Module]:
    conv, padding = layer("Conv", len(stride)), dilation * (taps // 2)
    shape = {"stride": stride, "padding": padding, "dilation": dilation}
    depthwise = conv(channels, channels, taps, groups=channels, bias=False, **shape)
    pointwise = conv(channels, channels, 1, bias=False)
    return [nn.ReLU(), depthwise, pointwise, layer("BatchNorm", len(stride))(channels, affine=affine)]


def pooled(kind: str, channels: int, sizes: Sizes, stride: Sizes) -> nn.Sequential:
    """Pooling of three points, ``MaxPool`` or ``AvgPool``, and a norm without parameters; padding is never counted.

    Axes of fewer points are not pooled: torch refuses them in volumes.
    """
    options = {"count_include_pad": False} if kind == "AvgPool" else {}
    window = tuple(3 if size > 2 else 1 for size in sizes)
    pool = layer(kind, len(stride))(window, stride=stride, padding=tuple(taps // 2 for taps in window), **options)
    return nn.Sequential(pool, layer("BatchNorm", len(stride))(channels, affine=False))


def pointwise(inputs: int, outputs: int, axes: int, affine: bool = True) -> nn.Sequential:
    """ReLU, a convolution over the channels, norm."""
    conv = layer("Conv", axes)(inputs, outputs, 1, bias=False)
    return nn.Sequential(nn.ReLU(), conv, layer("BatchNorm", axes)(outputs, affine=affine))


def shortening(inputs: int, outputs: int, stride: Sizes, affine: bool = True) -> nn.Sequential:
    """ReLU, a skip that shortens, norm."""
    norm = layer("BatchNorm", len(stride))(outputs, affine=affine)
    return nn.Sequential(nn.ReLU(), TwoSubsamples(inputs, outputs, stride), norm)


class TwoSubsamples(nn.Module):
    """Half of the channels from the even points, half from the odd ones: a skip that shortens and forgets no point.

    An axis of odd length has no odd point at its end: it counts as zero. A single channel is from the even points.
    """

    def __init__(self, inputs: int, outputs: int, stride: Sizes) -> None:
        super().__init__()
        conv = layer("Conv", len(stride))
        self.even = conv(inputs, outputs - outputs // 2, 1, stride=stride, bias=False)
        self.odd = conv(inputs, outputs // 2, 1, stride=stride, bias=False) if outputs > 1 else None
        self.ends = [end for step in reversed(stride) for end in (-(step // 2), step // 2)]

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *ceil(space / stride))``."""
        even: Tensor = self.even(x)
        return even if self.odd is None else torch.cat([even, self.odd(F.pad(x, self.ends))], dim=1)
