"""PyramidNet with bottlenecks (Han et al. 2017) for small images: every block is a little wider than the one before.

PyramidNet-110 with alpha 84 is the teacher of the NOS paper.
"""

import math

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import GlobalAverage, average_pool, batch_norm, conv
from eclose.backbones.needs import need_at_least, need_pooled
from eclose.backbones.shortening import Sizes, shortened
from eclose.errors import ConfigError
from eclose.signature import Signature

_STEM = 16  # channels
_STAGES = 3
_LAYERS = 3  # of a block
_WIDER = 4  # outputs of a block, times its width


class PyramidBlock(nn.Module):
    """``y = norm(conv1(relu(norm(conv3(relu(norm(conv1(norm(x)))))))) + shortcut``, the last with four times the width.

    The shortcut is ``x``, averaged over pairs of points where the block has stride 2, with zeros as further channels.
    """

    def __init__(self, sizes: Sizes, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        axes = len(sizes)
        norm, outputs = batch_norm(axes), _WIDER * width
        self.body = nn.Sequential(
            norm(inputs),
            conv(axes)(inputs, width, 1, bias=False),
            norm(width),
            nn.ReLU(),
            conv(axes)(width, width, 3, stride=stride, padding=1, bias=False),
            norm(width),
            nn.ReLU(),
            conv(axes)(width, outputs, 1, bias=False),
            norm(outputs),
        )
        window = tuple(min(stride, size) for size in sizes)  # an axis of one point has no pairs
        self.shortcut = average_pool(axes)(window, ceil_mode=True) if stride == 2 else nn.Identity()
        self.further = outputs - inputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, 4 width, *ceil(space / stride))``."""
        y: torch.Tensor = self.body(x)
        return y + nn.functional.pad(self.shortcut(x), (*(0, 0) * (x.dim() - 2), 0, self.further))


def block_widths(depth: int, alpha: int) -> list[int]:
    """Width of every block: from 16 it grows by ``alpha`` in equal steps."""
    blocks = (depth - 2) // _LAYERS
    return [round(_STEM + alpha * (number + 1) / blocks) for number in range(blocks)]


@backbones.register("pyramidnet")
def pyramidnet(signature: Signature, *, depth: int = 110, alpha: int = 84) -> nn.Module:
    """PyramidNet-110 with bottlenecks, whose blocks widen by 84 channels in all (2.5 M parameters on CIFAR-10)."""
    need_pooled("pyramidnet", signature)
    need_at_least("pyramidnet", 0, alpha=alpha)
    if depth < 11 or (depth - 2) % (_STAGES * _LAYERS):
        raise ConfigError(f"backbone.depth is {depth}, but 'pyramidnet' needs 9 n + 2 layers: 11, 20, ..., 110, 164")
    axes, widths = signature.axes, block_widths(depth, alpha)
    layers: list[nn.Module] = [conv(axes)(signature.channels, _STEM, 3, padding=1, bias=False), batch_norm(axes)(_STEM)]
    inputs, sizes, length = _STEM, signature.sizes, len(widths) // _STAGES
    for number, width in enumerate(widths):
        stride = 2 if number and number % length == 0 else 1
        layers.append(PyramidBlock(sizes, inputs, width, stride))
        inputs, sizes = _WIDER * width, shortened(sizes, (stride,) * axes)
    layers += [batch_norm(axes)(inputs), nn.ReLU(), GlobalAverage()]
    network = nn.Sequential(*layers, nn.Linear(inputs, signature.outputs))
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            fan = module.out_channels * math.prod(module.kernel_size)
            nn.init.normal_(module.weight, 0.0, math.sqrt(2 / fan))
    return network
