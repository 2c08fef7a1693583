"""The relaxed discrete space: sums of the operations of DARTS in the places of a backbone's layers (XD paper)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from eclose.config import Config
from eclose.signature import Signature
from eclose.spaces.architecture import check_fit, freeze_architecture, saved_architecture, set_architecture
from eclose.spaces.backbone import backbone_genotype, plain_network
from eclose.spaces.causality import Causal
from eclose.spaces.discrete_explanation import explain_mixtures
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.relaxing.mix import mix
from eclose.spaces.space import ContinuousSpace, made_of, spaces
from eclose.spaces.trace import example_of


@spaces.register("discrete")
class DiscreteSpace(ContinuousSpace):
    """Every layer of the backbone becomes a weighted sum of eight operations: the baseline of XD searches."""

    name = "discrete"
    strategy = "supernet"
    turn = 2

    def __init__(
        self,
        config: Config,
        *,
        perturb: float = 0.1,
        kinds: tuple[str, ...] = ("conv", "pool"),
        select: str = "",
        causal: Causal = "auto",
    ) -> None:
        self.section, self.causal = config.backbone, causal
        self.choices: dict[str, Any] = {"perturb": perturb, "kinds": list(kinds), "select": select}

    def start(self, signature: Signature) -> Genotype:
        """The backbone: its own layers have most of the weight."""
        return self._from(backbone_genotype(self.section.name, self.section.options, signature), signature)

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """The best plain network whose layers can be mixed."""
        return made_of(known, lambda network: self._from(network, signature), 1)

    def _from(self, backbone: Genotype, signature: Signature) -> Genotype:
        if self.causal is not False:
            with torch.random.fork_rng([]):
                network = plain_network(backbone, signature)
            mix(network, example_of(signature), causal=self.causal, **self.choices)
        words = f"{backbone.description or backbone.choices['backbone']} with mixed operations"
        return Genotype(self.name, {**backbone.choices, "mixture": self.choices}, description=words)

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The backbone with mixtures for layers, their weights free to move."""
        network = plain_network(genotype, signature)
        mixed = mix(network, example_of(signature), causal=False, **genotype.choices["mixture"])
        set_architecture(mixed, genotype.tensors)
        return mixed

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network with the mixtures of the genotype, which stay as they are."""
        mixed = self.supernet(genotype, signature)
        freeze_architecture(mixed)
        return mixed

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, nn.Module]:
        """The mixtures of a trained supernet; nothing is rounded, as in the paper."""
        return replace(genotype, tensors=saved_architecture(network)), network

    def carry_over(self, genotype: Genotype, before: Signature, signature: Signature) -> Genotype:
        """The sums as they are: they know of no size."""
        if genotype.tensors:
            with torch.random.fork_rng([]):
                check_fit(self.supernet(replace(genotype, tensors={}), signature), genotype.tensors)
        return genotype

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """Which operations have the weight."""
        return explain_mixtures(network, genotype.made_of)
