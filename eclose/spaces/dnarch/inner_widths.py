"""Channels inside of a residual block that masks can leave out.

Channels that one layer of a block makes and other layers of it read can be masked, if whatever lies between treats each
channel by itself, or each group of them.
"""

import math
from collections.abc import Sequence

from torch import nn

from eclose.spaces.dnarch.flow import BY_CHANNEL, HOMOGENEOUS, SUMS, Flow
from eclose.spaces.dnarch.plan import Block, Width
from eclose.spaces.dnarch.recording import CHANNEL_NORMS, CONVOLUTIONS, Value, class_of

_POINTWISE = {
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "sigmoid", "tanh"),
    *("hardswish", "hardsigmoid", "hardtanh", "clamp", "abs", "square", "dropout", "alpha_dropout", "logsigmoid"),
}


def widths_inside(flow: Flow, blocks: Sequence[Block]) -> tuple[list[Width], list[int], list[str]]:
    """All of them, the block of each, and why other channels stay."""
    widths: list[Width] = []
    home: list[int] = []
    kept: list[str] = []
    added = {block.closing.last for block in blocks if block.closing}
    for value in flow.values:
        around = sorted((b for b in blocks if value.number in b.inside), key=lambda block: len(block.inside))
        path = flow.path(value)
        if not around or path in added or not (path and _mixes(flow.layer(value))):
            continue
        found = _width(flow, value)
        if isinstance(found, str):
            kept += [f"'{path}' keeps its {_channels(flow, value)} channels: {found}"] if found else []
            continue
        read_by = {each.number for each in flow.values if each.path in found.readers}
        inner = next((block for block in around if read_by <= block.inside), None)
        if inner is None:
            kept.append(f"'{path}' keeps its {found.channels} channels: they are read outside of their block")
        else:
            widths.append(found)
            home.append(blocks.index(inner))
    return widths, home, kept


def _mixes(layer: nn.Module) -> bool:
    """Whether it mixes all its inputs into new channels."""
    kind = class_of(layer)
    return kind is nn.Linear or (kind in CONVOLUTIONS and getattr(layer, "groups", 0) == 1)


def _channels(flow: Flow, value: Value) -> int:
    """How many a layer makes."""
    layer = flow.layer(value)
    return int(getattr(layer, "out_channels", 0) or getattr(layer, "out_features", 0))


def _width(flow: Flow, value: Value) -> Width | str:
    """The channels that a layer makes, or why they stay; nothing where they are what its block adds."""
    layer, channels = flow.layer(value), _channels(flow, value)
    if reason := flow.why_fixed(flow.path(value)):
        return reason
    axis = len(value.shape) - 1 if type(layer) is nn.Linear else 1
    between: list[tuple[str, int]] = []
    unit, readers, values, left = 1, [], {value.number}, [value]
    while left:
        current = left.pop()
        if current.number in flow.recording.outputs:
            return "they are an output of the network"
        for number in flow.uses[current.number]:
            user = flow.values[number]
            if _reads(flow, user, axis):
                readers.append(user.path)
                reason = flow.why_fixed(flow.path(user))
            elif user.name in SUMS:
                return ""
            else:
                together = _passes(flow, user, axis)
                reason = together if isinstance(together, str) else ""
                if not isinstance(together, str):
                    unit = math.lcm(unit, together)
                    between += [(user.path, together)] if user.path else []
                values.add(number)
                left.append(user)
            if reason:
                return reason
    if not readers:
        return "no layer reads them"
    if unit >= channels:
        path = max(between, key=lambda pair: pair[1])[0]
        kind = type(flow.network.get_submodule(path)).__name__
        return f"'{path}' ({kind}) has them all in one group: of several groups some could go"
    gain = _gain(flow, values, set(readers))
    return Width(value.path, channels, unit, tuple(between), tuple(readers), gain, frozenset(values))


def _gain(flow: Flow, values: set[int], readers: set[str]) -> str:
    """The last norm that channels pass, if only what passes on a positive factor follows."""
    passed = [flow.values[number] for number in sorted(values, reverse=True)]
    norm = next((value for value in passed if value.path and hasattr(flow.layer(value), "eps")), None)
    if norm is None or getattr(flow.layer(norm), "weight", None) is None:
        return ""
    before = {number for number in values if number < norm.number}
    behind = (flow.values[number] for number in values if number > norm.number)
    read = any(flow.values[use].path in readers for number in before for use in flow.uses[number])
    return "" if read or not all(v.name in HOMOGENEOUS for v in behind) else norm.path


def _reads(flow: Flow, user: Value, axis: int) -> bool:
    if not flow.path(user) or not _mixes(layer := flow.layer(user)):
        return False
    return axis == (len(user.shape) - 1 if class_of(layer) is nn.Linear else 1)


def _passes(flow: Flow, user: Value, axis: int) -> int | str:
    """How many channels something treats together, each group by itself; or why it does not."""
    if len(user.sources) > 1:
        return f"{user.name} in '{user.within}' joins them with others"
    if len(user.shape) <= axis or user.shape[axis] != flow.values[user.sources[0]].shape[axis]:
        return f"{user.name} in '{user.within}' changes their number"
    path = flow.path(user)
    if not path:
        alike = user.name in _POINTWISE or (user.name in BY_CHANNEL and axis == 1)
        scaled = user.name in ("mul", "rmul", "imul", "div", "truediv") and user.repeat is not None
        return 1 if alike or scaled else f"{user.name} in '{user.within}' may do something else with them"
    layer = flow.layer(user)
    if reason := flow.why_fixed(path):
        return reason
    if axis == 1 and type(layer) in CHANNEL_NORMS:
        return 1
    if axis == 1 and type(layer) is nn.GroupNorm:
        return layer.num_channels // layer.num_groups
    if axis == 1 and type(layer) in CONVOLUTIONS and layer.in_channels == layer.out_channels:
        return int(layer.in_channels // layer.groups)  # type: ignore[operator]
    return f"'{path}' ({user.name}) mixes them"
