"""The space of XD-operations: the operation on each edge of a backbone becomes searchable (XD paper)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.xd import XD, Gates
from eclose.ops.xd.axes.axis import LARGEST
from eclose.signature import Signature
from eclose.spaces.architecture import (
    check_fit,
    freeze_architecture,
    named_architecture,
    saved_architecture,
    set_architecture,
)
from eclose.spaces.backbone import backbone_genotype, plain_network
from eclose.spaces.causality import Causal
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.relaxing.relax import notices, relax, relax_as
from eclose.spaces.space import ContinuousSpace, made_of, spaces
from eclose.spaces.trace import example_of
from eclose.spaces.xd_explanation import explain_operations
from eclose.spaces.xd_penalties import check_penalties, penalise
from eclose.train.module_hooks import Verbs

_OFFERED = 2  # to a portfolio


@spaces.register("xd")
class XDSpace(ContinuousSpace):
    """Every convolution of the backbone becomes an XD-operation, started as that convolution."""

    name = "xd"
    strategy = "supernet"
    operations = "XD-operations"

    def __init__(
        self,
        config: Config,
        *,
        depth: tuple[int, ...] = (1, 1, 1),
        bias: bool = True,
        gates: Gates = True,
        largest: int = LARGEST,
        paper: bool = False,
        fewest: bool = False,
        kinds: tuple[str, ...] = ("conv", "fno"),
        max_kernel: int = 0,
        causal: Causal = "auto",
        select: str = "",
        distance_penalty: float = 0.0,
        permutation_penalty: float = 0.0,
    ) -> None:
        self.section = config.backbone
        self.penalties = {"distance_penalty": distance_penalty, "permutation_penalty": permutation_penalty}
        check_penalties(self.penalties)
        self.choices: dict[str, Any] = {
            "depth": list(depth),
            "bias": bias,
            "gates": gates,
            "largest": largest,
            "paper": paper,
            "fewest": fewest,
            "kinds": list(kinds),
            "max_kernel": max_kernel,
            "causal": causal,
            "select": select,
        }

    def start(self, signature: Signature) -> Genotype:
        """The backbone: every operation is still its convolution."""
        return self._from(backbone_genotype(self.section.name, self.section.options, signature), signature)

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """The best plain networks with their operations free to move."""
        return made_of(known, lambda network: self._from(network, signature), _OFFERED)

    def _from(self, backbone: Genotype, signature: Signature) -> Genotype:
        chosen = {**self.choices, "causal": self._causal(backbone, signature), "unitary": True}
        words = f"{backbone.description or backbone.choices['backbone']} with {self.operations}"
        return Genotype(self.name, {**backbone.choices, "relaxation": chosen}, description=words)

    def effective(self, signature: Signature) -> dict[str, bool]:
        """Whether operations are kept from seeing the future: those of a network that sees none, unless they may."""
        backbone = backbone_genotype(self.section.name, self.section.options, signature)
        return {"causal": bool(self._causal(backbone, signature))}

    def _causal(self, backbone: Genotype, signature: Signature) -> Causal:
        if self.choices["causal"] is False:
            return False
        relaxed = relax(_plain(backbone, signature), example_of(signature), tell=None, **_given(self.choices))
        return any(isinstance(module, XD) and module.causal for module in relaxed.modules())

    def notices(self, signature: Signature) -> list[str]:
        """What a user should know about the network before it is searched."""
        start = self.start(signature)
        causal = bool(start.choices["relaxation"]["causal"])
        return notices(_plain(start, signature), example_of(signature), causal=causal)

    def _relaxed(self, genotype: Genotype, signature: Signature) -> nn.Module:
        given = _given({**_EARLIER, **genotype.choices["relaxation"]})
        return relax_as(plain_network(genotype, signature), example_of(signature), **given)

    def supernet(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The relaxed backbone, its operations free to move."""
        relaxed = self._relaxed(genotype, _planned_for(genotype, signature))
        penalise(relaxed, self.penalties)  # they count from the start
        set_architecture(relaxed, genotype.tensors)
        return _placed(relaxed, genotype, signature)

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network with the operations of the genotype, which stay as they are."""
        relaxed = self._relaxed(genotype, _planned_for(genotype, signature))
        set_architecture(relaxed, genotype.tensors)
        freeze_architecture(relaxed)
        return _placed(relaxed, genotype, signature)

    def derive(self, genotype: Genotype, network: nn.Module) -> tuple[Genotype, nn.Module]:
        """The operations of a trained supernet."""
        return replace(genotype, tensors=saved_architecture(network)), network

    def carry_over(self, genotype: Genotype, before: Signature, signature: Signature) -> Genotype:
        """The operations as they are. What is smaller than it was for them is filled up with zeros.

        Gates of a layer with other channels are left at their start: they are no part of its operation.
        """
        if not genotype.tensors:
            return genotype
        largest = tuple(genotype.choices.get("padded_to", before.sizes))
        if (signature.axes, signature.tokens) != (len(largest), before.tokens):
            raise ConfigError(
                f"{self.operations} stay with the axes that they were found on, and with numbers or tokens: "
                "search on data of this kind"
            )
        if any(size > most for size, most in zip(signature.sizes, largest, strict=True)):
            raise ConfigError(
                f"{self.operations} do not grow, and were found on {' x '.join(map(str, largest))} positions: "
                "make the inputs smaller, or search on the larger data"
            )
        choices = {key: value for key, value in genotype.choices.items() if key != "padded_to"}
        if signature.sizes != largest:
            choices["padded_to"] = list(largest)
        carried = replace(genotype, choices=choices)
        with torch.random.fork_rng([]):
            network = self._relaxed(carried, _planned_for(carried, signature))
        if "padded_to" in choices and Verbs(network).fitted:
            raise ConfigError(
                f"a map of the whole input is fitted to data of its own size, and {self.operations} see "
                f"{' x '.join(map(str, largest))} positions: search on the smaller data"
            )
        gates = {name: values for name, values in named_architecture(network).items() if name.endswith(".C")}
        tensors = {
            name: gates[name].detach() if name in gates and gates[name].shape != tensor.shape else tensor
            for name, tensor in genotype.tensors.items()
        }
        check_fit(network, tensors)
        return replace(carried, tensors=tensors)

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """What became of the operations."""
        return explain_operations(network, name=genotype.made_of)


def _planned_for(genotype: Genotype, signature: Signature) -> Signature:
    """What its operations see: inputs of the sizes that they were found on."""
    return replace(signature, sizes=tuple(genotype.choices.get("padded_to", signature.sizes)))


def _placed(network: nn.Module, genotype: Genotype, signature: Signature) -> nn.Module:
    sizes = tuple(genotype.choices.get("padded_to", ()))
    return Padded(network, sizes, signature) if sizes else network


def _plain(genotype: Genotype, signature: Signature) -> nn.Module:
    with torch.random.fork_rng([]):
        return plain_network(genotype, signature)


def _given(choices: dict[str, Any]) -> dict[str, Any]:
    """Choices as they are handed to :func:`relax`."""
    unset = {name: None for name in ("select", "max_kernel") if not choices.get(name)}
    return {**choices, "depth": tuple(choices["depth"]), **unset}


_EARLIER = {"causal": False, "largest": 17, "unitary": False}
"""What genotypes of earlier versions do not say. Their tensors, and distances from their start, are of that scaling."""


class Padded(nn.Module):
    """``network`` on data that is smaller than what it was found on.

    Inputs get zeros behind the last position of every axis, so that they have ``sizes``. Answers at every position are
    cut to the size of the input.
    """

    def __init__(self, network: nn.Module, sizes: tuple[int, ...], signature: Signature) -> None:
        super().__init__()
        self.network = network
        self.missing = [n for size, small in zip(sizes, signature.sizes, strict=True) for n in (size - small, 0)][::-1]
        self.kept = None if signature.pooled else signature.sizes

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space), or (batch, length) tokens
        """As the network: one answer a sample, or one a position of ``x``."""
        y: Tensor = self.network(nn.functional.pad(x, self.missing))
        for axis, size in enumerate(self.kept or ()):
            y = torch.narrow(y, 2 + axis, 0, size)
        return y
