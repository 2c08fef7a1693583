"""The space ``einspace``: networks that the grammar derives, as genotypes."""

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import nn

from eclose.backbones import strongest
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces.einspace.descent import Descent
from eclose.spaces.einspace.explanation import explain, outline
from eclose.spaces.einspace.grammar import Tree, count
from eclose.spaces.einspace.network.builder import build
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.notation import from_json, text, to_json
from eclose.spaces.einspace.sampling.learning import learned
from eclose.spaces.einspace.sampling.sampler import sample
from eclose.spaces.einspace.sampling.settings import Settings
from eclose.spaces.einspace.seeds import FITTED, PAPER, SEEDS
from eclose.spaces.einspace.survey import cost_of
from eclose.spaces.einspace.terminals.state import input_state
from eclose.spaces.einspace.variation import NoChild, crossover, mutate
from eclose.spaces.einspace.wording import change
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.operation import Cost
from eclose.spaces.space import SampledSpace, spaces

_TRIES = 100
_CONVOLUTIONAL = ("resnet", "inception")  # of the fitted seeds; the others answer patch by patch
ROOM = 3.0  # limits are so many times what those need
_OFFERED = 0  # what the child is drawn with that a portfolio is offered


@spaces.register("einspace")
class EinspaceSpace(SampledSpace):
    """Whole networks from a grammar of fundamental operations. --trials: networks tried, each for --epochs."""

    name = "einspace"
    strategy = "evolution"
    takes_backbone = False
    learns = True

    def __init__(
        self,
        config: Config,
        *,
        nodes: int = 300,
        parameters: float = 0.0,
        flops: float = 0.0,
        activations: float = 0.0,
        stop: float = 0.37,
        seeds: tuple[str, ...] = (),
        extras: tuple[str, ...] = (),
        paper: bool = False,
    ) -> None:
        limits = Settings.paper() if paper else Settings(stop, nodes, parameters, flops, activations)
        self.settings = replace(limits, extras=tuple(extras))
        for name in seeds:
            if name not in SEEDS:
                raise ConfigError(f"space.seeds: unknown seed '{name}'; {nearest(name, SEEDS)}")
        self.names = tuple(seeds)
        self.paper = paper

    def start(self, signature: Signature) -> Genotype:
        """The first seed."""
        return _seed((*self._names(signature), *FITTED)[0], signature)

    def seeds(self, signature: Signature) -> list[Genotype]:
        """The known networks that a search may begin with."""
        return [_seed(name, signature) for name in self._names(signature)]

    def _names(self, signature: Signature) -> tuple[str, ...]:
        """The seeds that were asked for; else the paper's, or those fitted to the input that are within the limits."""
        if self.names or self.paper:
            return self.names or tuple(PAPER)
        limits = self.limits(signature)
        fitted = FITTED if signature.pooled else _CONVOLUTIONAL
        return tuple(name for name in fitted if _within(SEEDS[name](signature), signature, limits))

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """A fitted network that is not among the plain ones, and a child of that which is most like the best of them.

        The child is no heavier than its parent.
        """
        if not known:
            return []
        plain = [genotype.choices.get("backbone") for genotype in known]
        seeds = {name: _seed(name, signature) for name in self._names(signature)}
        others = [genotype for name, genotype in seeds.items() if name not in (*plain, *strongest(signature))]
        parents = [seeds[name] for name in (*plain, *seeds) if name in seeds][:1]
        generator = torch.Generator().manual_seed(_OFFERED)
        lean = replace(self.settings, parameters=1.0, flops=1.0, activations=1.0)
        children = [self._mutated(parent, signature, generator, lean) for parent in parents]
        return [*others[:1], *(child for child in children if child)]

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of a derivation, with its head."""
        return build(_tree(genotype), signature)

    def limits(self, signature: Signature) -> Settings:
        """How networks are drawn; what is left at 0 follows from what networks fitted to the input need."""
        usual, given = _usual(signature), self.settings
        return replace(
            given,
            parameters=given.parameters or ROOM * usual.parameters,
            flops=given.flops or ROOM * usual.flops,
            activations=given.activations or ROOM * usual.activations,
        )

    def effective(self, signature: Signature) -> dict[str, Any]:
        """Options that follow from others, as they are used."""
        limits = self.limits(signature)
        costs = {name: getattr(limits, name) for name in ("parameters", "flops", "activations")}
        return {**costs, "seeds": self._names(signature)}

    def sample(self, signature: Signature, generator: torch.Generator) -> Genotype:
        """A network drawn from the grammar, within the limits."""
        rng, limits = _random(generator), self.limits(signature)
        tree = self._first_trainable(signature, lambda: sample(signature, rng, limits))
        if tree is None:
            raise ConfigError(
                f"none of {_TRIES} networks drawn within the limits has a parameter: "
                "raise space.parameters, space.flops, space.activations or space.nodes"
            )
        return _genotype(tree, description=f"drawn: {outline(tree)}")

    def mutate(self, genotype: Genotype, signature: Signature, generator: torch.Generator) -> Genotype | None:
        """A child with one subtree drawn anew; None where none was found."""
        return self._mutated(genotype, signature, generator, self.limits(signature))

    def _mutated(
        self, genotype: Genotype, signature: Signature, generator: torch.Generator, limits: Settings
    ) -> Genotype | None:
        tree, rng = _tree(genotype), _random(generator)
        child = self._first_trainable(signature, lambda: mutate(tree, signature, rng, limits))
        return child and _child(child, [genotype], signature)

    def crossover(
        self, first: Genotype, second: Genotype, signature: Signature, generator: torch.Generator
    ) -> Genotype | None:
        """``first`` with a subtree of ``second``; None where none fits."""
        trees, rng, limits = (_tree(first), _tree(second)), _random(generator), self.limits(signature)
        child = self._first_trainable(signature, lambda: crossover(*trees, signature, rng, limits))
        return child and _child(child, [first, second], signature)

    def _first_trainable(self, signature: Signature, draw: Callable[[], Tree]) -> Tree | None:
        """What ``draw`` gives; but a network without parameters, where the head alone learns, is not worth a trial."""
        try:
            drawn = (draw() for _ in range(_TRIES))
            return next((tree for tree in drawn if self.paper or cost_of(tree, signature).parameters), None)
        except NoChild:
            return None

    def learned(self, genotypes: Sequence[Genotype], signature: Signature, strength: float) -> "EinspaceSpace":
        """The space with probabilities moved towards those of ``genotypes``; 0: not at all, 1: as far as they tell."""
        space = copy.copy(self)
        space.settings = learned(map(_tree, genotypes), input_state(signature), self.limits(signature), strength)
        return space

    def text(self, genotype: Genotype) -> str:
        """The derivation as people read it."""
        return text(_tree(genotype))

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """What was found: its steps, how deep it is, what it shares with the network it descends from."""
        return explain(_tree(genotype), genotype, network)


@cache
def _usual(signature: Signature) -> Cost:
    """The most that a convolutional network fitted to the input needs."""
    costs = [cost_of(SEEDS[name](signature), signature) for name in _CONVOLUTIONAL]
    return Cost(*(max(values) for values in zip(*costs, strict=True)))


def _within(tree: Tree, signature: Signature, limits: Settings) -> bool:
    cost = cost_of(tree, signature)
    most = (limits.parameters, limits.flops, limits.activations)
    return count(tree).nodes <= limits.nodes and all(a <= b for a, b in zip(cost, most, strict=True))


def _seed(name: str, signature: Signature) -> Genotype:
    return _genotype(SEEDS[name](signature), {"name": name})


def _genotype(tree: Tree, told: Mapping[str, object] | None = None, description: str = "") -> Genotype:
    choices = {"tree": to_json(tree), "digest": digest(tree), **(told or {})}
    return Genotype(EinspaceSpace.name, choices, description=description)


def _child(tree: Tree, parents: Sequence[Genotype], signature: Signature) -> Genotype:
    """A genotype that says where it comes from: in numbers among its choices, in words as its description."""
    (root, generation), *others = [_root(parent) for parent in parents]
    line = Descent.of_child(tree, root, generation + 1, signature)
    told: dict[str, object] = {"descent": line.as_choice()}
    if root in SEEDS:
        told["kin"] = line.kin
    kin = " and ".join([line.kin, *(name for name, _ in others if name != root)])
    return _genotype(tree, told, f"{kin}: {change(_tree(parents[0]), tree)}")


def _root(genotype: Genotype) -> tuple[str, int]:
    """What the line of a network began with, and how many generations ago."""
    line = Descent.of_choice(genotype.choices.get("descent"))
    if line:
        return line.root, line.generation
    return str(genotype.choices.get("name") or f"{genotype.origin or 'network'} {genotype.hash[:4]}"), 0


def _tree(genotype: Genotype) -> Tree:
    return from_json(genotype.choices.get("tree"))


def _random(generator: torch.Generator) -> random.Random:
    return random.Random(int(torch.randint(2**62, (), generator=generator)))
