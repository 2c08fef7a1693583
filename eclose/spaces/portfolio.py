"""The space of everything: plain networks, and whatever the other spaces offer for data of this kind."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import nn

from eclose.config import Config
from eclose.errors import ConfigError, Unsuited
from eclose.registry import nearest
from eclose.signature import Signature
from eclose.spaces.backbone import BackboneSpace
from eclose.spaces.genotype import Genotype
from eclose.spaces.space import Space, spaces

_ALL = "all"


@spaces.register("portfolio")
class PortfolioSpace(Space):
    """Plain networks and what all other spaces offer, on one budget of --minutes: what a search is by default."""

    name = "portfolio"
    strategy = "portfolio"

    def __init__(self, config: Config, *, spaces: tuple[str, ...] = (_ALL,)) -> None:
        """``spaces``: those that take part."""
        spaces = () if tuple(spaces) == (_ALL,) else tuple(spaces)
        known = [name for name in _others() if name != BackboneSpace.name]
        for name in spaces:
            if name not in known:
                raise ConfigError(f"space.spaces: unknown space '{name}'; {nearest(name, known)}")
        self.plain = BackboneSpace(config)
        self.named = tuple(dict.fromkeys(spaces))
        self.others: dict[str, Space] = {name: _others()[name](config) for name in self.named or known}
        self._offered: dict[tuple[Signature, tuple[str, ...]], list[Genotype]] = {}

    def start(self, signature: Signature) -> Genotype:
        """The first plain network."""
        return self.plain.start(signature)

    def build(self, genotype: Genotype, signature: Signature) -> nn.Module:
        """The network of another space."""
        return self.space_of(genotype).build(genotype, signature)

    def effective(self, signature: Signature) -> dict[str, Any]:
        """Nothing; but spaces that were named are refused if none of them has a network for such data."""
        idle = self._idle(signature)
        if idle and len(idle) == len(self.named):
            raise ConfigError(f"space.spaces: {'; '.join(idle.values())}; leave it out, or name other spaces")
        return {}

    def notices(self, signature: Signature) -> list[str]:
        """Which of the spaces that were named have nothing for such data, and why."""
        return list(self._idle(signature).values())

    def _idle(self, signature: Signature) -> dict[str, str]:
        plain, told = self.plain.offers(signature, []), {}
        for name in self.named:
            offered, reason = _offers(self.others[name], signature, plain)
            if not offered:
                alone = f"it offers a portfolio nothing here; --space {name} searches it alone"
                told[name] = f"the space '{name}' has no network for this data ({reason or alone})"
        return told

    def offers(self, signature: Signature, known: Sequence[Genotype]) -> list[Genotype]:
        """Plain networks at first; then, once these are known, what the others make of the best of them.

        The first network of every space comes before the second of any, those of later turns last.
        """
        key = (signature, tuple(genotype.hash for genotype in known))
        if key not in self._offered:  # some relax networks, which takes its time
            offering = self.others.values() if known else [self.plain]
            offered = [
                (space.turn, place, made) for space in offering for place, made in _places(space, signature, known)
            ]
            offered.sort(key=lambda entry: entry[:2])
            self._offered[key] = [made for _, _, made in offered]
        return self._offered[key]

    def space_of(self, genotype: Genotype) -> Space:
        """The space that a network comes from."""
        return self.plain if genotype.space == self.plain.name else self.others[genotype.space]


def _others() -> dict[str, Callable[[Config], Space]]:
    return {name: member.make for name, member in spaces.items() if name != PortfolioSpace.name}


def _places(space: Space, signature: Signature, known: Sequence[Genotype]) -> Iterable[tuple[int, Genotype]]:
    offered, _ = _offers(space, signature, known)
    return enumerate(offered)


def _offers(space: Space, signature: Signature, known: Sequence[Genotype]) -> tuple[list[Genotype], str]:
    """What a space offers; nothing, and the reason, where it can make nothing of the data, as of single numbers."""
    try:
        return space.offers(signature, known), ""
    except Unsuited as error:
        return [], str(error)
