"""Which operations stay (NOS paper, 3.3): two inputs of every block, and one operation of its second tier.

At least one of the two operations gives features: else there would be nothing to calibrate.
"""

from itertools import combinations
from math import comb, prod

from torch import Tensor

from eclose.spaces.nos.block import BlockChoice, Choice
from eclose.spaces.nos.operations import FEATURE, OPERATIONS

_INPUTS = 2

Weighed = tuple[float, Choice]


def derived(first: Tensor, second: Tensor | None, names: tuple[str, ...]) -> BlockChoice:
    """Of one block: the weights ``first (edges, operations)`` and ``second (1, operations)``.

    Of all pairs of edges that are allowed the one with the largest sum of weights; of equals the first.
    """
    edges = [
        [(float(weight), (source, name)) for weight, name in zip(row, names, strict=True)]
        for source, row in enumerate(first)
    ]
    pairs = [pair for two in combinations(edges, _INPUTS) for pair in _allowed(*two)]
    chosen = max(pairs, key=lambda pair: sum(weight for weight, _ in pair))
    then = None if second is None else names[int(second.argmax())]
    return BlockChoice(tuple(choice for _, choice in chosen), then)


def _allowed(one: list[Weighed], other: list[Weighed]) -> list[tuple[Weighed, Weighed]]:
    """The strongest operations of two edges; if neither gives features, those of one edge must."""
    strongest = max(one, key=_weight), max(other, key=_weight)
    if any(map(_is_feature, strongest)):
        return [strongest]
    features = (max(filter(_is_feature, each), key=_weight) for each in (one, other))
    left, right = features
    return [(left, strongest[1]), (strongest[0], right)]


def _weight(weighed: Weighed) -> float:
    return weighed[0]


def _is_feature(weighed: Weighed) -> bool:
    return OPERATIONS[weighed[1][1]].kind == FEATURE


def choices_of_a_cell(names: tuple[str, ...], blocks: int, tiers: int) -> int:
    """How many cells there are as the paper counts them: pairs of edges, and any operation in every place."""
    places = _INPUTS + (tiers - 1)
    return prod(comb(2 + block, _INPUTS) for block in range(blocks)) * len(names) ** (places * blocks)
