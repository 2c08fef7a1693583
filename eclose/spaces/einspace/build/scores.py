"""Where a chain holds attention: ``softmax(q k^T) v``, written as two forks that end in products."""

from typing import NamedTuple

from eclose.spaces.einspace.chain import Chain, Fork
from eclose.spaces.einspace.grammar import SOFTMAX, Op


class Scores(NamedTuple):
    """The first branch of attention, without its softmax."""

    before: Chain
    fork: Fork  # of queries and transposed keys

    @property
    def scaled(self) -> bool:
        """Whether products are divided by the root of their length."""
        return self.fork.merge.name == "scaled-matmul"


def scores(fork: Fork) -> Scores | None:
    """What is multiplied with the values if ``fork`` is attention."""
    if fork.merge.name != "matmul":
        return None
    match fork.branches[0]:
        case (*before, Fork(_, _, Op("matmul" | "scaled-matmul")) as inner, last) if last == SOFTMAX:
            return Scores(tuple(before), inner)
    return None
