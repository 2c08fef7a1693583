"""What every space can do. A space is a set of networks; a member of the registry makes one from a configuration.

===========  ====================================================  ===================================
kind         further verbs                                         used by the strategies
===========  ====================================================  ===================================
any          ``start``, ``build``                                  train
continuous   ``supernet(task)``, ``derive(model) -> Genotype``     supernet, bilevel
sampled      ``sample(rng, task)``, ``mutate(genotype, rng, ...)`` random, evolution
===========  ====================================================  ===================================
"""

from typing import Protocol

from torch import nn

from eclose.config import Config
from eclose.registry import Registry
from eclose.signature import Signature
from eclose.spaces.genotype import Genotype

spaces = Registry("space")


def space_of(genotype: Genotype, config: Config) -> "Space":
    """The space that can build ``genotype``: that of the run, or another one for a baseline."""
    options = config.space.options if genotype.space == config.space.name else {}
    space: Space = spaces[genotype.space].make(config, **options)
    return space


class Space(Protocol):
    """A set of networks."""

    name: str
    strategy: str  # the strategy a user gets who names none

    def start(self, signature: Signature) -> Genotype:
        """The network a search begins with."""

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of a genotype, newly initialised; from the signature alone, so that loading needs no data."""
