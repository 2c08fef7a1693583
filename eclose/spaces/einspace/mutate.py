"""Mutation: a node drawn uniformly from the tree is derived anew (4.1); what comes after it must still fit.

The paper runs every child to see whether it is valid; here its shapes and costs are computed. A child is never the
network of its parent.
"""

import random
from collections import Counter
from dataclasses import replace as with_values

from eclose.errors import EcloseError
from eclose.signature import Signature
from eclose.spaces.einspace import grammar
from eclose.spaces.einspace.chain import digest
from eclose.spaces.einspace.grammar import Op, Tree, factor
from eclose.spaces.einspace.options import merge_step, splits, step
from eclose.spaces.einspace.sample import Growth
from eclose.spaces.einspace.settings import Settings
from eclose.spaces.einspace.shapes import input_state
from eclose.spaces.einspace.survey import Misfit, Site, Survey
from eclose.spaces.einspace.tree import children, count, replace

TRIES = 200


class NoChild(EcloseError):
    """A mutation or crossover that found nothing within its tries."""


def mutate(tree: Tree, signature: Signature, rng: random.Random, settings: Settings | None = None) -> Tree:
    """A child of ``tree`` that differs from it in one subtree."""
    offspring = Offspring(tree, signature, settings or Settings())
    for _ in range(TRIES):
        site = rng.choice(offspring.survey.sites)
        new = _derived_anew(site, tree, offspring, rng)
        if new is None:
            offspring.refused["no other choice"] += 1
            continue
        child = replace(tree, site.path, new)
        if offspring.accepts(child):
            return child
    raise NoChild(offspring.reason())


class Offspring:
    """What children of a tree must be: valid, within the limits, other networks than their parents."""

    def __init__(self, tree: Tree, signature: Signature, settings: Settings) -> None:
        self.state = input_state(signature)
        self.survey = Survey(tree, self.state)
        self.limits = self._limits(tree, settings)
        self.known = {digest(tree)}
        self.refused: Counter[str] = Counter()

    def _limits(self, tree: Tree, settings: Settings) -> Settings:
        """The settings; a parent that exceeds them may have children that are not larger than itself."""
        own = self.survey.cost
        return with_values(
            settings,
            nodes=max(settings.nodes, count(tree).nodes),
            parameters=max(settings.parameters, own.parameters),
            flops=max(settings.flops, own.flops),
            activations=max(settings.activations, own.activations),
            depth=max(settings.depth, max(site.depth for site in self.survey.sites)),
        )

    def accepts(self, child: Tree) -> bool:
        """Whether ``child`` may be returned; if not, the reason is counted."""
        try:
            cost = Survey(child, self.state).cost
        except Misfit:
            self.refused["shapes that do not fit"] += 1
            return False
        limits = self.limits
        within = (
            count(child).nodes <= limits.nodes
            and cost.parameters <= limits.parameters
            and cost.flops <= limits.flops
            and cost.activations <= limits.activations
        )
        if not within:
            self.refused["over the limits"] += 1
        elif digest(child) in self.known:
            self.refused["the network of a parent"] += 1
        else:
            return True
        return False

    def reason(self) -> str:
        """Why there is no child."""
        reasons = ", ".join(f"{times} times {reason}" for reason, times in self.refused.most_common())
        return f"no child in {self.refused.total()} tries: {reasons or 'no two subtrees are exchangeable'}"


def _derived_anew(site: Site, tree: Tree, offspring: Offspring, rng: random.Random) -> Tree | None:
    if site.symbol in ("S", "M"):
        return _grown(site, tree, offspring, rng)
    others = [op for op in _alternatives(site, tree, offspring.limits) if op != site.node]
    return rng.choice(others) if others else None


def _grown(site: Site, tree: Tree, offspring: Offspring, rng: random.Random) -> Tree:
    """A new module in the place of an old one, within what the rest of the tree leaves of the limits."""
    limits, own = offspring.limits, Survey(site.node, site.before[0], site.symbol).cost.times(site.copies)
    rest = offspring.survey.cost
    growth = Growth(rng, limits)
    growth.nodes -= count(tree).nodes - count(site.node).nodes * site.copies
    growth.parameters -= rest.parameters - own.parameters
    growth.flops -= rest.flops - own.flops
    growth.activations -= rest.activations - own.activations
    return growth.grow(site.symbol, site.before[0], site.copies, site.depth)[0]


def _alternatives(site: Site, tree: Tree, settings: Settings) -> list[Op]:
    """What the symbol of a terminal may become in its place."""
    state = site.before[0]
    dims = len(state.shape)
    match site.symbol:
        case "B":
            return [option.op for option in splits(state, settings.wide_groups)]
        case "A":
            split = _split_of(site, tree)
            return [op for op in grammar.merges(dims, factor(split)) if merge_step(op, split, site.before)]
        case "R1":
            ops = grammar.routes_before(state.mode, dims)
        case "R2":
            ops = grammar.routes_after(state.mode, dims)
        case _:
            ops = grammar.COMPUTATIONS
    return [op for op in ops if step(op, state)]


def _split_of(site: Site, tree: Tree) -> Op:
    for number in site.path[:-1]:
        tree = children(tree)[number]
    assert isinstance(tree, grammar.Branch), "only branches merge"
    return tree.split
