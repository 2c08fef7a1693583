"""Which operations stay of a relaxed block."""

from itertools import combinations, product

import torch

from eclose.spaces.nos.operations import FEATURES, OPERATIONS
from eclose.spaces.nos.supernet import strongest_block

NAMES = tuple(OPERATIONS)


def test_the_strongest_pair_of_edges() -> None:
    weights = torch.full((3, 11), 0.01)
    weights[0, NAMES.index("skip")] = 0.5
    weights[1, NAMES.index("sep_conv_5")] = 0.4
    weights[2, NAMES.index("spatial_attention")] = 0.7
    second = torch.zeros(1, 11)
    second[0, NAMES.index("dynamic_conv_3")] = 1.0
    choice = strongest_block(weights, second, NAMES)
    assert choice.first == ((0, "skip"), (2, "spatial_attention"))
    assert choice.second == "dynamic_conv_3"


def test_one_of_two_gives_features() -> None:
    weights = torch.full((2, 11), 0.01)
    weights[0, NAMES.index("channel_attention")] = 0.9
    weights[1, NAMES.index("dynamic_conv_5")] = 0.8
    weights[0, NAMES.index("sep_conv_3")] = 0.05
    weights[1, NAMES.index("max_pool_3")] = 0.1
    assert strongest_block(weights, None, NAMES).first == ((0, "channel_attention"), (1, "max_pool_3"))


def test_against_all_choices_there_are() -> None:
    torch.manual_seed(0)
    for _ in range(20):
        weights = torch.rand(4, 11) ** 3

        def total(choice: tuple[tuple[int, str], ...], weights: torch.Tensor = weights) -> float:
            return sum(float(weights[source, NAMES.index(name)]) for source, name in choice)

        allowed = [
            ((one, a), (other, b))
            for one, other in combinations(range(4), 2)
            for a, b in product(NAMES, NAMES)
            if a in FEATURES or b in FEATURES
        ]
        assert strongest_block(weights, None, NAMES).first == max(allowed, key=total)


def test_features_only() -> None:
    weights = torch.rand(5, 7)
    choice = strongest_block(weights, None, FEATURES)
    rows = {source for source, _ in choice.first}
    assert rows == set(weights.amax(1).topk(2).indices.tolist())
    assert choice.second is None
