"""Which operations are valid in a state, where they lead and what they cost; each answer is worked out once."""

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


@lru_cache(REMEMBERED)
def splits(state: State, wide_groups: bool) -> tuple[Option, ...]:
    """Everything that B may become; ``wide_groups`` as in the settings."""
    ops = grammar.splits(len(state.shape))
    if wide_groups:
        ops = tuple(op for op in ops if op.name == "clone" or factor(op) <= min(state.shape))
    return tuple(option for op in ops if (option := step(op, state)))
