"""Optional terminals of C, which are not of the paper: recurrences, state-space models, XD-operations."""

from math import log2, prod

import torch
from torch import nn

from eclose.ops.kaleidoscope import stages
from eclose.ops.recurrence import GatedScan
from eclose.ops.state_space import STATES, StateSpace
from eclose.ops.xd import XD, plan_axis
from eclose.ops.xd.evaluation.planner import costs
from eclose.spaces.einspace.terminals.computations import WIDTH, WIDTHS, linear
from eclose.spaces.einspace.terminals.copies import Layout
from eclose.spaces.einspace.terminals.record import Terminal, by_name, tokens_only
from eclose.spaces.einspace.terminals.state import Shape, State
from eclose.spaces.operation import Args, Cost

_XD_WINDOW = (3, 1, 1)  # kernel, stride and padding of the convolution that ``xd`` starts as


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
    kernel, stride, padding = _XD_WINDOW
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(space) - 1]
    plain = [conv(inputs, outputs, kernel, stride, padding) for _ in range(layout.copies)]
    layers: list[nn.Module] = [XD.from_conv(layer, space, bias=False, gates=False) for layer in plain]
    return EachCopy(layers, layout.shared) if layout.copies > 1 else layers[0]


def _recurrence(args: Args, state: State, layout: Layout) -> list[nn.Module]:
    features = state.shape[-1]
    return [linear(features, 2 * features, layout), GatedScan()]


def _cost_of_recurrence(args: Args, before: State, after: State) -> Cost:
    """Gates and candidates by one linear layer, then the scan."""
    features, size = before.shape[-1], prod(after.shape)
    return Cost(2 * (features + 1) * features, 4 * features * size, 3 * size)


def _cost_of_state_space(args: Args, before: State, after: State) -> Cost:
    """Three real transforms of twice the length: of the signal, of the kernel, and back."""
    tokens, features = before.shape
    points = 2 * tokens
    flops = round(3 * 2.5 * points * log2(points) * features)
    elements = 2 * 2 * (tokens + 1) + 3 * tokens  # two spectra, twice the signal back, the sum
    return Cost((4 * STATES + 2) * features, flops, elements * features)


def _cost_of_relaxed_convolution(args: Args, before: State, after: State) -> Cost:
    """By the cheapest order of evaluation; K, L and M of every axis are written as dense matrices."""
    inputs, (outputs, *space) = before.shape[0], after.shape
    kernel, stride, padding = _XD_WINDOW
    axes = [plan_axis(size, kernel, stride=stride, padding=(padding, padding)) for size in space]
    entries = sum(3 * 2 * axis.transform * sum(stages(axis.transform)) for axis in axes)
    parameters = (inputs * kernel ** len(axes) + 1) * outputs + entries
    orders = costs(1, inputs, outputs, 1, axes, bias=False, gates=False)
    flops = round(2 * min(cost.products for cost in orders.values()))
    return Cost(parameters, flops, prod(after.shape) + sum(3 * 2 * axis.transform**2 for axis in axes))


EXTRAS = by_name(
    Terminal(
        name="gru",
        extra="recurrent",
        kind="weights",
        words="gated recurrence",
        symbols=("C",),
        after=tokens_only,
        cost=_cost_of_recurrence,
        build=_recurrence,
    ),
    Terminal(
        name="ssm",
        extra="statespace",
        kind="weights",
        words="state-space model",
        symbols=("C",),
        after=tokens_only,
        cost=_cost_of_state_space,
        build=lambda args, state, layout: [StateSpace(state.shape[-1], layout.copies, layout.shared)],
    ),
    Terminal(
        name="xd",
        extra="xd",
        kind="weights",
        words="XD-operation",
        sizes="width {0}",
        symbols=("C",),
        arguments=WIDTH,
        offered=lambda mode, dims: [(width,) for width in WIDTHS],
        after=lambda args, state: State("im", (args[0], *state.shape[1:])) if state.mode == "im" else None,
        cost=_cost_of_relaxed_convolution,
        build=lambda args, state, layout: [relaxed_convolution(state.shape, args[0], layout)],
    ),
)
