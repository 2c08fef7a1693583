"""A network that looks at the spectrogram of a signal: sounds, vibrations, whatever oscillates.

Which frequencies are there when is one picture, and pictures are what residual networks are good at.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import batch_norm
from eclose.backbones.needs import need_at_least, need_pooled, need_probability
from eclose.backbones.resnet import resnet
from eclose.errors import ConfigError, Unsuited
from eclose.signature import Signature

_WIDTH = 64
_FLOOR = 1e-3  # of the power of a signal of unit variance: what is 30 dB below counts as silence
_SHORTEST_WINDOW = 4


class LogSpectrogram(nn.Module):
    """``y[b, c, f, t] = log(|sum_n w[n] x[b, c, t hop + n - window / 2] exp(-2 pi i f n / window)|^2 + floor)``.

    ``w`` is a Hann window whose squares add up to 1, so white noise of unit variance has the mean power 1. The signal
    is zero beyond its ends. A convolution with fixed filters: it exports, and is the same on every device.
    """

    filters: torch.Tensor

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window, self.hop = window, window // 4
        places, frequencies = torch.arange(window), torch.arange(window // 2 + 1)[:, None]
        angles = 2 * math.pi * (places * frequencies % window).double() / window
        hann = torch.hann_window(window, dtype=torch.float64)
        waves = hann / hann.norm() * torch.cat([angles.cos(), angles.sin()])
        self.register_buffer("filters", waves.float()[:, None], persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, points)
        """``(batch, channels, window / 2 + 1, points // hop + 1)``."""
        signals = x.flatten(0, 1)[:, None]
        waves = nn.functional.conv1d(signals, self.filters, stride=self.hop, padding=self.window // 2)
        power = waves.to(x.dtype).square().unflatten(1, (2, -1)).sum(1)
        return (power + _FLOOR).log().unflatten(0, x.shape[:2])

    def extra_repr(self) -> str:
        """For ``print``."""
        return f"window={self.window}"


def usual_window(points: int) -> int:
    """About twice the root of the length, so that a spectrogram has about as many frequencies as moments."""
    return max(_SHORTEST_WINDOW, 2 ** math.floor(math.log2(4 * points) / 2 + 0.5))


def sizes(signature: Signature, *, width: int, window: int, **others: Any) -> dict[str, Any]:
    """The options of the network, with what 0 stands for."""
    return {"width": width or _WIDTH, "window": window or usual_window(signature.sizes[0]), **others}


@backbones.register("spectrogram", effective=sizes)
def spectrogram(
    signature: Signature, *, width: int = 0, window: int = 0, regions: int = 1, dropout: float = 0.0
) -> nn.Module:
    """Residual network on the log-spectrogram of signals: sounds, vibrations, whatever oscillates.

    ``window`` is how many points a spectrum is taken of, every fourth of it anew; left open, it is the power of two
    near twice the root of the length. ``width``, ``regions`` and ``dropout`` are those of ``resnet``, which sees the
    frequencies and the moments as the axes of an image.
    """
    need_pooled("spectrogram", signature)
    if signature.axes != 1:
        raise Unsuited(f"backbone 'spectrogram' is for signals along 1 axis, but an input has {signature.axes} here")
    need_at_least("spectrogram", 0, width=width)
    need_probability("spectrogram", dropout=dropout)
    chosen = sizes(signature, width=width, window=window)
    if chosen["window"] % 2 or chosen["window"] < _SHORTEST_WINDOW:
        raise ConfigError(f"backbone.window is {window}, but must be even and at least {_SHORTEST_WINDOW}")
    picture = LogSpectrogram(chosen["window"])
    seen = (chosen["window"] // 2 + 1, signature.sizes[0] // picture.hop + 1)
    network = resnet(replace(signature, sizes=seen), width=chosen["width"], regions=regions, dropout=dropout)
    return nn.Sequential(picture, batch_norm(2)(signature.channels), network)
