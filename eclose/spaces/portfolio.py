"""The space of everything: plain networks, and whatever the other spaces offer for data of this kind."""

from collections.abc import Callable, Sequence

from torch import nn

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces.backbone import BackboneSpace
from eclose.spaces.genotype import Genotype
from eclose.spaces.space import Space, spaces


@spaces.register("portfolio")
class PortfolioSpace(Space):
    """Plain networks and what all other spaces offer, on one budget of --minutes: what a search is by default."""

    name = "portfolio"
    strategy = "portfolio"

    def __init__(self, config: Config, *, spaces: tuple[str, ...] = ()) -> None:
        known = [name for name in _others() if name != BackboneSpace.name]
        for name in spaces:
            if name not in known:
                raise ConfigError(f"space.spaces: unknown space '{name}'; {nearest(name, known)}")
        self.plain = BackboneSpace(config)
        self.others: dict[str, Space] = {name: _others()[name](config) for name in spaces or known}
        self._offered: dict[tuple[Signature, tuple[str, ...]], list[Genotype]] = {}

    def start(self, signature: Signature) -> Genotype:
        """The first plain network."""
        return self.plain.start(signature)

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of another space."""
        return self.space_of(genotype).build(genotype, signature)

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """Plain networks at first; then, once these are known, what the others make of the best of them."""
        key = (signature, tuple(genotype.hash for genotype in known))
        if key not in self._offered:  # some relax networks, which takes its time
            offering = self.others.values() if known else [self.plain]
            self._offered[key] = [genotype for space in offering for genotype in _offers(space, signature, known)]
        return self._offered[key]

    def space_of(self, genotype: Genotype) -> Space:
        """The space that a network comes from."""
        return self.plain if genotype.space == self.plain.name else self.others[genotype.space]


def _others() -> dict[str, Callable[[Config], Space]]:
    return {name: member.make for name, member in spaces.items() if name != PortfolioSpace.name}


def _offers(space: Space, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
    """What a space offers; nothing where it can make nothing of the data, as of single numbers."""
    try:
        return space.offers(signature, known)
    except ConfigError:
        return []
