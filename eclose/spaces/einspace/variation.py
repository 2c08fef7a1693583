"""Children of networks, by mutation and by crossover (4.1), and what both must hold to.

The paper runs every child to see whether it is valid; here its shapes and costs are computed. A child is never the
network of its parent.
"""

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Callable

from eclose.errors import EcloseError
from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Tree, count, replace
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.sampling.sampler import Growth
from eclose.spaces.einspace.sampling.settings import Settings
from eclose.spaces.einspace.survey import Misfit, Site, Survey, alternatives
from eclose.spaces.einspace.terminals.state import State, input_state

TRIES = 200
Kind = Callable[[Site], tuple[State, ...]]


class NoChild(EcloseError):
    """A mutation or crossover that found nothing within its tries."""


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
        return dataclasses.replace(
            settings,
            nodes=max(settings.nodes, count(tree).nodes),
            parameters=max(settings.parameters, own.parameters),
            flops=max(settings.flops, own.flops),
            activations=max(settings.activations, own.activations),
            depth=max(settings.depth, self.survey.depth),
        )

    def accepts(self, child: Tree) -> bool:
        """Whether ``child`` may be returned; if not, the reason is counted."""
        try:
            survey = Survey(child, self.state)
        except Misfit:
            self.refused["shapes that do not fit"] += 1
            return False
        limits, cost = self.limits, survey.cost
        within = (
            survey.depth <= limits.depth
            and count(child).nodes <= limits.nodes
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


def mutate(tree: Tree, signature: Signature, rng: random.Random, settings: Settings | None = None) -> Tree:
    """A child of ``tree``: one node, drawn uniformly, is derived anew; what comes after it must still fit."""
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


def crossover(
    first: Tree, second: Tree, signature: Signature, rng: random.Random, settings: Settings | None = None
) -> Tree:
    """``first``, in which one module of ``second`` takes the place of one that gets the same kind of tensor.

    Modules that lead from equal states to equal states are exchanged for preference: the child is then valid. Where
    there are none, or none that gives another network, equal input states suffice and what follows must fit.
    """
    offspring = Offspring(first, signature, settings or Settings())
    donors = Survey(second, offspring.state).sites
    offspring.known.add(digest(second))
    for same in (_ends, _input):
        pairs = _pairs(offspring.survey.sites, donors, same)
        rng.shuffle(pairs)
        for host, donor in pairs[:TRIES]:
            child = replace(first, host.place.path, donor.node)
            if offspring.accepts(child):
                return child
    raise NoChild(offspring.reason())


def _ends(site: Site) -> tuple[State, ...]:
    return (*site.before, site.after)


def _input(site: Site) -> tuple[State, ...]:
    return site.before


def _pairs(hosts: list[Site], donors: list[Site], same: Kind) -> list[tuple[Site, Site]]:
    """Modules of equal ``same`` that are not equal; a donor may give all of itself, a host keeps something."""
    by_type: defaultdict[tuple[State, ...], list[Site]] = defaultdict(list)
    for donor in donors:
        if donor.symbol in ("S", "M"):
            by_type[same(donor)].append(donor)
    return [
        (host, donor)
        for host in hosts
        if host.symbol == "M"
        for donor in by_type[same(host)]
        if host.node != donor.node
    ]
