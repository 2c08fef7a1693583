"""The residual block that normalises and activates before it convolves (He et al. 2016, Zagoruyko et al. 2016)."""

import torch
from torch import nn

from eclose.backbones.layers import batch_norm, conv


class PreActivationBlock(nn.Module):
    """``y = conv(drop(relu(norm(conv(a))))) + shortcut`` with ``a = relu(norm(x))``.

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
