"""One walk over a tree: the state at every node, whether all fits, and what the network costs."""

from typing import NamedTuple

from eclose.signature import Signature
from eclose.spaces.einspace.costs import FREE, Cost
from eclose.spaces.einspace.grammar import Branch, Op, Route, Sequential, Symbol, Tree, factor
from eclose.spaces.einspace.options import Option, merge_step, step
from eclose.spaces.einspace.shapes import State, input_state
from eclose.spaces.einspace.tree import Path, first_op


class Misfit(Exception):
    """An operation of a tree that does not fit the tensors it gets."""

    def __init__(self, path: Path, op: Op, states: tuple[State, ...]) -> None:
        super().__init__(path, op, states)
        self.path, self.op, self.states = path, op, states


class Site(NamedTuple):
    """A node of a tree and its surroundings."""

    path: Path
    symbol: Symbol
    node: Tree
    before: tuple[State, ...]  # of the one input, or of the branches to merge
    after: State  # after a split: of one branch
    copies: int
    depth: int


class Survey:
    """The sites of a tree in the order of computation (children before their module), its result and cost.

    ``cost.activations`` leaves out what ``im2col`` would write before a linear layer: they run as one convolution.
    """

    def __init__(self, tree: Tree, state: State, symbol: Symbol = "S") -> None:
        self.sites: list[Site] = []
        self.cost = FREE
        self.after = self._module(tree, state, (), symbol, 1, 0)

    def _module(self, tree: Tree, state: State, path: Path, symbol: Symbol, copies: int, depth: int) -> State:
        if isinstance(tree, Op):
            after = self._op("C", tree, state, path, copies, depth)
        elif isinstance(tree, Sequential):
            after = self._module(tree.first, state, (*path, 0), "M", copies, depth + 1)
            after = self._module(tree.second, after, (*path, 1), "M", copies, depth + 1)
        elif isinstance(tree, Route):
            fused = first_op(tree.inner).name == "linear"
            after = self._op("R1", tree.before, state, (*path, 0), copies, depth, fused)
            after = self._module(tree.inner, after, (*path, 1), "M", copies, depth + 1)
            after = self._op("R2", tree.after, after, (*path, 2), copies, depth)
        else:
            after = self._branch(tree, state, path, copies, depth)
        self.sites.append(Site(path, symbol, tree, (state,), after, copies, depth))
        return after

    def _branch(self, tree: Branch, state: State, path: Path, copies: int, depth: int) -> State:
        split = self._op("B", tree.split, state, (*path, 0), copies, depth)
        inner = copies * factor(tree.split) // len(tree.branches)
        states = tuple(
            self._module(branch, split, (*path, 1 + i), "M", inner, depth + 1) for i, branch in enumerate(tree.branches)
        )
        where = (*path, 1 + len(tree.branches))
        option = merge_step(tree.merge, tree.split, states)
        return self._done("A", tree.merge, option, states, where, copies, depth)

    def _op(
        self, symbol: Symbol, op: Op, state: State, path: Path, copies: int, depth: int, fused: bool = False
    ) -> State:
        return self._done(symbol, op, step(op, state), (state,), path, copies, depth, fused)

    def _done(
        self,
        symbol: Symbol,
        op: Op,
        option: Option | None,
        before: tuple[State, ...],
        path: Path,
        copies: int,
        depth: int,
        fused: bool = False,
    ) -> State:
        if option is None:
            raise Misfit(path, op, before)
        if any(option.cost) and not fused:
            self.cost += option.cost.times(copies)
        self.sites.append(Site(path, symbol, op, before, option.after, copies, depth))
        return option.after


def cost_of(tree: Tree, signature: Signature) -> Cost:
    """Parameters, FLOPs and activations of what ``tree`` describes, for one sample; embedding and head come on top."""
    return Survey(tree, input_state(signature)).cost
