"""Probabilities learned from derivations: what good networks chose more often than the prior would have.

For every choice of the grammar, ``weight = (chosen + SMOOTHING) / (expected + SMOOTHING)``: how often it was taken, and
how often the prior would have taken it in the same places, where only some options fit. Where all fit everywhere, the
weighted prior is the Dirichlet estimate of the probabilities with SMOOTHING counts an option.

Sampling itself departs from the prior: branches that nothing merges, and what exceeds the limits, are drawn anew. What
is expected is therefore multiplied by how often the choice is taken among networks drawn without learning, so that
these would teach nothing.
"""

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from eclose.spaces.einspace.grammar import Branch, Op, Sequential, Tree
from eclose.spaces.einspace.sampling.branching_rate import consistency
from eclose.spaces.einspace.sampling.sampler import Growth
from eclose.spaces.einspace.sampling.settings import MODULES, STOP, Choice, Preferences, Settings
from eclose.spaces.einspace.survey import Site, Survey, alternatives
from eclose.spaces.einspace.terminals.state import State

SMOOTHING = 5.0  # counts: what a choice needs to be believed
DRAWN, DRAWN_NODES = 500, 200  # networks without learning, and their limit
RADIUS = 0.95  # modules that a module makes on average: learning alone does not lead beyond


Evidence = dict[Choice, tuple[float, float]]  # how often it was chosen, and how often the prior would have


def learned(trees: Iterable[Tree], state: State, settings: Settings, strength: float) -> Settings:
    """``settings`` with probabilities between theirs (``strength`` 0) and those learned from ``trees`` (1)."""
    usual = _usual(state, settings)
    weights: dict[Choice, float] = {}
    for choice, (taken, expected) in _together(trees, state, settings).items():
        lift = (taken + SMOOTHING) / (expected * usual.get(choice, 1.0) + SMOOTHING)
        weights[choice] = 1 + strength * (lift - 1)
    return _consistent(Preferences(weights), state, settings)


@lru_cache(2**4)
def _usual(state: State, settings: Settings) -> dict[Choice, float]:
    """How often drawn networks take a choice, for every time that the prior does; 1 where sampling follows it."""
    rng, small = random.Random(0), replace(settings, nodes=min(settings.nodes, DRAWN_NODES))
    drawn = [Growth(rng, small).grow("S", state)[0] for _ in range(DRAWN)]
    total = _together(drawn, state, settings)
    return {choice: (taken + 1) / (expected + 1) for choice, (taken, expected) in total.items()}


def _together(trees: Iterable[Tree], state: State, settings: Settings) -> Evidence:
    total: Evidence = {}
    for tree in trees:
        _add(total, evidence(tree, state, settings))
    return total


@lru_cache(2**12)
def evidence(tree: Tree, state: State, settings: Settings) -> Evidence:
    """Of one derivation. Choices that sampling does not offer, sizes that only seeds have, are left out."""
    total: Evidence = {}
    for site in Survey(tree, state).sites:
        prior = _prior(site, tree, settings)
        taken = site.node if site.symbol not in ("S", "M") else _production(site.node)
        if taken in prior:
            symbol = "M" if site.symbol == "S" else site.symbol  # they share their productions
            _add(total, {(symbol, option): (float(option == taken), share) for option, share in prior.items()})
    return total


def _add(total: Evidence, more: Evidence) -> None:
    for choice, (taken, expected) in more.items():
        before = total.get(choice, (0.0, 0.0))
        total[choice] = before[0] + taken, before[1] + expected


def _prior(site: Site, tree: Tree, settings: Settings) -> dict[Op | str, float]:
    """What a symbol becomes in its place, without learning."""
    if site.symbol == "S":
        return dict.fromkeys(MODULES, 1 / len(MODULES))
    if site.symbol == "M":
        return {STOP: settings.stop, **dict.fromkeys(MODULES, (1 - settings.stop) / len(MODULES))}
    options = alternatives(site, tree, settings.extras, settings.wide_groups)
    return dict.fromkeys(options, 1 / len(options))


def _production(tree: Tree) -> str:
    if isinstance(tree, Op):
        return STOP
    if isinstance(tree, Branch):
        return "branch"
    return "sequential" if isinstance(tree, Sequential) else "route"


def _consistent(preferences: Preferences, state: State, settings: Settings) -> Settings:
    """Settings under which derivations end: modules make no more modules than RADIUS, or than they did before."""
    going_on = (1 - settings.stop) * sum(preferences.weight("M", module) for module in MODULES) / len(MODULES)
    stop = settings.stop * preferences.weight("M", STOP)
    stop /= stop + going_on
    bound = max(RADIUS, consistency(settings.stop, state, settings.wide_groups).radius)
    found = consistency(stop, state, settings.wide_groups, preferences)
    if found.radius > bound:
        stop = 1 - bound * (1 - found.critical)  # the radius is (1 - stop) / (1 - critical)
    return replace(settings, stop=stop, preferences=preferences)
