"""Residual blocks of any network, and what masks can do there: channels inside of a branch, branches that are skipped.

A block is a sum of two signals that come from one: ``x + branch(x)``, or ``shortcut(x) + branch(x)``. Channels that one
layer of it makes and other layers of it read can be masked, if whatever lies between treats each channel by itself. A
branch can be skipped if its shortcut is ``x`` itself.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import nn

from eclose.ops.resolution import Sizes
from eclose.spaces.dnarch.recording import CHANNEL_NORMS, CONVOLUTIONS, Call, Recording, Repeat, Value, recorded
from eclose.spaces.trace import Example

_SUMS = {"add", "iadd", "radd"}
_POINTWISE = {
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "sigmoid", "tanh"),
    *("hardswish", "hardsigmoid", "hardtanh", "clamp", "abs", "square", "dropout", "alpha_dropout", "logsigmoid"),
}
_BY_CHANNEL = {  # along the axes behind the channels
    *(f"{kind}_pool{axes}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max", "lp") for axes in (1, 2, 3)),
    *("pad", "interpolate", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
}
_HOMOGENEOUS = {  # what a positive factor passes through
    *("relu", "leaky_relu", "dropout", "mul", "rmul", "imul", "div", "truediv", "itruediv", "neg", "contiguous"),
    *("permute", "transpose", "movedim", "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *(name for name in _BY_CHANNEL if name not in ("pad", "lp_pool1d", "lp_pool2d", "lp_pool3d")),
}


@dataclass(frozen=True)
class Width:
    """Channels inside of a branch. ``unit``: so many stay or go together, as they share the statistics of a group."""

    maker: str  # path of the layer that makes them
    channels: int
    unit: int
    between: tuple[tuple[str, int], ...]  # norms and grouped convolutions that they pass, with the channels of a group
    readers: tuple[str, ...]  # layers that read them
    gain: str  # a norm whose gain and shift a mask can go into: only positive factors pass what follows; or none
    values: frozenset[int]


@dataclass(frozen=True)
class Span:
    """What of a block runs on fewer points: from the inputs of some of its modules to the output of one.

    Paths begin at the module that is skipped. ``begins`` empty: all of it; ``x`` is taken off its sum again.
    """

    begins: tuple[str, ...]
    end: str
    values: frozenset[int]


@dataclass(frozen=True)
class Closing:
    """How a branch is skipped: the module at ``path`` becomes ``steps``; ``last``: the layer whose output is added."""

    path: str
    steps: tuple[Repeat, ...]
    last: str
    spared: frozenset[int]  # values that are not computed then
    span: Span | None
    why_whole: str  # why it has no span


@dataclass(frozen=True)
class Block:
    """A sum ``shortcut(x) + branch(x)``; ``why_open`` says why it cannot be skipped."""

    name: str
    inside: frozenset[int]  # values of the branch and of the shortcut
    shape: torch.Size
    closing: Closing | None
    why_open: str


@dataclass(frozen=True)
class Coarsening:
    """A block whose branch runs on fewer points as well, as was tried (``coarse_blocks.py``)."""

    block: int
    channels: int  # of a sample: some networks have axes of it where others have the batch
    sizes: Sizes  # points of its signals in the training
    temperatures: tuple[float, ...]  # of the masks of its axes
    down: tuple["Down", ...]  # of every signal that is brought to fewer points
    powers: Mapping[int, "Powers"]  # of the values on fewer points


class Down(NamedTuple):
    """What a training step without masks does with a signal that is brought to fewer points."""

    kept: bool
    read: bool  # on the way back, by the branch


class Powers(NamedTuple):
    """How a value follows the share of points that are computed: linearly (1), not at all (0), ..."""

    products: int = 0
    size: int = 0
    kept: int = 0  # of it for the way back


@dataclass(frozen=True)
class Plan:
    """What masks can do in a network, and what stands in their way."""

    recording: Recording
    blocks: tuple[Block, ...]
    widths: tuple[Width, ...]
    home: tuple[int, ...]  # the block of every width
    kept: tuple[str, ...]  # why other channels stay, in words
    coarse: tuple[Coarsening, ...] = ()  # blocks whose branches may run on fewer points
    fine: tuple[str, ...] = ()  # why others do not, in words

    @property
    def stages(self) -> list[list[int]]:
        """Blocks that can be skipped, by neighbours of the same shape: each stage has a depth."""
        open_ = [number for number, block in enumerate(self.blocks) if block.closing]
        return [list(group) for _, group in groupby(open_, key=lambda number: self.blocks[number].shape)]


def planned(network: nn.Module, example: Example) -> Plan:
    """All blocks of a network, found by running the example through it."""
    recording = recorded(network, example)
    finder = _Finder(network, recording)
    blocks = finder.blocks()
    widths: list[Width] = []
    home: list[int] = []
    kept: list[str] = []
    added = {block.closing.last for block in blocks if block.closing}
    for value in recording.values:
        around = sorted((b for b in blocks if value.number in b.inside), key=lambda block: len(block.inside))
        if not around or value.path in added or not finder.makes_channels(value):
            continue
        found = finder.width(value)
        if isinstance(found, str):
            kept += [f"'{value.path}' keeps its {finder.channels(value)} channels: {found}"] if found else []
            continue
        inner = next((block for block in around if finder.read_by(found) <= block.inside), None)
        if inner is None:
            kept.append(f"'{value.path}' keeps its {found.channels} channels: they are read outside of their block")
        else:
            widths.append(found)
            home.append(blocks.index(inner))
    return Plan(recording, tuple(blocks), tuple(widths), tuple(home), tuple(dict.fromkeys(kept)))


class _Finder:
    def __init__(self, network: nn.Module, recording: Recording) -> None:
        self.network, self.recording = network, recording
        self.values, self.uses = recording.values, recording.uses
        self.above: list[int] = []  # sets of ancestors, as bits
        for value in self.values:
            self.above.append(0)
            for source in value.sources:
                self.above[-1] |= self.above[source] | 1 << source
        owners = Counter(id(parameter) for _, parameter in network.named_parameters(remove_duplicate=False))
        self.tied = {parameter for parameter, number in owners.items() if number > 1}

    def layer(self, value: Value) -> nn.Module:
        """The layer that made a value."""
        return self.network.get_submodule(value.path)

    def channels(self, value: Value) -> int:
        """How many a layer makes."""
        layer = self.layer(value)
        return int(getattr(layer, "out_channels", 0) or getattr(layer, "out_features", 0))

    def makes_channels(self, value: Value) -> bool:
        """Whether a layer mixes all its inputs into new channels."""
        return bool(value.path) and self._mixes(self.layer(value))

    def read_by(self, width: Width) -> set[int]:
        """The values that are made of these channels."""
        return {v.number for v in self.values if v.path in width.readers}

    def _mixes(self, layer: nn.Module) -> bool:
        return type(layer) is nn.Linear or (type(layer) in CONVOLUTIONS and getattr(layer, "groups", 0) == 1)

    def _alone(self, path: str) -> str:
        """Why a layer cannot be changed; nothing if it can."""
        if self.recording.times[path] > 1:
            return f"'{path}' runs {self.recording.times[path]} times"
        if any(id(parameter) in self.tied for parameter in self.network.get_submodule(path).parameters()):
            return f"'{path}' shares its weights with another layer"
        return ""

    # Blocks

    def blocks(self) -> list[Block]:
        """All of them, in the order of their sums."""
        sums = [found for value in self.values if (found := self._forked(value))]
        names: list[str] = []
        blocks = []
        for total, fork, inside in sums:
            nested = any(other.number in inside for other, _, _ in sums)
            closing = self._closing(total, fork, inside, nested)
            way, why = (closing, "") if isinstance(closing, Closing) else (None, closing)
            names.append(way.path if way else total.within or "the network itself")
            times = names.count(names[-1])
            name = names[-1] if times == 1 else f"{names[-1]}, sum {times}"
            blocks.append(Block(name, inside, total.shape, way, why))
        return blocks

    def _forked(self, total: Value) -> tuple[Value, int, frozenset[int]] | None:
        """A sum of two signals of one shape that come from one value; the values in between, layers among them."""
        if total.name not in _SUMS or len(total.sources) != 2:
            return None
        one, other = total.sources
        if not self.values[one].shape == self.values[other].shape == total.shape:
            return None
        common = (self.above[one] | 1 << one) & (self.above[other] | 1 << other)
        if not common:
            return None
        fork = common.bit_length() - 1
        between = range(fork + 1, total.number)
        behind = {number for number in between if self.above[number] >> fork & 1}
        inside = frozenset(number for number in behind if self.above[total.number] >> number & 1)
        return (total, fork, inside) if any(self.values[number].path for number in inside) else None

    def _closing(self, total: Value, fork: int, inside: frozenset[int], nested: bool) -> Closing | str:
        """How a block is skipped, or why it cannot be."""
        if fork not in total.sources:
            return "its shortcut is no identity"
        if nested:
            return "it has other blocks inside"
        if any(use not in inside and use != total.number for number in inside for use in self.uses[number]):
            return "what its branch computes is used elsewhere, too"
        if inside & self.recording.outputs:
            return "what its branch computes is an output of the network"
        (branch,) = (source for source in total.sources if source != fork)
        path, reason = self._last(branch, inside)
        if reason:
            return reason
        for call in self._calls():
            made = set(range(call.first, call.end))
            steps = self._steps(call, total.number) if call.sources == (fork,) else None
            if steps is not None and made == {*inside, total.number, *(step.number for step in steps)}:
                repeats = tuple(step.repeat for step in steps if step.repeat)
                copy: tuple[Repeat, ...] = ((torch.clone, (), {}),) if any(step.written for step in steps) else ()
                span = self._span(call, fork, branch, inside) if steps else Span((), "", inside)
                whole, why = (span, "") if isinstance(span, Span) else (None, span)
                return Closing(call.path, copy + repeats, path, inside, whole, why)
            ends = call.output == branch and made <= inside and f"{path}.".startswith(f"{call.path}.")
            if ends and self.values[call.sources[0]].shape == total.shape:
                span = Span(("",), "", frozenset(made))
                return Closing(call.path, ((torch.zeros_like, (), {}),), path, frozenset(made), span, "")
        return "it is no module of its own that is given x alone: put it, or its branch, into one"

    def _calls(self) -> Iterator[Call]:
        """Modules that ran once and were given one signal alone, outer ones first."""
        for call in sorted(self.recording.calls, key=lambda each: each.first - each.end):
            if call.path and call.alone and len(call.sources) == 1 and self.recording.times[call.path] == 1:
                yield call

    def _steps(self, call: Call, total: int) -> list[Value] | None:
        """What a module does with its sum in the end, step by step: nothing, or functions without weights."""
        steps: list[Value] = []
        value = self.values[call.output]
        while value.number > total:
            if value.repeat is None:
                return None
            steps.insert(0, value)
            value = self.values[value.sources[0]]
        return steps if value.number == total else None

    def _span(self, block: Call, fork: int, branch: int, inside: frozenset[int]) -> Span | str:
        """The outermost modules that are given ``x``, or what functions make of it, and the one that gives the branch.

        Functions may stand before and behind them, where these are given nothing else.
        """
        inner = [call for call in self._calls() if set(range(call.first, call.end)) <= inside]
        begins: list[Call] = []
        left = [fork]
        while left:
            given = left.pop()
            for number in sorted(inside.intersection(self.uses[given])):
                call = next((c for c in inner if c.sources == (given,) and c.first <= number < c.end), None)
                if call is not None:
                    begins += [call] if call not in begins else []
                elif self._alike(number):
                    left.append(number)
                else:
                    return f"its branch begins with {self._named(number)}, not with a layer: put it into a module"
        end, output = None, branch
        while end is None:
            end = next((call for call in inner if call.output == output), None)
            if end is None and not self._alike(output):
                return f"its branch ends in {self._named(output)}, not in a layer: put it into a module"
            output = output if end else self.values[output].sources[0]
        first, last = ({n for call in calls for n in range(call.first, call.end)} for calls in (begins, [end]))
        behind = {n for n in inside if n in first or any(self.above[n] >> one & 1 for one in first)}
        values = {n for n in behind if n in last or self.above[end.output] >> n & 1}
        paths = [call.path[len(block.path) + 1 :] for call in (*begins, end)]
        return Span(tuple(paths[:-1]), paths[-1], frozenset(values))

    def _alike(self, number: int) -> bool:
        """Whether a function has made it of one value of the same shape."""
        value = self.values[number]
        return not value.path and len(value.sources) == 1 and value.shape == self.values[value.sources[0]].shape

    def _named(self, number: int) -> str:
        return f"'{self.values[number].path}'" if self.values[number].path else self.values[number].name

    def _last(self, branch: int, inside: frozenset[int]) -> tuple[str, str]:
        """The path of the layer whose weights a factor of the branch can go into, and why there is none."""
        value = self.values[branch]
        while not value.path and value.name in _HOMOGENEOUS and len(value.sources) == 1 and value.number in inside:
            value = self.values[value.sources[0]]
        if not value.path or value.number not in inside:
            return "", f"its branch ends in {value.name}, behind its last layer"
        if getattr(self.layer(value), "weight", None) is None:
            return "", f"its branch ends in '{value.path}' ({value.name}), which has no weights"
        return value.path, self._alone(value.path)

    # Widths

    def width(self, value: Value) -> Width | str:
        """The channels that a layer makes, or why they stay; nothing where they are what its block adds."""
        layer, channels = self.layer(value), self.channels(value)
        if reason := self._alone(value.path):
            return reason
        axis = len(value.shape) - 1 if type(layer) is nn.Linear else 1
        between: list[tuple[str, int]] = []
        unit, readers, values, left = 1, [], {value.number}, [value]
        while left:
            current = left.pop()
            if current.number in self.recording.outputs:
                return "they are an output of the network"
            for number in self.uses[current.number]:
                user = self.values[number]
                if self._reads(user, axis):
                    readers.append(user.path)
                    reason = self._alone(user.path)
                elif user.name in _SUMS:
                    return ""
                else:
                    together = self._passes(user, axis)
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
            kind = type(self.network.get_submodule(path)).__name__
            return f"'{path}' ({kind}) has them all in one group: of several groups some could go"
        gain = self._gain(values, set(readers))
        return Width(value.path, channels, unit, tuple(between), tuple(readers), gain, frozenset(values))

    def _gain(self, values: set[int], readers: set[str]) -> str:
        """The last norm that channels pass, if only what passes on a positive factor follows."""
        passed = [self.values[number] for number in sorted(values, reverse=True)]
        norm = next((value for value in passed if value.path and hasattr(self.layer(value), "eps")), None)
        if norm is None or getattr(self.layer(norm), "weight", None) is None:
            return ""
        before = {number for number in values if number < norm.number}
        behind = (self.values[number] for number in values if number > norm.number)
        read = any(self.values[use].path in readers for number in before for use in self.uses[number])
        return "" if read or not all(v.name in _HOMOGENEOUS for v in behind) else norm.path

    def _reads(self, user: Value, axis: int) -> bool:
        if not user.path or not self._mixes(layer := self.layer(user)):
            return False
        return axis == (len(user.shape) - 1 if type(layer) is nn.Linear else 1)

    def _passes(self, user: Value, axis: int) -> int | str:
        """How many channels something treats together, each group by itself; or why it does not."""
        if len(user.sources) > 1:
            return f"{user.name} in '{user.within}' joins them with others"
        if len(user.shape) <= axis or user.shape[axis] != self.values[user.sources[0]].shape[axis]:
            return f"{user.name} in '{user.within}' changes their number"
        if not user.path:
            alike = user.name in _POINTWISE or (user.name in _BY_CHANNEL and axis == 1)
            scaled = user.name in ("mul", "rmul", "imul", "div", "truediv") and user.repeat is not None
            return 1 if alike or scaled else f"{user.name} in '{user.within}' may do something else with them"
        layer = self.layer(user)
        if reason := self._alone(user.path):
            return reason
        if axis == 1 and type(layer) in CHANNEL_NORMS:
            return 1
        if axis == 1 and type(layer) is nn.GroupNorm:
            return layer.num_channels // layer.num_groups
        if axis == 1 and type(layer) in CONVOLUTIONS and layer.in_channels == layer.out_channels:
            return int(layer.in_channels // layer.groups)  # type: ignore[operator]
        return f"'{user.path}' ({user.name}) mixes them"
