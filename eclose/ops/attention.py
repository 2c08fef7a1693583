"""Attention that a tensor of features gives to itself (NOS paper, A.1.1): which channels and which points matter."""

from torch import Tensor, nn

from eclose.ops.conv_layers import layer


def reduced(channels: int, reduction: int) -> int:
    """Channels of a bottleneck, one at least."""
    return max(1, channels // reduction)


class ChannelAttention(nn.Module):
    """``sigmoid(V relu(U mean(x)))``: one factor for each of ``outputs`` channels, from the mean over space."""

    def __init__(self, inputs: int, outputs: int, axes: int, reduction: int = 16) -> None:
        super().__init__()
        conv, hidden = layer("Conv", axes), reduced(inputs, reduction)
        self.squeeze = conv(inputs, hidden, 1, bias=False)
        self.excite = conv(hidden, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *1)``."""
        mean = x.mean(dim=tuple(range(2, x.dim())), keepdim=True)
        factors: Tensor = self.excite(self.squeeze(mean).relu()).sigmoid()
        return factors


class SpatialAttention(nn.Module):
    """``sigmoid(v * relu(norm(U x)))``: one factor for each point, ``v`` a convolution of three points."""

    def __init__(self, inputs: int, stride: tuple[int, ...], reduction: int = 16, affine: bool = True) -> None:
        super().__init__()
        axes, hidden = len(stride), reduced(inputs, reduction)
        self.squeeze = layer("Conv", axes)(inputs, hidden, 1, stride=stride, bias=False)
        self.norm = layer("BatchNorm", axes)(hidden, affine=affine)
        self.map = layer("Conv", axes)(hidden, 1, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space)
        """``(batch, 1, *ceil(space / stride))``."""
        factors: Tensor = self.map(self.norm(self.squeeze(x)).relu()).sigmoid()
        return factors
