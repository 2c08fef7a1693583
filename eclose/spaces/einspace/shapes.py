"""How every operation changes shape and mode (3.5, 3.6, A.3): computed, never run."""

from math import prod
from typing import NamedTuple

from eclose.backbones.tokens import EMBEDDING_WIDTH
from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Mode, Op, factor

Shape = tuple[int, ...]


class State(NamedTuple):
    """What the grammar's parameters say of a tensor, without its batch axis.

    ``grid`` is the shape stored by ``im2col`` for a later ``col2im``; it travels with the tensor.
    """

    mode: Mode
    shape: Shape  # (channels, *space) or (tokens, features)
    grid: Shape = ()

    def __str__(self) -> str:
        return f"{self.mode.capitalize()} {' x '.join(map(str, self.shape))}"


def input_state(signature: Signature) -> State:
    """Arrays enter in Im mode. Embedded tokens enter in Col mode, their positions as the stored shape."""
    if signature.tokens:
        return State("col", (signature.space[0], EMBEDDING_WIDTH), signature.space)
    return State("im", (signature.channels, *signature.space))


def apply(op: Op, state: State) -> State | None:
    """The state after a one-to-one operation, or of one branch after a split; None where it does not fit."""
    rule = _RULES.get(op.name)
    return rule(op, state) if rule else state


def merge(op: Op, states: tuple[State, ...], branches: int) -> State | None:
    """The state after merging ``branches`` tensors, given one state for all or one for each."""
    first, last = states[0], states[-1]
    if first.mode != last.mode:
        return None
    shape = _merged(op, first.shape, last.shape, branches)
    return State(first.mode, shape, first.grid if first.grid == last.grid else ()) if shape else None


def _merged(op: Op, first: Shape, last: Shape, branches: int) -> Shape | None:
    if op.name == "add":
        return first if first == last else None
    if len(first) != len(last):
        return None
    if op.name == "concat":
        axis = op.args[0] - 1
        if axis >= len(first) or first[:axis] != last[:axis] or first[axis + 1 :] != last[axis + 1 :]:
            return None
        total = first[axis] * (branches - 1) + last[axis]
        return (*first[:axis], total, *first[axis + 1 :])
    if branches != 2 or first[:-2] != last[:-2] or first[-1] != last[-2]:
        return None
    return (*first[:-1], last[-1])


def windows(op: Op, space: Shape) -> Shape | None:
    """Where the windows of ``im2col`` fit, equations 31 and 32."""
    kernel, stride, padding = op.args
    grid = tuple((n + 2 * padding - kernel) // stride + 1 for n in space)
    return grid if min(grid) > 0 else None


def _group(op: Op, state: State) -> State | None:
    axis, shape = op.args[0] - 1, state.shape
    if axis >= len(shape):
        return None
    part, rest = divmod(shape[axis], factor(op))
    return None if rest else State(state.mode, (*shape[:axis], part, *shape[axis + 1 :]), state.grid)


def _permute(op: Op, state: State) -> State | None:
    if len(op.args) != len(state.shape):
        return None
    return State(state.mode, tuple(state.shape[axis - 1] for axis in op.args), state.grid)


def _im2col(op: Op, state: State) -> State | None:
    if state.mode != "im":
        return None
    channels, *space = state.shape
    grid = windows(op, tuple(space))
    if grid is None:
        return None
    return State("col", (prod(grid), channels * op.args[0] ** len(space)), grid)


def _col2im(op: Op, state: State) -> State | None:
    if not state.grid or prod(state.grid) != state.shape[0]:
        return None
    return State("im", (state.shape[1], *state.grid))


def _tokens_only(op: Op, state: State) -> State | None:
    return state if state.mode == "col" else None


def _xd(op: Op, state: State) -> State | None:
    return State("im", (op.args[0], *state.shape[1:])) if state.mode == "im" else None


def _linear(op: Op, state: State) -> State:
    return State(state.mode, (*state.shape[:-1], op.args[0]), state.grid)


_RULES = {
    "group": _group,
    "permute": _permute,
    "im2col": _im2col,
    "col2im": _col2im,
    "linear": _linear,
    "gru": _tokens_only,
    "ssm": _tokens_only,
    "xd": _xd,
}
