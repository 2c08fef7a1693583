"""Which operations stay of a relaxed block, and that ``none`` never does."""

from itertools import combinations, product

import torch

from eclose.spaces.nos.operations import FEATURES, OPERATIONS
from eclose.spaces.nos.supernet import Architecture, Choices, strongest_block

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


def test_what_stays_beside_none_is_what_darts_keeps() -> None:
    """Of the softmax with ``none``: the two edges whose strongest other operation is strongest, and that operation."""
    torch.manual_seed(0)
    architecture = Architecture(Choices(FEATURES, blocks=3, tiers=1, none=True), 1)
    for strength in (0.0, 2.0, 6.0):
        with torch.no_grad():
            architecture.operations.normal_()
            architecture.operations[:, -1] += strength * torch.rand(9)
        rows = architecture.operations.detach().softmax(1).split([2, 3, 4])
        assert strength < 6 or any(int(row.argmax()) == len(FEATURES) for block in rows for row in block)
        for block, own in zip(rows, architecture.derived(), strict=True):
            edges = sorted(range(len(block)), key=lambda edge: -float(block[edge, :-1].max()))[:2]
            wanted = {(edge, FEATURES[int(block[edge, :-1].argmax())]) for edge in edges}
            assert set(own.first) == wanted


def test_a_strong_none_costs_its_edge_the_place() -> None:
    architecture = Architecture(Choices(FEATURES, blocks=2, tiers=1, none=True), 1)
    with torch.no_grad():
        architecture.operations.zero_()
        architecture.operations[2:, 0] = torch.tensor([3.0, 2.0, 1.0])
        architecture.operations[2, -1] = 4.0
    assert architecture.derived()[1].first == ((1, FEATURES[0]), (2, FEATURES[0]))
    assert all(sum(row) < 0.99 for row in architecture.rounded())
