"""A space of a few small networks, some of which cannot be built or trained; the strategies find it by its name."""

import torch
from torch import Tensor, nn

from eclose.config import Config
from eclose.signature import Signature
from eclose.spaces import Genotype, SampledSpace, spaces

UNBUILDABLE, DIVERGING, TOO_LARGE = 3, 5, 7  # remainders of the width by 10


@spaces.register("widths")
class Widths(SampledSpace):
    """Networks with one hidden layer."""

    name = "widths"
    strategy = "random"
    takes_backbone = False

    def __init__(self, config: Config, *, widest: int = 30) -> None:
        self.widest = widest

    def start(self, signature: Signature) -> Genotype:
        return genotype(1)

    def seeds(self, signature: Signature) -> list[Genotype]:
        return [genotype(1), genotype(self.widest)]

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        width = genotype.choices["width"]
        if width % 10 == UNBUILDABLE:
            raise RuntimeError(f"no network is\n{width} wide")
        inputs = signature.channels * signature.sizes[0] * signature.sizes[1]
        layers = [nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, signature.outputs)]
        return nn.Sequential(*layers, Breaks(width % 10))

    def sample(self, signature: Signature, generator: torch.Generator) -> Genotype:
        return genotype(1 + int(torch.randint(self.widest, (), generator=generator)))

    def mutate(self, parent: Genotype, signature: Signature, generator: torch.Generator) -> Genotype | None:
        width = parent.choices["width"] + int(torch.randint(-3, 4, (), generator=generator))
        return genotype(width) if 1 <= width <= self.widest else None

    def crossover(
        self, first: Genotype, second: Genotype, signature: Signature, generator: torch.Generator
    ) -> Genotype | None:
        return genotype((first.choices["width"] + second.choices["width"]) // 2)


class Breaks(nn.Module):
    """Fails in training for some widths."""

    def __init__(self, kind: int) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.kind == TOO_LARGE:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate much")
        return x * (torch.inf if self.training and self.kind == DIVERGING else 1.0)


def genotype(width: int) -> Genotype:
    return Genotype("widths", {"width": width})
