"""What every space can do. A space is a set of networks; a member of the registry makes one from a configuration.

===========  ==================================  =============================================
kind         its own verbs                       used by the strategies
===========  ==================================  =============================================
any          ``start``, ``build``                ``train``
continuous   ``supernet``, ``derive``            ``supernet``, ``bilevel``
sampled      ``sample``, ``mutate``,             ``random``, ``evolution``
             ``crossover``, ``seeds``
===========  ==================================  =============================================

A space is a class that names one of these protocols as its base. It then has the verbs that nobody has to write:
they say nothing, unless a space has something to say.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from eclose.backbones import default_backbone
from eclose.config import Config
from eclose.errors import Unsuited
from eclose.registry import Registry
from eclose.signature import Signature
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype

spaces = Registry("space")


def space_class(name: str) -> "type[Space]":
    """The class of a space, for what is known before one is made."""
    return cast("type[Space]", spaces[name].make)


def make_space(config: Config) -> "Space":
    """The space of a configuration."""
    space: Space = spaces[config.space.name].make(config, **config.space.options)
    return space


def space_of(genotype: Genotype, config: Config) -> "Space":
    """The space that can build ``genotype``: that of the run, or another one for a baseline."""
    if genotype.space == config.space.name:
        return make_space(config)
    space: Space = spaces[genotype.space].make(config)
    return space


def made_of(networks: Sequence[Genotype], make: Callable[[Genotype], Genotype], number: int) -> list[Genotype]:
    """What ``make`` gives for the first networks that suit it; why the last one does not, where none does."""
    made: list[Genotype] = []
    reason: Unsuited | None = None
    for network in networks:
        if len(made) < number:
            try:
                made.append(make(network))
            except Unsuited as error:
                reason = error
    if reason is not None and not made:
        raise reason
    return made


class Space(Protocol):
    """A set of networks."""

    name: str
    strategy: str  # the strategy a user gets who names none
    strategy_options: Mapping[str, Any] = {}  # of that strategy, where its own defaults do not fit
    takes_backbone: bool = True  # False: it makes whole networks of its own
    backbone: str = ""  # the network it begins with if nobody says; empty: the usual one for the data
    sizes_of_a_retraining: tuple[str, ...] = ()  # options by which what was found may be made larger then
    measured_options: tuple[str, ...] = ()  # that a run writes down for itself, and no user sets
    of_supernets: tuple[str, ...] = ()  # options that only strategies which train supernets read
    # Options that follow from the minutes of a run unless its user sets them, from small to large, by what they are the
    # sizes of: "search" (what is searched) and "final" (what is trained in the end).
    sizes_in_time: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    turn: int = 1  # in which its networks are tried by a portfolio; a short one ends before the later turns

    @classmethod
    def usual_backbone(cls, signature: Signature) -> str:
        """The name of the network that it begins with, for data of this kind, if nobody says."""
        return cls.backbone or default_backbone(signature)

    def start(self, signature: Signature) -> Genotype:
        """The network a search begins with."""

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of a genotype, newly initialised; from the signature alone, so that loading needs no data."""

    def carry_over(self, genotype: Genotype, before: Signature, signature: Signature) -> Genotype:
        """A network that was found on other data, for this one; a ``ConfigError`` says what stands in its way."""
        return genotype

    def effective(self, signature: Signature) -> dict[str, Any]:
        """Options that are left to follow from the input, as they are used."""
        return {}

    def notices(self, signature: Signature) -> list[str]:
        """What a user should know before a search, line by line."""
        return []

    def remark(self, genotype: Genotype) -> str:
        """What a user should know of a network that a search has found; mostly nothing."""
        return ""

    def text(self, genotype: Genotype) -> str:
        """A genotype as people read it; empty where they cannot."""
        return ""

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """Networks for a portfolio to try. ``known``: plain ones that it has tried, the best first; at first none.

        ``Unsuited``: why it can make nothing of the data.
        """
        return []

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """What was found: sentences, tables, drawings."""
        return []


@runtime_checkable
class ContinuousSpace(Space, Protocol):
    """A set of networks between which a training moves by gradients."""

    trained_anew: bool = False  # True: what it derives is another network, whose weights a final training finds
    offline: bool = False  # True: what it finds is judged with new weights, too, where nobody says otherwise

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of a genotype with its architecture free to move; it says which parameters those are."""

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, nn.Module | None]:
        """What a trained supernet has found, and a network whose weights fit what ``build`` makes of it.

        It may be the supernet itself, or a smaller one. None: it is to be trained anew.
        """


@runtime_checkable
class SampledSpace(Space, Protocol):
    """A set of networks that are drawn and varied, each trained on its own."""

    learns: bool = False  # whether its probabilities can follow networks that turned out well

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

    def learned(self, genotypes: Sequence[Genotype], signature: Signature, strength: float) -> "SampledSpace":
        """The same networks, those like ``genotypes`` likelier than before; ``strength`` from 0 (as before) to 1."""
        return self
