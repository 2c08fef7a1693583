"""The space of K-operations: what is searched for begins at random, or as a convolution (Chrysalis paper).

``Real(K1 diag(M w) K2 x)`` is an XD-operation without b and C, one for all channels of a layer. The paper's K1, M and
K2 are K, L and M there.
"""

import fnmatch
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

import torch
from torch import nn

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.xd import XD, random_architecture
from eclose.signature import Signature
from eclose.spaces.backbone import backbone_genotype
from eclose.spaces.causality import Causal
from eclose.spaces.chrysalis_explanation import explain_k_operations
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.space import spaces
from eclose.spaces.xd import XDSpace
from eclose.train.seeds import generator_for

_DEPTH = 9  # of matrices from scratch, as in the paper
_LEAST, _SMALL = 4, 1024  # points of an image along an axis, and of all, for which LeNet is the network
_BEGINNINGS = ("scratch", "warm")

Layers = dict[str, XD]
"""Operations of a network by their paths, in its order."""


@spaces.register("chrysalis")
class ChrysalisSpace(XDSpace):
    """Every convolution of the backbone becomes a K-operation, random at the start or the convolution itself."""

    name = "chrysalis"
    strategy_options = {"optimiser": "relative_sgd"}  # what was measured
    operations = "K-operations"
    offline = True
    turn = 2  # of most data the other spaces make more

    def __init__(
        self,
        config: Config,
        *,
        begin: str = "scratch",
        tied: tuple[str, ...] = (),
        depth: int = 0,
        max_kernel: int = 0,
        causal: Causal = "auto",
        select: str = "",
    ) -> None:
        begins = [each.strip() for each in begin.split(",")]
        for each in begins:
            if each not in _BEGINNINGS:
                allowed = f"{' or '.join(_BEGINNINGS)}, or one for every layer: warm,scratch"
                raise ConfigError(f"space.begin is '{begin}', but must be {allowed}")
        if depth < 0:
            raise ConfigError(f"space.depth is {depth}, but must be at least 1, or 0 for that of the paper")
        super().__init__(
            config,
            depth=(depth or 1,) * 3,
            bias=False,
            gates=False,
            kinds=("conv",),
            max_kernel=max_kernel,
            causal=causal,
            select=select,
        )
        self.begins, self.tied, self.depth, self.seed = begins, tied, depth or _DEPTH, config.run.seed

    @classmethod
    def usual_backbone(cls, signature: Signature) -> str:
        """LeNet for small images, as in the paper: K-operations take their time in larger networks.

        Elsewhere the usual one, if it has convolutions.
        """
        usual = super().usual_backbone(signature)
        return "lenet" if _is_small(signature) else "cnn" if usual == "fno" else usual

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """ButterfLeNet from scratch for small images, whose pixels may lie in any order; xd offers warm starts."""
        if not known or not _is_small(signature):
            return []
        lenet = self._from(backbone_genotype("lenet", {"pool": "average"}, signature), signature)
        return [self._drawn(lenet, ["scratch"])]

    def _drawn(self, warm: Genotype, begins: list[str]) -> Genotype:
        """With the operations that the seed of the run draws in place of convolutions, in those layers that say so."""
        if "scratch" not in begins:
            return warm
        choices = {"begin": begins, "drawn": self.seed, "drawn_depth": self.depth}
        return replace(warm, choices={**warm.choices, **choices})

    def start(self, signature: Signature) -> Genotype:
        """The backbone with its K-operations."""
        start = self._drawn(super().start(signature), self.begins)
        if self.tied:
            start = replace(start, choices={**start.choices, "tied": list(self.tied)})
        if self.tied or len(self.begins) > 1:
            with torch.random.fork_rng([]):
                self._relaxed(start, signature)  # refuses layers that are not there
        return start

    def _relaxed(self, genotype: Genotype, signature: Signature) -> nn.Module:
        relaxed, choices = super()._relaxed(genotype, signature), genotype.choices
        layers = {path: module for path, module in relaxed.named_modules() if isinstance(module, XD)}
        begins = dict(_begins(choices.get("begin", ["scratch" if "drawn" in choices else "warm"]), list(layers)))
        owners = _owners(choices.get("tied", ()), layers, begins)
        for path, layer in layers.items():
            if begins[path] == "scratch" and path not in owners:
                # Genotypes of earlier versions have the depth beside the rest of the relaxation.
                depth = choices.get("drawn_depth", choices["relaxation"]["depth"][0])
                layer.architecture = random_architecture(
                    layer.architecture, depth, generator_for(choices["drawn"], "operation", path)
                )
        for path, owner in owners.items():
            _share(layers, path, owner)
        return relaxed

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """What became of the operations, their filters, and how far K1 and K2 are from unitary."""
        return explain_k_operations(network, genotype.choices["backbone"], self.operations)


def _is_small(signature: Signature) -> bool:
    """Images that LeNet was made for, with one answer each."""
    fits = min(signature.sizes) >= _LEAST and math.prod(signature.sizes) <= _SMALL
    return signature.pooled and signature.axes > 1 and fits


def _begins(begin: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """How every layer begins, in the order of the network; the last one said holds for all that follow."""
    if len(begin) > len(paths):
        raise ConfigError(
            f"space.begin says how {len(begin)} layers begin, but {len(paths)} become K-operations: {', '.join(paths)}"
        )
    return zip(paths, chain(begin, repeat(begin[-1])), strict=False)


def _owners(tied: Sequence[str], layers: Layers, begins: dict[str, str]) -> dict[str, str]:
    """Of layers that share the operation of another one that other: the one with the largest transforms."""
    owners: dict[str, str] = {}
    taken: set[str] = set()
    for group in tied:
        patterns = [pattern.strip() for pattern in group.split(",")]
        members = [path for path in layers if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)]
        _check_tied(group, patterns, members, list(layers), taken, begins)
        taken.update(members)
        owner = max(members, key=lambda path: [axis.transform for axis in layers[path].axes])
        owners |= {path: owner for path in members if path != owner}
    return owners


def _check_tied(
    group: str, patterns: list[str], members: list[str], paths: list[str], taken: set[str], begins: dict[str, str]
) -> None:
    reason = ""
    if lost := [pattern for pattern in patterns if not fnmatch.filter(paths, pattern)]:
        reason = f"'{lost[0]}' is none of the layers that become K-operations: {', '.join(paths)}"
    elif len(members) < 2:
        reason = f"it is one layer; name two at least of: {', '.join(paths)}"
    elif again := [path for path in members if path in taken]:
        reason = f"'{again[0]}' is in another group already"
    elif len({begins[path] for path in members}) > 1:
        reason = "its layers begin differently; they have one operation, so give them one space.begin"
    if reason:
        raise ConfigError(f"space.tied has '{group}', but {reason}")


def _share(layers: Layers, path: str, owner: str) -> None:
    try:
        layers[path].share(layers[owner].architecture)
    except ValueError as error:
        raise ConfigError(f"space.tied: '{path}' cannot have the operation of '{owner}': {error}") from None
