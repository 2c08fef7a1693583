"""How networks are drawn: the probability of stopping, and hard limits that hold while a tree grows."""

from dataclasses import dataclass
from math import inf

from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.spaces.einspace.grammar import DEEPEST, EXTRAS, STOP
from eclose.spaces.einspace.preferences import Preferences

SMALLEST = 5  # nodes of the smallest derivation of S


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
        if self.nodes < SMALLEST:
            raise ConfigError(f"nodes is {self.nodes}, but the smallest network has {SMALLEST}")
        if self.depth > DEEPEST:
            raise ConfigError(f"depth is {self.depth}, but at most {DEEPEST} modules stand within each other")
        for group in self.extras:
            if group not in EXTRAS:
                raise ConfigError(f"unknown group of terminals '{group}' in extras; {nearest(group, EXTRAS)}")

    @classmethod
    def paper(cls) -> "Settings":
        """The paper's: p = 0.32 and no limits but the depth of its authors' code."""
        return cls(STOP, inf, inf, inf, inf, wide_groups=True)
