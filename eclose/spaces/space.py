"""What every space can do. A space is a set of networks; a member of the registry makes one from a configuration.

===========  ====================================================  ===================================
kind         further verbs                                         used by the strategies
===========  ====================================================  ===================================
any          ``start``, ``build``                                  train
continuous   ``supernet(task)``, ``derive(model) -> Genotype``     supernet, bilevel
sampled      those of :class:`SampledSpace`                        random, evolution
learning     ``learned``                                           the same, with ``learn``
===========  ====================================================  ===================================

A space whose genotypes people can read has ``text(genotype) -> str``; one that can say what was found has
``explain(genotype, network) -> list[Section]``; one that makes whole networks of its own says
``takes_backbone = False``; one with options that may be left to follow from the input has ``effective(signature)``,
which gives them as they are used. What a user should know before a search, ``notices(signature)`` says, line by line.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
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


class SampledSpace(Space, Protocol):
    """A set of networks that are drawn and varied, each trained on its own."""

    def sample(self, signature: Signature, generator: torch.Generator) -> Genotype:
        """A random network."""

    def mutate(self, genotype: Genotype, signature: Signature, generator: torch.Generator) -> Genotype | None:
        """A network near another; None where none was found."""

    def crossover(
        self, first: Genotype, second: Genotype, signature: Signature, generator: torch.Generator
    ) -> Genotype | None:
        """A network with parts of two; None where none was found."""

    def seeds(self, signature: Signature) -> list[Genotype]:
        """Known networks to begin with."""


class LearningSpace(SampledSpace, Protocol):
    """A sampled space whose probabilities may follow networks that turned out well."""

    def learned(self, genotypes: Sequence[Genotype], signature: Signature, strength: float) -> SampledSpace:
        """The same networks, those like ``genotypes`` likelier than before; ``strength`` from 0 (as before) to 1."""
