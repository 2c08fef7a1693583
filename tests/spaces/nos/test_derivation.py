"""Which operations stay."""

from itertools import combinations, product

import torch

from eclose.spaces.nos.derivation import choices_of_a_cell, derived
from eclose.spaces.nos.operations import FEATURES, OPERATIONS

NAMES = tuple(OPERATIONS)


def test_as_many_choices_as_the_paper_counts() -> None:
    assert 1e14 < choices_of_a_cell(NAMES, 4, 2) == 180 * 11**12 < 1e15
    assert 1e9 < choices_of_a_cell(FEATURES, 4, 1) == 180 * 7**8 < 2e9


def test_the_strongest_pair_of_edges() -> None:
    weights = torch.full((3, 11), 0.01)
    weights[0, NAMES.index("skip")] = 0.5
    weights[1, NAMES.index("sep_conv_5")] = 0.4
    weights[2, NAMES.index("spatial_attention")] = 0.7
    second = torch.zeros(1, 11)
    second[0, NAMES.index("dynamic_conv_3")] = 1.0
    choice = derived(weights, second, NAMES)
    assert choice.first == ((0, "skip"), (2, "spatial_attention"))
    assert choice.second == "dynamic_conv_3"


def test_one_of_two_gives_features() -> None:
    weights = torch.full((2, 11), 0.01)
    weights[0, NAMES.index("channel_attention")] = 0.9
    weights[1, NAMES.index("dynamic_conv_5")] = 0.8
    weights[0, NAMES.index("sep_conv_3")] = 0.05
    weights[1, NAMES.index("max_pool_3")] = 0.1
    assert derived(weights, None, NAMES).first == ((0, "channel_attention"), (1, "max_pool_3"))


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
        assert derived(weights, None, NAMES).first == max(allowed, key=total)


def test_features_only() -> None:
    weights = torch.rand(5, 7)
    choice = derived(weights, None, FEATURES)
    rows = {source for source, _ in choice.first}
    assert rows == set(weights.amax(1).topk(2).indices.tolist())
    assert choice.second is None
