"""The network of Kim 2014 ("Convolutional Neural Networks for Sentence Classification") over one to three axes."""

import math

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import conv
from eclose.backbones.needs import need_at_least, need_pooled, need_probability
from eclose.errors import ConfigError
from eclose.signature import Signature

_LAYERS = ("convolution", "linear")


class LargestOverTime(nn.Module):
    """``y = (max_t relu(conv_k1(x))_t, max_t relu(conv_k2(x))_t, ...)``: did a filter find its words anywhere?"""

    def __init__(self, axes: int, inputs: int, filters: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        # Zeros at both ends, so that the first and the last words are seen by every tap but one.
        self.convolutions = nn.ModuleList(conv(axes)(inputs, filters, width, padding=width // 2) for width in widths)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, filters * widths)``."""
        axes = tuple(range(2, x.ndim))
        return torch.cat([nn.functional.relu(layer(x)).amax(axes) for layer in self.convolutions], dim=1)


@backbones.register("kim")
def kim(
    signature: Signature,
    *,
    widths: tuple[int, ...] = (3, 4, 5),
    filters: int = 100,
    dropout: float = 0.5,
    layers: str = "convolution",
) -> nn.Module:
    """Kim's network for sentences: convolutions of several widths side by side, the largest answer of every filter.

    ``layers="linear"``: one linear layer of the whole sentence in their place, the baseline of K-operations.
    """
    need_pooled("kim", signature)
    if not widths:
        raise ConfigError("backbone.widths is empty, but kim needs at least one width, e.g. [3, 4, 5]")
    need_at_least("kim", 1, widths=min(widths), filters=filters)
    need_probability("kim", dropout=dropout)
    if layers not in _LAYERS:
        raise ConfigError(f"backbone.layers is '{layers}', but kim knows {' and '.join(_LAYERS)}")
    features = len(widths) * filters
    if layers == "linear":
        inputs = signature.channels * math.prod(signature.sizes)
        found: list[nn.Module] = [nn.Flatten(), nn.Linear(inputs, features), nn.ReLU()]
    else:
        found = [LargestOverTime(signature.axes, signature.channels, filters, widths)]
    return nn.Sequential(*found, nn.Dropout(dropout), nn.Linear(features, signature.outputs))
