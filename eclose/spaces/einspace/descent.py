"""Where a child comes from: the network that its line began with, how much of that is left, and the last change."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Op, Tree
from eclose.spaces.einspace.normal_form import Chain, chain
from eclose.spaces.einspace.notation import op_text
from eclose.spaces.einspace.seeds import SEEDS


@dataclass(frozen=True)
class Descent:
    """Of a network whose line began with ``root``, a seed or one that was drawn.

    ``kept`` are ranges of the network's own operations, as :func:`operations` lists them, that the seed had, too, and
    ``of`` is how many the seed has; a network that was drawn is not compared.
    """

    root: str
    generation: int  # 1: a child
    of: int = 0
    kept: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_child(cls, child: Tree, root: str, generation: int, signature: Signature) -> "Descent":
        """Of a network of which the root is known by name."""
        if root not in SEEDS:
            return cls(root, generation)
        seed, own = operations(chain(SEEDS[root](signature))), operations(chain(child))
        blocks = SequenceMatcher(None, seed, own, autojunk=False).get_matching_blocks()
        kept = tuple((block.b, block.b + block.size) for block in blocks if block.size)
        return cls(root, generation, len(seed), kept)

    @property
    def kin(self) -> str:
        """``child of resnet18``."""
        return f"{'child' if self.generation == 1 else 'descendant'} of {self.root}"

    @property
    def shared(self) -> int:
        """How many operations of the seed are left."""
        return sum(stop - start for start, stop in self.kept)

    def as_choice(self) -> dict[str, Any]:
        """Plain data for a genotype."""
        return {
            "root": self.root,
            "generation": self.generation,
            "of": self.of,
            "kept": [list(two) for two in self.kept],
        }

    @classmethod
    def of_choice(cls, data: object) -> "Descent | None":
        """Inverse of :meth:`as_choice`; None for what is none, such as a genotype of an older run."""
        match data:
            case {"root": str(root), "generation": int(generation), "of": int(of), "kept": list(kept)}:
                ranges = [two for two in kept if isinstance(two, list) and [type(end) for end in two] == [int, int]]
                return cls(root, generation, of, tuple((two[0], two[1]) for two in ranges))
        return None


def operations(links: Chain) -> list[str]:
    """All operations of a network in the order of computation, splits and merges among them."""
    found: list[str] = []
    for link in links:
        if isinstance(link, Op):
            found.append(op_text(link))
        else:
            found.append(op_text(link.split))
            for branch in link.branches:
                found += operations(branch)
            found.append(op_text(link.merge))
    return found
