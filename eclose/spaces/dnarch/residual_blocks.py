"""Residual blocks of any network, and how they are skipped.

A block is a sum of two signals that come from one: ``x + branch(x)``, or ``shortcut(x) + branch(x)``. A branch can be
skipped if its shortcut is ``x`` itself.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from eclose.spaces.dnarch.flow import HOMOGENEOUS, SUMS, Flow
from eclose.spaces.dnarch.inner_widths import widths_inside
from eclose.spaces.dnarch.plan import Block, Closing, Plan, Span
from eclose.spaces.dnarch.recording import Call, Repeat, Value, recorded
from eclose.spaces.trace import Example


def planned(network: nn.Module, example: Example) -> Plan:
    """All blocks of a network, and the widths inside of them, found by running the example through it."""
    flow = Flow(network, recorded(network, example))
    blocks = _blocks(flow)
    widths, home, kept = widths_inside(flow, blocks)
    return Plan(flow.recording, tuple(blocks), tuple(widths), tuple(home), tuple(dict.fromkeys(kept)))


def _blocks(flow: Flow) -> list[Block]:
    """All of them, in the order of their sums."""
    sums = [found for value in flow.values if (found := _forked(flow, value))]
    names: list[str] = []
    blocks = []
    for total, fork, inside in sums:
        nested = any(other.number in inside for other, _, _ in sums)
        closing = _closing(flow, total, fork, inside, nested)
        way, why = (closing, "") if isinstance(closing, Closing) else (None, closing)
        names.append(way.path if way else total.within or "the network itself")
        times = names.count(names[-1])
        name = names[-1] if times == 1 else f"{names[-1]}, sum {times}"
        blocks.append(Block(name, inside, total.shape, way, why))
    return blocks


def _forked(flow: Flow, total: Value) -> tuple[Value, int, frozenset[int]] | None:
    """A sum of two signals of one shape that come from one value; the values in between, layers among them."""
    if total.name not in SUMS or len(total.sources) != 2:
        return None
    one, other = total.sources
    if not flow.values[one].shape == flow.values[other].shape == total.shape:
        return None
    common = (flow.above[one] | 1 << one) & (flow.above[other] | 1 << other)
    if not common:
        return None
    fork = common.bit_length() - 1
    between = range(fork + 1, total.number)
    behind = {number for number in between if flow.above[number] >> fork & 1}
    inside = frozenset(number for number in behind if flow.above[total.number] >> number & 1)
    return (total, fork, inside) if any(flow.path(flow.values[number]) for number in inside) else None


def _closing(flow: Flow, total: Value, fork: int, inside: frozenset[int], nested: bool) -> Closing | str:
    """How a block is skipped, or why it cannot be."""
    if fork not in total.sources:
        return "its shortcut is no identity"
    if nested:
        return "it has other blocks inside"
    if any(use not in inside and use != total.number for number in inside for use in flow.uses[number]):
        return "what its branch computes is used elsewhere, too"
    if inside & flow.recording.outputs:
        return "what its branch computes is an output of the network"
    (branch,) = (source for source in total.sources if source != fork)
    path, reason = _last(flow, branch, inside)
    if reason:
        return reason
    written = total.written and total.sources[0] == fork
    for call in _calls(flow):
        made = set(range(call.first, call.end))
        steps = _steps(flow, call, total.number) if call.sources == (fork,) else None
        if steps is not None and made == {*inside, total.number, *(step.number for step in steps)}:
            repeats = tuple(step.repeat for step in steps if step.repeat)
            copy: tuple[Repeat, ...] = ((torch.clone, (), {}),) if any(step.written for step in steps) else ()
            span = _span(flow, call, fork, branch, inside) if steps else Span((), "", inside)
            whole, why = (replace(span, written=written), "") if isinstance(span, Span) else (None, span)
            return Closing(call.path, copy + repeats, path, inside, whole, why)
        ends = call.output == branch and made <= inside and f"{path}.".startswith(f"{call.path}.")
        if ends and flow.values[call.sources[0]].shape == total.shape:
            span = Span(("",), "", frozenset(made), written)
            return Closing(call.path, ((torch.zeros_like, (), {}),), path, frozenset(made), span, "")
    return "it is no module of its own that is given x alone: put it, or its branch, into one"


def _calls(flow: Flow) -> Iterator[Call]:
    """Modules that ran once and were given one signal alone, outer ones first."""
    for call in sorted(flow.recording.calls, key=lambda each: each.first - each.end):
        if call.path and call.alone and len(call.sources) == 1 and flow.recording.times[call.path] == 1:
            yield call


def _steps(flow: Flow, call: Call, total: int) -> list[Value] | None:
    """What a module does with its sum in the end, step by step: nothing, or functions without weights."""
    steps: list[Value] = []
    value = flow.values[call.output]
    while value.number > total:
        if value.repeat is None:
            return None
        steps.insert(0, value)
        value = flow.values[value.sources[0]]
    return steps if value.number == total else None


def _span(flow: Flow, block: Call, fork: int, branch: int, inside: frozenset[int]) -> Span | str:
    """The outermost modules that are given ``x``, or what functions make of it, and the one that gives the branch.

    Functions may stand before and behind them, where these are given nothing else.
    """
    inner = [call for call in _calls(flow) if set(range(call.first, call.end)) <= inside]
    begins: list[Call] = []
    left = [fork]
    while left:
        given = left.pop()
        for number in sorted(inside.intersection(flow.uses[given])):
            call = next((c for c in inner if c.sources == (given,) and c.first <= number < c.end), None)
            if call is not None:
                begins += [call] if call not in begins else []
            elif _alike(flow, number):
                left.append(number)
            else:
                return f"its branch begins with {_named(flow, number)}, not with a layer: put it into a module"
    end, output = None, branch
    while end is None:
        end = next((call for call in inner if call.output == output), None)
        if end is None and not _alike(flow, output):
            return f"its branch ends in {_named(flow, output)}, not in a layer: put it into a module"
        output = output if end else flow.values[output].sources[0]
    first, last = ({n for call in calls for n in range(call.first, call.end)} for calls in (begins, [end]))
    behind = {n for n in inside if n in first or any(flow.above[n] >> one & 1 for one in first)}
    values = {n for n in behind if n in last or flow.above[end.output] >> n & 1}
    paths = [call.path[len(block.path) + 1 :] for call in (*begins, end)]
    return Span(tuple(paths[:-1]), paths[-1], frozenset(values))


def _alike(flow: Flow, number: int) -> bool:
    """Whether a function has made it of one value of the same shape."""
    value = flow.values[number]
    return not value.path and len(value.sources) == 1 and value.shape == flow.values[value.sources[0]].shape


def _named(flow: Flow, number: int) -> str:
    return f"'{flow.values[number].path}'" if flow.values[number].path else flow.values[number].name


def _last(flow: Flow, branch: int, inside: frozenset[int]) -> tuple[str, str]:
    """The path of the layer whose weights a factor of the branch can go into, and why there is none."""
    value = flow.values[branch]
    while not flow.path(value) and value.name in HOMOGENEOUS and len(value.sources) == 1 and value.number in inside:
        value = flow.values[value.sources[0]]
    path = flow.path(value)
    if not path or value.number not in inside:
        return "", f"its branch ends in {value.name}, behind its last layer"
    if getattr(flow.layer(value), "weight", None) is None:
        return "", f"its branch ends in '{path}' ({value.name}), which has no weights"
    return path, flow.why_fixed(path)
