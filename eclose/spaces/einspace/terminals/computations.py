"""C, which computes: linear layers, norms, activations, positions; each copy with parameters of its own."""

from math import prod

import torch
from torch import nn
from torch.nn import functional as F

from eclose.backbones.layers import conv
from eclose.spaces.einspace.terminals.copies import Layout, among_channels
from eclose.spaces.einspace.terminals.record import Terminal, by_name, unchanged, written
from eclose.spaces.einspace.terminals.state import Shape, State
from eclose.spaces.operation import Args, Arguments, Cost

WIDTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
WIDTH = Arguments(lambda args: len(args) == 1 and args[0] > 0, "(width)")

_SPREAD = 0.02  # of new positional encodings


class SpreadLinear(nn.Linear):
    """Copies of a linear layer that share their input: one product."""

    def __init__(self, inputs: int, outputs: int, copies: int) -> None:
        super().__init__(inputs, copies * outputs)
        self.parts = (copies, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, ..., inputs)
        """``(batch, copies, ..., outputs)``."""
        return super().forward(x).unflatten(-1, self.parts).movedim(-2, 1)


class GroupedLinear(nn.Linear):
    """Copies of a linear layer, each with an input of its own: one batched product."""

    def __init__(self, inputs: int, outputs: int, copies: int) -> None:
        super().__init__(inputs, copies * outputs)
        self.parts = (copies, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, copies, ..., inputs)
        """``(batch, copies, ..., outputs)``."""
        rows = x.transpose(0, 1)  # (copies, batch, ..., inputs)
        weight = self.weight.unflatten(0, self.parts)  # (copies, outputs, inputs)
        bias = self.bias.unflatten(0, self.parts).unsqueeze(1)
        y = torch.baddbmm(bias, rows.flatten(1, -2), weight.transpose(1, 2))
        return y.unflatten(1, rows.shape[1:-1]).transpose(0, 1)


class GroupedLayerNorm(nn.Module):
    """Copies of a layer norm."""

    def __init__(self, features: int, copies: int) -> None:
        super().__init__()
        self.features = features
        self.weight = nn.Parameter(torch.ones(copies * features))
        self.bias = nn.Parameter(torch.zeros(copies * features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, copies, tokens, features)
        """The same shape."""
        weight, bias = (values.unflatten(0, (-1, 1, self.features)) for values in (self.weight, self.bias))
        return torch.addcmul(bias, F.layer_norm(x, (self.features,)), weight)


class PositionalEncoding(nn.Module):
    """``y = x + p`` with a learned ``p`` of the shape of a sample."""

    def __init__(self, shape: Shape, layout: Layout) -> None:
        super().__init__()
        copies = (layout.copies,) if layout.copies > 1 else ()
        self.spread = layout.shared
        self.encoding = nn.Parameter(_SPREAD * torch.randn(*copies, *shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape, one of its own for each copy."""
        return (x.unsqueeze(1) if self.spread else x) + self.encoding


def linear(inputs: int, outputs: int, layout: Layout) -> nn.Module:
    """A linear layer along the last axis."""
    if layout.copies == 1:
        return nn.Linear(inputs, outputs)
    return (SpreadLinear if layout.shared else GroupedLinear)(inputs, outputs, layout.copies)


def convolution(axes: int, inputs: int, outputs: int, window: Shape, layout: Layout) -> nn.Module:
    """A convolution; copies are its groups, or its outputs where they share the input."""
    kernel, stride, padding = window
    groups = layout.copies if layout.lead == 2 else 1
    layer = conv(axes)(groups * inputs, layout.copies * outputs, kernel, stride=stride, padding=padding, groups=groups)
    return among_channels(layer, outputs, layout)


def norm(mode: str, shape: Shape, layout: Layout) -> nn.Module:
    """Batch norm over channels in Im mode, layer norm over features in Col mode; not for a shared tensor."""
    if mode == "col":
        return GroupedLayerNorm(shape[-1], layout.copies) if layout.copies > 1 else nn.LayerNorm(shape[-1])
    channels, *space = shape
    # Flat space: with axes of size 1, torch's CPU kernel gives wrong gradients when they come permuted.
    layer = nn.Sequential(nn.Flatten(2), nn.BatchNorm1d(layout.copies * channels), nn.Unflatten(2, tuple(space)))
    return among_channels(layer, channels, layout)


def _widened(args: Args, state: State) -> State:
    return State(state.mode, (*state.shape[:-1], args[0]), state.grid)


def _products(args: Args, before: State, after: State) -> Cost:
    inputs, outputs, size = before.shape[-1], after.shape[-1], prod(after.shape)
    return Cost((inputs + 1) * outputs, 2 * inputs * size, size)


def _normalised(args: Args, before: State, after: State) -> Cost:
    return Cost(2 * before.shape[0 if before.mode == "im" else -1], 0, prod(after.shape))


def _encoded(args: Args, before: State, after: State) -> Cost:
    return Cost(prod(after.shape), 0, prod(after.shape))


COMPUTATIONS = by_name(
    Terminal(
        name="linear",
        kind="weights",
        words="linear layer",
        sizes="width {0}",
        symbols=("C",),
        arguments=WIDTH,
        offered=lambda mode, dims: [(width,) for width in WIDTHS],
        after=_widened,
        cost=_products,
        build=lambda args, state, layout: [linear(state.shape[-1], args[0], layout)],
    ),
    Terminal(
        name="norm",
        kind="norm",
        words="norm",
        symbols=("C",),
        after=unchanged,
        cost=_normalised,
        build=lambda args, state, layout: [norm(state.mode, state.shape, layout)],
        wants_own=True,
    ),
    Terminal(
        name="relu",
        kind="function",
        words="leaky ReLU",
        symbols=("C",),
        after=unchanged,
        cost=written,
        build=lambda args, state, layout: [nn.LeakyReLU()],
        keeps_sharing=True,
    ),
    Terminal(
        name="softmax",
        kind="function",
        words="softmax",
        symbols=("C",),
        after=unchanged,
        cost=written,
        build=lambda args, state, layout: [nn.Softmax(-1)],
        keeps_sharing=True,
    ),
    Terminal(
        name="pos-enc",
        kind="weights",
        words="positional encoding",
        symbols=("C",),
        after=unchanged,
        cost=_encoded,
        build=lambda args, state, layout: [PositionalEncoding(state.shape, layout)],
    ),
)
