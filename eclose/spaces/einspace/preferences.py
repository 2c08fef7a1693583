"""Probabilities other than the prior's (3.4): how much likelier each production and each option is than it was."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from eclose.spaces.einspace.grammar import Op, Symbol

MODULES = ("sequential", "route", "branch")  # the productions that S and M share
STOP = "stop"  # M -> C

Choice = tuple[Symbol, Op | str]  # what a symbol became: an operation, or a production


@dataclass(frozen=True, eq=False)
class Preferences:
    """Weights beside the prior, under which the options that fit a place are all alike."""

    weights: Mapping[Choice, float]  # 1 where nothing is said
    _sums: dict[tuple[Symbol, tuple[Op | str, ...]], list[float]] = field(default_factory=dict, repr=False)

    def place(self, symbol: Symbol, options: tuple[Op | str, ...], draw: float) -> int:
        """Which of ``options`` a ``draw`` from [0, 1) means."""
        sums = self._sums.get((symbol, options))
        if sums is None:
            sums = self._sums[symbol, options] = list(accumulate(self.weight(symbol, option) for option in options))
        return bisect_right(sums, draw * sums[-1], hi=len(sums) - 1)

    def weight(self, symbol: Symbol, option: Op | str) -> float:
        """Of one option."""
        return self.weights.get((symbol, option), 1.0)
