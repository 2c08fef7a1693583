"""How networks are drawn: probabilities (3.4), and hard limits that hold while a tree grows."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.spaces.einspace.grammar import DEEPEST, Op, Symbol
from eclose.spaces.einspace.terminals.options import GROUPS

_SMALLEST = 5  # nodes of the smallest derivation of S
_PAPER_STOP = 0.32  # p(M -> C | M) of the paper; the other productions share the rest equally

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


@dataclass(frozen=True)
class Settings:
    """Probability and limits.

    ``stop`` is p(M -> C | M); from 0.37 on the grammar is consistent whatever the input. ``nodes`` counts terminals
    and modules, repeated branches as often as they are built; ``flops`` and ``activations`` (elements kept for the
    backward pass) are those of one sample. ``depth`` bounds the nesting of modules. ``wide_groups`` asks for ``b``
    points along every axis, not only along the divided one, before ``group(dim, b)`` is offered: so did the authors.
    ``extras`` are optional groups of terminals, ``preferences`` other probabilities than the prior's.
    """

    stop: float = 0.37
    nodes: float = 1000
    parameters: float = 20e6
    flops: float = 4e9
    activations: float = 8e6
    depth: int = DEEPEST
    wide_groups: bool = False
    extras: tuple[str, ...] = ()
    preferences: Preferences | None = None

    def __post_init__(self) -> None:
        if not 0 < self.stop <= 1:
            raise ConfigError(f"stop is {self.stop}, but it must be a probability above 0, at most 1")
        for name in ("nodes", "parameters", "flops", "activations", "depth"):
            if not getattr(self, name) >= 0:  # nan, too
                raise ConfigError(f"{name} is {getattr(self, name)}, but it must be a number from 0 on")
        if self.nodes < _SMALLEST:
            raise ConfigError(f"nodes is {self.nodes}, but the smallest network has {_SMALLEST}")
        if self.depth > DEEPEST:
            raise ConfigError(f"depth is {self.depth}, but at most {DEEPEST} modules stand within each other")
        for group in self.extras:
            if group not in GROUPS:
                raise ConfigError(f"unknown group of terminals '{group}' in extras; {nearest(group, GROUPS)}")

    @classmethod
    def paper(cls) -> "Settings":
        """The paper's: p = 0.32 and no limits but the depth of its authors' code."""
        return cls(_PAPER_STOP, inf, inf, inf, inf, wide_groups=True)
