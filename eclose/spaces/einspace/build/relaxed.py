"""XD-operations (paper 000) that start as convolutions, alone or as many copies side by side."""

import torch
from torch import nn

from eclose.ops.xd import XD, serve_together
from eclose.spaces.einspace.build.layout import Layout
from eclose.spaces.einspace.grammar import XD_WINDOW
from eclose.spaces.einspace.shapes import Shape


class EachCopy(nn.Module):
    """A layer for every copy, on an input of its own or on one that all share."""

    def __init__(self, layers: list[nn.Module], shared: bool) -> None:
        super().__init__()
        self.layers, self.shared = nn.ModuleList(layers), shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, [copies,] channels, *space)
        """``(batch, copies, channels, *space)``."""
        parts = [x] * len(self.layers) if self.shared else x.unbind(1)
        return torch.stack([layer(part) for layer, part in zip(self.layers, parts, strict=True)], 1)


def relaxed_convolution(shape: Shape, outputs: int, layout: Layout) -> nn.Module:
    """Of depth 1, without b and C; every copy has transforms of its own."""
    inputs, *space = shape
    kernel, stride, padding = XD_WINDOW
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(space) - 1]
    plain = [conv(inputs, outputs, kernel, stride, padding) for _ in range(layout.copies)]
    layers: list[nn.Module] = [XD.from_conv(layer, space, bias=False, gates=False) for layer in plain]
    return EachCopy(layers, layout.shared) if layout.copies > 1 else layers[0]


def prepare_together(network: nn.Module) -> None:
    """Let all XD-operations of a network make what they need in as few steps as possible."""
    serve_together(module for module in network.modules() if isinstance(module, XD))
