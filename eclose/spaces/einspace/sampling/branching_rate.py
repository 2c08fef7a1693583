"""Whether derivations end, and how long they are (A.4): from the expected number of symbols that each symbol makes."""

from math import inf
from typing import NamedTuple

import numpy as np

from eclose.spaces.einspace.grammar import factor, kept
from eclose.spaces.einspace.sampling.settings import MODULES, Preferences
from eclose.spaces.einspace.terminals.options import fitting_splits, splits
from eclose.spaces.einspace.terminals.state import State

_SYMBOLS = ("S", "M", "B", "A", "R1", "R2", "C")
_IMAGE_DIMS = 3


class Consistency(NamedTuple):
    """Of the grammar under one probability of stopping."""

    radius: float  # spectral radius of the expectation matrix; derivations end with certainty below 1
    length: float  # expected terminals of a derivation of S, repeated branches counted once
    critical: float  # the probability of stopping at which the radius is 1


def consistency(
    stop: float, state: State | None = None, wide_groups: bool = False, preferences: Preferences | None = None
) -> Consistency:
    """Under the whole grammar, or under the splits that are valid for one state (``wide_groups``: see the settings).

    Shapes change along a tree, so the values for a state are those of a grammar that keeps meeting this state.
    """
    preferences = preferences or Preferences({})
    modules = expected_symbols(preferences, inner_modules(state, wide_groups, preferences))
    matrix = expectations(stop, modules)
    radius = float(max(abs(np.linalg.eigvals(matrix))))
    length = inf
    if radius < 1:
        terminal = np.array([0, 0, 1, 1, 1, 1, 1])  # B, A, R1, R2 and C become one terminal each
        length = float(np.linalg.solve(np.eye(len(_SYMBOLS)) - matrix, terminal)[0])
    return Consistency(radius, length, 1 - 1 / float(modules[_SYMBOLS.index("M")]))


def expected_symbols(preferences: Preferences, inner: float) -> np.ndarray:
    """How many of each symbol a module that is no operation makes in one step, on average."""
    made = np.array([[0, 2, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 1, 0], [0, inner, 1, 1, 0, 0, 0]])  # M M, R1 M R2, B M A
    weights = np.array([preferences.weight("M", module) for module in MODULES])
    return weights / weights.sum() @ made


def expectations(stop: float, modules: np.ndarray) -> np.ndarray:
    """How many of each column's symbol the row's symbol makes in one step, on average."""
    matrix = np.zeros((len(_SYMBOLS), len(_SYMBOLS)))
    matrix[0] = modules
    matrix[1] = (1 - stop) * modules
    matrix[1, _SYMBOLS.index("C")] = stop
    return matrix


def inner_modules(state: State | None, wide_groups: bool, preferences: Preferences) -> float:
    """Modules drawn in a branching module, averaged over its splits."""
    ops = [option.op for option in fitting_splits(state, wide_groups)] if state else splits(_IMAGE_DIMS)
    weights = [preferences.weight("B", op) for op in ops]
    return sum(weight * kept(factor(op)) for weight, op in zip(weights, ops, strict=True)) / sum(weights)
