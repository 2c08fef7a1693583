"""What every operation costs for one sample, known without building it.

``flops`` are those that torch counts, two for each product of ``linear`` and ``matmul``, and those of Fourier
transforms as ``eclose.train.cost`` counts them. ``activations`` are the elements of the tensors that an operation
writes; identities, permutations, splits and ``col2im`` are views.
"""

from math import log2, prod
from typing import NamedTuple

from eclose.ops.kaleidoscope import stages
from eclose.ops.state_space import STATES
from eclose.ops.xd import plan_axis
from eclose.ops.xd.planner import costs
from eclose.spaces.einspace.grammar import XD_WINDOW, Op
from eclose.spaces.einspace.shapes import State

VIEWS = frozenset({"identity", "permute", "col2im", "clone", "group"})


class Cost(NamedTuple):
    """Of an operation, or of a whole network: a sum over operations."""

    parameters: int = 0
    flops: int = 0
    activations: int = 0

    def __add__(self, other: "Cost") -> "Cost":  # type: ignore[override]
        return Cost(self.parameters + other.parameters, self.flops + other.flops, self.activations + other.activations)

    def times(self, copies: int) -> "Cost":
        """Of so many repetitions."""
        return Cost(copies * self.parameters, copies * self.flops, copies * self.activations)


FREE = Cost()


def op_cost(op: Op, state: State, after: State) -> Cost:
    """Of a one-to-one operation that leads from ``state`` to ``after``."""
    if op.name in VIEWS:
        return FREE
    size = prod(after.shape)
    if op.name == "linear":
        inputs, outputs = state.shape[-1], after.shape[-1]
        return Cost((inputs + 1) * outputs, 2 * inputs * size, size)
    if op.name == "gru":  # gates and candidates by one linear layer, then the scan
        return Cost(2 * (state.shape[-1] + 1) * state.shape[-1], 4 * state.shape[-1] * size, 3 * size)
    if op.name == "ssm":
        return _state_space(*state.shape)
    if op.name == "xd":
        return _relaxed_convolution(state.shape[0], after)
    if op.name == "norm":
        return Cost(2 * state.shape[0 if state.mode == "im" else -1], 0, size)
    if op.name == "pos-enc":
        return Cost(size, 0, size)
    return Cost(0, 0, size)


def _state_space(tokens: int, features: int) -> Cost:
    """Three real transforms of twice the length: of the signal, of the kernel, and back."""
    points = 2 * tokens
    flops = round(3 * 2.5 * points * log2(points) * features)
    written = 2 * 2 * (tokens + 1) + 3 * tokens  # two spectra, twice the signal back, the sum
    return Cost((4 * STATES + 2) * features, flops, written * features)


def _relaxed_convolution(inputs: int, after: State) -> Cost:
    """By the cheapest order of evaluation; K, L and M of every axis are written as dense matrices."""
    outputs, *space = after.shape
    kernel, stride, padding = XD_WINDOW
    axes = [plan_axis(size, kernel, stride=stride, padding=(padding, padding)) for size in space]
    entries = sum(3 * 2 * axis.transform * sum(stages(axis.transform)) for axis in axes)
    parameters = (inputs * kernel ** len(axes) + 1) * outputs + entries
    orders = costs(1, inputs, outputs, 1, axes, bias=False, gates=False)
    flops = round(2 * min(cost.products for cost in orders.values()))
    return Cost(parameters, flops, prod(after.shape) + sum(3 * 2 * axis.transform**2 for axis in axes))


def merge_cost(op: Op, first: State, after: State) -> Cost:
    """Of merging tensors, the first of which is in the state ``first``."""
    size = prod(after.shape)
    return Cost(0, 2 * first.shape[-1] * size if op.name.endswith("matmul") else 0, size)
