"""Mutation: a node drawn uniformly from the tree is derived anew (4.1); what comes after it must still fit.

The paper runs every child to see whether it is valid; here its shapes and costs are computed. A child is never the
network of its parent.
"""

import random

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Tree, count, replace
from eclose.spaces.einspace.sampling.sampler import Growth
from eclose.spaces.einspace.sampling.settings import Settings
from eclose.spaces.einspace.survey import Site, Survey, alternatives
from eclose.spaces.einspace.variation.offspring import TRIES, NoChild, Offspring


def mutate(tree: Tree, signature: Signature, rng: random.Random, settings: Settings | None = None) -> Tree:
    """A child of ``tree`` that differs from it in one subtree."""
    offspring = Offspring(tree, signature, settings or Settings())
    for _ in range(TRIES):
        site = rng.choice(offspring.survey.sites)
        new = _derived_anew(site, tree, offspring, rng)
        if new is None:
            offspring.refused["no other choice"] += 1
            continue
        child = replace(tree, site.place.path, new)
        if offspring.accepts(child):
            return child
    raise NoChild(offspring.reason())


def _derived_anew(site: Site, tree: Tree, offspring: Offspring, rng: random.Random) -> Tree | None:
    if site.symbol in ("S", "M"):
        return _grown(site, tree, offspring, rng)
    limits = offspring.limits
    others = [op for op in alternatives(site, tree, limits.extras, limits.wide_groups) if op != site.node]
    preferences = limits.preferences
    if others and preferences:
        return others[preferences.place(site.symbol, tuple(others), rng.random())]
    return rng.choice(others) if others else None


def _grown(site: Site, tree: Tree, offspring: Offspring, rng: random.Random) -> Tree:
    """A new module in the place of an old one, within what the rest of the tree leaves of the limits."""
    place, rest = site.place, offspring.survey.cost
    own = Survey(site.node, site.before[0], site.symbol).cost.times(place.copies)
    growth = Growth(rng, offspring.limits)
    growth.nodes -= count(tree).nodes - count(site.node).nodes * place.copies
    growth.parameters -= rest.parameters - own.parameters
    growth.flops -= rest.flops - own.flops
    growth.activations -= rest.activations - own.activations
    return growth.grow(site.symbol, site.before[0], place.copies, place.depth)[0]
