"""Drawing a network from the grammar, valid by construction (3.6, 3.7, A.1).

Only an aggregation can find no valid option: when two branches end in shapes that nothing merges, or when no merge
fits the limits. Sampling then goes back to the decision for a branching module and takes another production.
"""

import random
from collections.abc import Callable
from math import prod
from typing import TypeAlias, TypeVar

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import FACTORS, Branch, Op, Route, Sequential, Symbol, Tree, factor, first_op, kept
from eclose.spaces.einspace.sampling.settings import MODULES, Settings
from eclose.spaces.einspace.terminals.options import (
    Option,
    computations,
    fitting_splits,
    merge_step,
    merges,
    routes,
    step,
)
from eclose.spaces.einspace.terminals.state import State, input_state

From = TypeVar("From")
Step: TypeAlias = Callable[[Op, From], Option | None]
Grown = tuple[Tree, State]

_LEAF = 2  # nodes of M -> C: the module and its operation
_LONGER = 3  # nodes that M -> M M and M -> R1 M R2 add to it
_GUESSES = 4


def sample(signature: Signature, rng: random.Random, settings: Settings | None = None) -> Tree:
    """A network for ``signature``."""
    settings = settings or Settings()
    return Growth(rng, settings).grow("S", input_state(signature))[0]


class Growth:
    """One derivation under way, and what is left of the limits."""

    __slots__ = (
        "activations",
        "computations",
        "deepest",
        "flops",
        "nodes",
        "parameters",
        "preferences",
        "random",
        "stop",
        "wide_groups",
    )

    def __init__(self, rng: random.Random, settings: Settings) -> None:
        self.random = rng.random
        self.stop = settings.stop
        self.preferences = settings.preferences
        self.computations = computations(settings.extras)
        self.deepest = settings.depth
        self.wide_groups = settings.wide_groups
        self.nodes = settings.nodes
        self.parameters = settings.parameters
        self.flops = settings.flops
        self.activations = settings.activations

    def grow(self, symbol: Symbol, state: State, copies: int = 1, depth: int = 0) -> Grown:
        """A derivation of S or M; ``copies``: how often it will be built."""
        self.nodes -= _LEAF * copies
        return self._module(state, copies, depth, leaf=symbol == "M")

    def _module(self, state: State, copies: int, depth: int, leaf: bool = True, branch: bool = True) -> Grown:
        """A module for whose smallest form the nodes are already put aside."""
        draw = self.random()
        if leaf:
            if draw < self.stop or self.nodes < _LONGER * copies or depth >= self.deepest:
                return self._computation(state, copies)
            draw = (draw - self.stop) / (1 - self.stop)
        choice = self._place("M", MODULES if branch else MODULES[:2], draw)
        if choice == 0:
            return self._sequential(state, copies, depth)
        if choice == 1 or not branch:
            return self._route(state, copies, depth)
        return self._branch(state, copies, depth) or self._module(state, copies, depth, leaf, branch=False)

    def _computation(self, state: State, copies: int) -> Grown:
        option = self._take("C", self.computations, step, state, copies)
        assert option, "the identity always fits"
        return option.op, option.after

    def _sequential(self, state: State, copies: int, depth: int) -> Grown:
        self.nodes -= _LONGER * copies
        first, state = self._module(state, copies, depth + 1)
        second, state = self._module(state, copies, depth + 1)
        return Sequential(first, second), state

    def _route(self, state: State, copies: int, depth: int) -> Grown:
        self.nodes -= _LONGER * copies
        before = self._take("R1", routes("R1", state.mode, len(state.shape)), step, state, copies)
        assert before, "the identity always fits"
        inner, state = self._module(before.after, copies, depth + 1)
        if before.cost.activations and first_op(inner).name == "linear":  # they will run as one convolution
            self.activations += before.cost.activations * copies
        after = self._take("R2", routes("R2", state.mode, len(state.shape)), step, state, copies)
        assert after, "the identity always fits"
        return Route(before.op, inner, after.op), after.after

    def _branch(self, state: State, copies: int, depth: int) -> Grown | None:
        left = self.nodes, self.parameters, self.flops, self.activations
        split = self._split(state, copies)
        if split is None:
            return None
        ways, room = factor(split.op), prod(split.after.shape) * copies
        if room > self.activations:
            return None
        self.nodes -= (1 + _LEAF * ways) * copies
        self.activations -= room  # kept for the merge: a limit met only there would throw whole branches away
        grown = [self._module(split.after, copies * (1 if ways == 2 else ways), depth + 1) for _ in range(kept(ways))]
        self.activations += room
        states = tuple(state for _, state in grown)
        ops = merges(len(states[0].shape), ways)
        merge = self._take("A", ops, lambda op, states: merge_step(op, split.op, states), states, copies)
        if merge is None:
            self.nodes, self.parameters, self.flops, self.activations = left
            return None
        return Branch(split.op, tuple(tree for tree, _ in grown), merge.op), merge.after

    def _split(self, state: State, copies: int) -> Option | None:
        """One of the valid splits whose branches fit the nodes left."""
        found = fitting_splits(state, self.wide_groups)
        ways = (self.nodes / copies - 1) / _LEAF
        if ways < max(FACTORS):
            found = tuple(option for option in found if factor(option.op) <= ways)
        return found[self._place("B", tuple(option.op for option in found), self.random())] if found else None

    def _take(self, symbol: Symbol, ops: tuple[Op, ...], step: Step[From], state: From, copies: int) -> Option | None:
        """One of the valid operations that fit the limits; it is charged."""
        for _ in range(_GUESSES):  # most are valid: guessing is cheaper than trying all
            option = step(ops[self._place(symbol, ops, self.random())], state)
            if option and self._fits(option, copies):
                break
        else:
            found = [option for op in ops if (option := step(op, state)) and self._fits(option, copies)]
            if not found:
                return None
            option = found[self._place(symbol, tuple(option.op for option in found), self.random())]
        self.parameters -= option.cost.parameters * copies
        self.flops -= option.cost.flops * copies
        self.activations -= option.cost.activations * copies
        return option

    def _place(self, symbol: Symbol, options: tuple[Op | str, ...], draw: float) -> int:
        """Which of ``options`` a draw means: all alike, or as they are preferred."""
        if self.preferences is None:
            return int(draw * len(options))
        return self.preferences.place(symbol, options, draw)

    def _fits(self, option: Option, copies: int) -> bool:
        cost = option.cost
        return (
            cost.parameters * copies <= self.parameters
            and cost.flops * copies <= self.flops
            and cost.activations * copies <= self.activations
        )
