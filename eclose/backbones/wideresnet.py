"""The wide residual network WRN-40-4 (Zagoruyko and Komodakis 2016) of the XD paper's Tables 4 and 6."""

import torch
from torch import nn

from eclose.backbones.factory import backbones
from eclose.backbones.layers import GlobalAverage, batch_norm, conv
from eclose.backbones.needs import need_pooled, need_probability
from eclose.signature import Signature


class PreActivationBlock(nn.Module):
    """Normalises and activates before it convolves (He et al. 2016, Zagoruyko et al. 2016).

    ``y = conv(drop(relu(norm(conv(a))))) + shortcut`` with ``a = relu(norm(x))``.
    The shortcut is ``x`` where shapes stay, else a pointwise convolution of ``a``.
    """

    def __init__(
        self,
        axes: int,
        inputs: int,
        outputs: int,
        *,
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        padding = tuple(size // 2 for size in kernel)
        self.norm1 = batch_norm(axes)(inputs)
        self.conv1 = conv(axes)(inputs, outputs, kernel, stride=stride, padding=padding, bias=bias)
        self.norm2 = batch_norm(axes)(outputs)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = conv(axes)(outputs, outputs, kernel, padding=padding, bias=bias)
        self.keeps_shape = inputs == outputs and max(stride) == 1
        if self.keeps_shape:
            self.shortcut: nn.Module = nn.Identity()
        else:
            self.shortcut = conv(axes)(inputs, outputs, 1, stride=stride, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *ceil(space / stride))``."""
        activated = nn.functional.relu(self.norm1(x))
        y = nn.functional.relu(self.norm2(self.conv1(activated)))
        y = self.conv2(self.dropout(y))
        shortcut: torch.Tensor = self.shortcut(x if self.keeps_shape else activated)
        return y + shortcut


_STEM = 16


def wide_resnet(signature: Signature, depth: int, widening: int, dropout: float, bias: bool) -> nn.Module:
    """WRN-``depth``-``widening``: three stages of ``(depth - 4) / 6`` blocks, the last two with stride 2."""
    assert (depth - 4) % 6 == 0
    axes = signature.axes
    layers: list[nn.Module] = [conv(axes)(signature.channels, _STEM, 3, padding=1, bias=bias)]
    inputs = _STEM
    for stage in range(3):
        outputs = _STEM * widening * 2**stage
        for block in range((depth - 4) // 6):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(
                PreActivationBlock(
                    axes,
                    inputs,
                    outputs,
                    kernel=(3,) * axes,
                    stride=(stride,) * axes,
                    dropout=dropout,
                    bias=bias,
                )
            )
            inputs = outputs
    layers += [batch_norm(axes)(inputs), nn.ReLU(), GlobalAverage()]
    network = nn.Sequential(*layers, nn.Linear(inputs, signature.outputs))
    for module in network.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


@backbones.register("wrn40-4")
def wrn40_4(signature: Signature, *, dropout: float = 0.0, bias: bool = False) -> nn.Module:
    """Wide residual network of 40 layers, four times as wide as ResNet-40 (8.95 M parameters on CIFAR-10).

    ``bias=True`` gives every convolution a bias, which makes the 8.96 M of the XD paper's Table 4.
    """
    need_pooled("wrn40-4", signature)
    need_probability("wrn40-4", dropout=dropout)
    return wide_resnet(signature, 40, 4, dropout, bias)
