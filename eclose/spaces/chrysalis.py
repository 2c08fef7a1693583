"""The space of K-operations: what is searched for begins at random, or as a convolution (Chrysalis paper).

``Real(K1 diag(M w) K2 x)`` is an XD-operation without b and C, one for all channels of a layer. The paper's K1, M and
K2 are K, L and M there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.xd import XD, draw
from eclose.signature import Signature
from eclose.spaces.causality import Causal
from eclose.spaces.explanation import Section
from eclose.spaces.genotype import Genotype
from eclose.spaces.space import spaces
from eclose.spaces.xd import XDSpace
from eclose.spaces.xd_explanation import explain_operations
from eclose.train.seeds import generator_for

_DEPTH = 9  # of matrices from scratch, as in the paper
_BEGINNINGS = ("scratch", "warm")


@spaces.register("chrysalis")
class ChrysalisSpace(XDSpace):
    """Every convolution of the backbone becomes a K-operation, random at the start or the convolution itself."""

    name = "chrysalis"
    operations = "K-operations"

    def __init__(
        self,
        config: Config,
        *,
        begin: str = "scratch",
        depth: int = 0,
        max_kernel: int = 0,
        causal: Causal = "auto",
        select: str = "",
    ) -> None:
        if begin not in _BEGINNINGS:
            raise ConfigError(f"space.begin is '{begin}', but must be one of: {', '.join(_BEGINNINGS)}")
        if depth < 0:
            raise ConfigError(f"space.depth is {depth}, but must be at least 1, or 0 for that of the paper")
        depth = depth or (_DEPTH if begin == "scratch" else 1)
        super().__init__(
            config,
            depth=(depth,) * 3,
            bias=False,
            gates=False,
            kinds=("conv",),
            max_kernel=max_kernel,
            causal=causal,
            select=select,
        )
        self.begin, self.seed = begin, config.run.seed

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """None: the space runs if it is named."""
        return []

    def start(self, signature: Signature) -> Genotype:
        """The backbone with the operations that are its convolutions, or with those that the seed of the run draws."""
        warm = super().start(signature)
        return replace(warm, choices={**warm.choices, "drawn": self.seed}) if self.begin == "scratch" else warm

    def _relaxed(self, genotype: Genotype, signature: Signature) -> nn.Module:
        relaxed = super()._relaxed(genotype, signature)
        seed: Any = genotype.choices.get("drawn")
        if seed is not None:
            for path, module in relaxed.named_modules():
                if isinstance(module, XD):
                    draw(module.architecture, generator_for(seed, "operation", path))
        return relaxed

    def explain(self, genotype: Genotype, network: nn.Module) -> list[Section]:
        """What became of the operations."""
        return explain_operations(network, name=genotype.choices["backbone"], kind=self.operations)
