"""Which operations are valid in a state, where they lead and what they cost; each answer is worked out once."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from eclose.spaces.einspace import grammar
from eclose.spaces.einspace.costs import Cost, merge_cost, op_cost
from eclose.spaces.einspace.grammar import Op, factor
from eclose.spaces.einspace.shapes import State, apply, merge

REMEMBERED = 2**16  # answers: more than a search meets


class Option(NamedTuple):
    """A valid operation."""

    op: Op
    after: State
    cost: Cost


@lru_cache(REMEMBERED)
def step(op: Op, state: State) -> Option | None:
    """A one-to-one operation, or a split and the state of one branch; None where it does not fit."""
    after = apply(op, state)
    return after and Option(op, after, op_cost(op, state, after))


@lru_cache(REMEMBERED)
def merge_step(op: Op, split: Op, states: tuple[State, ...]) -> Option | None:
    """A merge of the branches of ``split``, given one state for all or one for each; None where it does not fit."""
    after = merge(op, states, factor(split))
    return after and Option(op, after, merge_cost(op, states[0], after))


def valid(symbol: grammar.Symbol, state: State) -> list[Option]:
    """Everything that B, R1, R2 or C may become."""
    ops: dict[str, Callable[[], tuple[Op, ...]]] = {
        "B": lambda: grammar.splits(len(state.shape)),
        "R1": lambda: grammar.routes_before(state.mode, len(state.shape)),
        "R2": lambda: grammar.routes_after(state.mode, len(state.shape)),
        "C": lambda: grammar.COMPUTATIONS,
    }
    return [option for op in ops[symbol]() if (option := step(op, state))]
