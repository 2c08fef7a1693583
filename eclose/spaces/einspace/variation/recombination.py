"""Crossover: a module of one tree takes the place of a module of another that gets the same kind of tensor."""

import random
from collections import defaultdict
from collections.abc import Callable

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Tree, replace
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.sampling.settings import Settings
from eclose.spaces.einspace.survey import Site, Survey
from eclose.spaces.einspace.terminals.state import State
from eclose.spaces.einspace.variation.offspring import TRIES, NoChild, Offspring

Kind = Callable[[Site], tuple[State, ...]]


def crossover(
    first: Tree, second: Tree, signature: Signature, rng: random.Random, settings: Settings | None = None
) -> Tree:
    """``first`` with one module from ``second``; another network than both.

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
