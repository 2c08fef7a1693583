"""The table of all terminals; what each symbol may become, where that leads and what it costs.

``flops`` are those that torch counts, two for each product of ``linear`` and ``matmul``, and those of Fourier
transforms as ``eclose.train.cost`` counts them. Each answer is worked out once.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from eclose.errors import ConfigError
from eclose.spaces.einspace.grammar import Op, Symbol, factor
from eclose.spaces.einspace.terminals.computations import COMPUTATIONS
from eclose.spaces.einspace.terminals.extras import EXTRAS
from eclose.spaces.einspace.terminals.merges import MERGES
from eclose.spaces.einspace.terminals.record import Branches, Merge, Split, Terminal
from eclose.spaces.einspace.terminals.routing import ROUTING
from eclose.spaces.einspace.terminals.splits import SPLITS
from eclose.spaces.einspace.terminals.state import Mode, State
from eclose.spaces.operation import Arguments, Cost

TERMINALS: dict[str, Terminal] = {**ROUTING, **COMPUTATIONS, **EXTRAS}
EVERY: dict[str, Terminal | Split | Merge] = {**SPLITS, **MERGES, **TERMINALS}
GROUPS = tuple(dict.fromkeys(one.extra for one in EXTRAS.values()))  # of optional terminals, as users name them

_REMEMBERED = 2**16  # answers: more than a search meets


class Option(NamedTuple):
    """A valid operation."""

    op: Op
    after: State
    cost: Cost


@lru_cache(_REMEMBERED)
def step(op: Op, state: State) -> Option | None:
    """A one-to-one operation, or a split and the state of one branch; None where it does not fit."""
    terminal = TERMINALS.get(op.name) or SPLITS[op.name]
    after = terminal.after(op.args, state)
    return after and Option(op, after, terminal.cost(op.args, state, after))


@lru_cache(_REMEMBERED)
def merge_step(op: Op, split: Op, states: tuple[State, ...]) -> Option | None:
    """A merge of the branches of ``split``, given one state for all or one for each; None where it does not fit."""
    first, last, merge = states[0], states[-1], MERGES[op.name]
    if first.mode != last.mode:
        return None
    branches = Branches(first.shape, last.shape, factor(split))
    shape = merge.after(op.args, branches)
    if not shape:
        return None
    after = State(first.mode, shape, first.grid if first.grid == last.grid else ())
    return Option(op, after, merge.cost(op.args, branches, shape))


@cache
def computations(extras: tuple[str, ...] = ()) -> tuple[Op, ...]:
    """C: the paper's operations, and those of optional groups."""
    return tuple(
        Op(one.name, args)
        for one in _becoming("C")
        if not one.extra or one.extra in extras
        for args in one.offered("im", 0)
    )


@cache
def splits(dims: int) -> tuple[Op, ...]:
    """B for tensors of ``dims`` axes."""
    return tuple(Op(one.name, args) for one in SPLITS.values() for args in one.offered("im", dims))


@lru_cache(_REMEMBERED)
def fitting_splits(state: State, wide_groups: bool) -> tuple[Option, ...]:
    """B where it fits; ``wide_groups`` as in the settings."""
    ops = splits(len(state.shape))
    if wide_groups:
        ops = tuple(op for op in ops if SPLITS[op.name].whole or factor(op) <= min(state.shape))
    return tuple(option for op in ops if (option := step(op, state)))


@cache
def merges(dims: int, ways: int) -> tuple[Op, ...]:
    """A for so many tensors of ``dims`` axes."""
    able = [one for one in MERGES.values() if ways == 2 or one.of_copies]
    return tuple(Op(one.name, args) for one in able for args in one.offered("im", dims))


@cache
def routes(symbol: Symbol, mode: Mode, dims: int) -> tuple[Op, ...]:
    """R1 or R2 for tensors of ``dims`` axes: into tokens in Im mode only, out of them in Col mode only."""
    return tuple(Op(one.name, args) for one in _becoming(symbol) for args in one.offered(mode, dims))


def check_op(op: Op, symbol: Symbol) -> None:
    """Refuse an operation that ``symbol`` does not derive.

    A tree may use sizes that sampling never offers, ``linear(196)`` or ``im2col(5,1,2)``: seeds need them.
    """
    allowed = _allowed(symbol)
    if op.name not in allowed:
        raise ConfigError(f"'{op.name}' cannot stand for {symbol}: allowed are {', '.join(allowed)}")
    fit, form = allowed[op.name]
    if not fit(op.args):
        given = ",".join(map(str, op.args))
        raise ConfigError(f"{op.name}({given}): write {op.name}{form}")


@cache
def _becoming(symbol: Symbol) -> tuple[Terminal | Split | Merge, ...]:
    return tuple(one for one in EVERY.values() if symbol in one.symbols)


@cache
def _allowed(symbol: Symbol) -> dict[str, Arguments]:
    return {one.name: one.arguments for one in _becoming(symbol)}
