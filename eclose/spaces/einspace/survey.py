"""One walk over a tree: the state at every node, whether all fits, and what the network costs."""

from typing import NamedTuple

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces.einspace.grammar import (
    Branch,
    Op,
    Path,
    Route,
    Sequential,
    Symbol,
    Tree,
    children,
    factor,
    first_op,
)
from eclose.spaces.einspace.notation import op_text
from eclose.spaces.einspace.terminals import options
from eclose.spaces.einspace.terminals.options import Option, merge_step, step
from eclose.spaces.einspace.terminals.state import State, input_state
from eclose.spaces.operation import FREE, Cost


class Misfit(ConfigError):
    """An operation of a tree that does not fit the tensors it gets."""

    def __init__(self, op: Op, states: tuple[State, ...], path: Path) -> None:
        given = " and ".join(map(str, states))
        where = ".".join(map(str, path)) or "the root"
        super().__init__(f"{op_text(op)} does not fit {given} (node {where} of the tree): change the tree or the data")


class Place(NamedTuple):
    """Where a node stands."""

    path: Path = ()
    copies: int = 1  # how often it is built
    depth: int = 0  # modules around it

    def child(self, number: int) -> "Place":
        """An operation of this module."""
        return Place((*self.path, number), self.copies, self.depth)

    def module(self, number: int, times: int = 1) -> "Place":
        """A module inside of this one."""
        return Place((*self.path, number), self.copies * times, self.depth + 1)


class Site(NamedTuple):
    """A node of a tree and its surroundings."""

    symbol: Symbol
    node: Tree
    before: tuple[State, ...]  # of the one input, or of the branches to merge
    after: State  # after a split: of one branch
    place: Place


class Survey:
    """The sites of a tree in the order of computation (children before their module), its result and cost.

    ``cost.activations`` leaves out what ``im2col`` would write before a linear layer: they run as one convolution.
    """

    def __init__(self, tree: Tree, state: State, symbol: Symbol = "S") -> None:
        self.sites: list[Site] = []
        self.cost = FREE
        self.after = self._module(tree, state, Place(), symbol)

    @property
    def depth(self) -> int:
        """Of the deepest module."""
        return max(site.place.depth for site in self.sites)

    def _module(self, tree: Tree, state: State, place: Place, symbol: Symbol = "M") -> State:
        if isinstance(tree, Op):
            after = self._op("C", tree, state, place)
        elif isinstance(tree, Sequential):
            after = self._module(tree.first, state, place.module(0))
            after = self._module(tree.second, after, place.module(1))
        elif isinstance(tree, Route):
            fused = first_op(tree.inner).name == "linear"
            after = self._op("R1", tree.before, state, place.child(0), fused)
            after = self._module(tree.inner, after, place.module(1))
            after = self._op("R2", tree.after, after, place.child(2))
        else:
            after = self._branch(tree, state, place)
        self.sites.append(Site(symbol, tree, (state,), after, place))
        return after

    def _branch(self, tree: Branch, state: State, place: Place) -> State:
        part = self._op("B", tree.split, state, place.child(0))
        ways = factor(tree.split) // len(tree.branches)
        states = tuple(self._module(branch, part, place.module(1 + i, ways)) for i, branch in enumerate(tree.branches))
        option = merge_step(tree.merge, tree.split, states)
        return self._done("A", tree.merge, option, states, place.child(1 + len(states)))

    def _op(self, symbol: Symbol, op: Op, state: State, place: Place, fused: bool = False) -> State:
        return self._done(symbol, op, step(op, state), (state,), place, fused)

    def _done(
        self,
        symbol: Symbol,
        op: Op,
        option: Option | None,
        before: tuple[State, ...],
        place: Place,
        fused: bool = False,
    ) -> State:
        if option is None:
            raise Misfit(op, before, place.path)
        if any(option.cost) and not fused:
            self.cost += option.cost.times(place.copies)
        self.sites.append(Site(symbol, op, before, option.after, place))
        return option.after


def cost_of(tree: Tree, signature: Signature) -> Cost:
    """Parameters, FLOPs and activations of what ``tree`` describes, for one sample; embedding and head come on top."""
    return Survey(tree, input_state(signature)).cost


def alternatives(site: Site, tree: Tree, extras: tuple[str, ...], wide_groups: bool) -> list[Op]:
    """What the symbol of a terminal may become in its place; ``extras`` and ``wide_groups`` as in the settings."""
    state = site.before[0]
    dims = len(state.shape)
    match site.symbol:
        case "B":
            return [option.op for option in options.fitting_splits(state, wide_groups)]
        case "A":
            split = _split_of(site, tree)
            return [op for op in options.merges(dims, factor(split)) if merge_step(op, split, site.before)]
        case "R1" | "R2":
            ops = options.routes(site.symbol, state.mode, dims)
        case _:
            ops = options.computations(extras)
    return [op for op in ops if step(op, state)]


def _split_of(site: Site, tree: Tree) -> Op:
    for number in site.place.path[:-1]:
        tree = children(tree)[number]
    assert isinstance(tree, Branch), "only branches merge"
    return tree.split
