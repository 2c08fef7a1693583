"""ResNet-20 for CIFAR-10 (He et al. 2016, section 4.2) with shortcuts of kind A, as the XD paper uses it."""

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import GlobalAverage, Subsample, batch_norm, conv
from eclose.backbones.needs import need_at_least, need_pooled
from eclose.signature import Signature

BLOCKS = 3  # a stage


class SubsampledIdentity(nn.Module):
    """``y = x`` at every second point of every axis, with zero channels on both sides: no parameters."""

    def __init__(self, extra: int) -> None:
        super().__init__()
        self.sample = Subsample(2)
        self.before = extra // 2
        self.after = extra - extra // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, channels, *space)
        """``(batch, channels + extra, *ceil(space / 2))``."""
        return nn.functional.pad(self.sample(x), (*(0, 0) * (x.dim() - 2), self.before, self.after))


class BasicBlock(nn.Module):
    """``y = relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))``."""

    def __init__(self, axes: int, inputs: int, outputs: int) -> None:
        super().__init__()
        narrower = outputs > inputs
        self.conv1 = conv(axes)(inputs, outputs, 3, stride=2 if narrower else 1, padding=1, bias=False)
        self.norm1 = batch_norm(axes)(outputs)
        self.conv2 = conv(axes)(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = batch_norm(axes)(outputs)
        self.shortcut = SubsampledIdentity(outputs - inputs) if narrower else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *space)``, half as many points along each axis where there are more channels."""
        y = nn.functional.relu(self.norm1(self.conv1(x)))
        return nn.functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


@backbones.register("resnet20")
def resnet20(signature: Signature, *, width: int = 16) -> nn.Module:
    """ResNet-20 for CIFAR-10: nine residual blocks of widths 16, 32 and 64 (0.27 M parameters)."""
    need_pooled("resnet20", signature)
    need_at_least("resnet20", 1, width=width)
    axes = signature.axes
    layers = [
        conv(axes)(signature.channels, width, 3, padding=1, bias=False),
        batch_norm(axes)(width),
        nn.ReLU(),
    ]
    inputs = width
    for outputs in (width, 2 * width, 4 * width):
        for _ in range(BLOCKS):
            layers.append(BasicBlock(axes, inputs, outputs))
            inputs = outputs
    network = nn.Sequential(*layers, GlobalAverage(), nn.Linear(inputs, signature.outputs))
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight)
    return network
