"""Blocks against equations (2) to (5), and what is chosen against what was searched."""

import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from eclose.spaces.nos.block import Block, BlockChoice, DropPath, calibrated
from eclose.spaces.nos.mixed_block import MixedBlock, MixedTier, Shares, shuffled
from eclose.spaces.nos.operations import FEATURES, OPERATIONS, Site
from eclose.spaces.nos.supernet import Architecture, Choices
from eclose.train.parallel import SharedBatchNorm, World, share_batch_norm
from tests.spaces.nos.slow_block import applied, slow_tier

NAMES = tuple(OPERATIONS)
CASES = (((8, 6), (1, 1)), ((7, 6), (2, 1)), ((9,), (2,)), ((3, 4, 5), (1, 2, 2)))


def sites_of(sizes: tuple[int, ...], stride: tuple[int, ...], channels: int = 4) -> tuple[list[Site], Site]:
    """Of a block that reads two inputs of a reduction cell and one node of the cell."""
    outer = Site(channels, sizes, stride, channels)
    inner = Site(channels, outer.after, (1,) * len(sizes), channels)
    return [outer, outer, inner], inner


def nodes_of(sites: Sequence[Site]) -> list[Tensor]:
    return [torch.randn(2, site.channels, *site.sizes, dtype=torch.float64) for site in sites]


def moved(module: nn.Module) -> nn.Module:
    """Away from initialisation, also in its running statistics."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            tensor.data.copy_(tensor + 0.3 * torch.rand_like(tensor))
    return module.double()


@pytest.mark.parametrize(("sizes", "stride"), CASES)
@pytest.mark.parametrize("training", [True, False])
def test_a_block_is_equations_2_to_5(sizes: tuple[int, ...], stride: tuple[int, ...], training: bool) -> None:
    torch.manual_seed(0)
    sites, within = sites_of(sizes, stride)
    block = moved(MixedBlock(sites, within, NAMES, 1, 2)).train(training)
    nodes = nodes_of(sites)
    first = torch.randn(3, 11, dtype=torch.float64).softmax(1).requires_grad_()
    second = torch.randn(1, 11, dtype=torch.float64).softmax(1).requires_grad_()
    ours = block(nodes, Shares(first, first.new_ones(3), second))
    surrogate = slow_tier(nodes, block.first.edges, NAMES, first, False)
    theirs = slow_tier([surrogate], block.second.edges, NAMES, second, True)
    torch.testing.assert_close(ours, theirs)
    assert ours.shape == (2, 4, *within.sizes)
    along = torch.randn_like(ours)
    wanted = [first, second, *block.parameters()]
    for one, other in zip(
        torch.autograd.grad(ours, wanted, along), torch.autograd.grad(theirs, wanted, along), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_kinds_of_attention_and_sizes_of_kernels_add_up() -> None:
    torch.manual_seed(0)
    features = torch.randn(2, 3, 5, 4)
    maps, gains = [torch.randn(2, 1, 5, 4) for _ in range(2)], [torch.randn(2, 3, 1, 1) for _ in range(2)]
    kernels = [torch.randn(2, 3, taps, taps) for taps in (3, 5, 3)]
    for attentions in ([], maps[:1], gains, maps + gains):
        for own in ([], kernels[:1], kernels):
            wanted = features + sum((features * each for each in attentions), torch.zeros(()))
            wanted = wanted + sum((applied(features, each) for each in own), torch.zeros(()))
            torch.testing.assert_close(calibrated(features, attentions, own), wanted, rtol=1e-4, atol=1e-4)


CHOICES = (
    BlockChoice(((0, "sep_conv_3"), (2, "spatial_attention")), "dynamic_conv_5"),
    BlockChoice(((0, "channel_attention"), (1, "skip")), "dil_conv_5"),
    BlockChoice(((1, "dynamic_conv_3"), (2, "max_pool_3")), "channel_attention"),
    BlockChoice(((0, "avg_pool_3"), (1, "sep_conv_5")), "skip"),
)


def load(block: Block, mixed: MixedBlock, choice: BlockChoice) -> None:
    """Weights of the operations that were chosen; a norm without parameters is one that scales by 1."""
    for tier, searched, chosen in (
        (block.first, mixed.first, choice.first),
        (block.second, mixed.second, ((0, choice.second),)),
    ):
        for operation, (source, name) in zip(tier.operations, chosen, strict=True):
            state = searched.edges[source][NAMES.index(name)].state_dict()
            missing, unexpected = operation.load_state_dict(state, strict=False)
            assert not unexpected
            for path in missing:
                assert path.endswith(("weight", "bias"))


def one_hot(rows: int, entries: dict[int, str]) -> Tensor:
    weights = torch.zeros(rows, len(NAMES), dtype=torch.float64)
    for row, name in entries.items():
        weights[row, NAMES.index(name)] = 1
    return weights


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("training", [True, False])
def test_what_was_chosen_is_what_was_searched_with_one_operation_left(choice: BlockChoice, training: bool) -> None:
    torch.manual_seed(0)
    sites, within = sites_of((8, 7), (2, 2))
    mixed = moved(MixedBlock(sites, within, NAMES, 1, 2)).train(training)
    block = Block(sites, within, choice, DropPath(0.0)).double().train(training)
    load(block, mixed, choice)
    nodes = nodes_of(sites)
    first, second = one_hot(3, dict(choice.first)), one_hot(1, {0: str(choice.second)})
    torch.testing.assert_close(block(nodes), mixed(nodes, Shares(first, first.new_ones(3), second)))


def test_a_second_tier_without_features_calibrates_what_it_reads() -> None:
    site = Site(4, (6,), (1,), 4)
    block = Block([site], site, BlockChoice(((0, "skip"),), "channel_attention"), DropPath(0.0))
    x = torch.randn(2, 4, 6)
    torch.testing.assert_close(block([x]), x + x * block.second.operations[0](x))


def test_norms_that_processes_share_are_weighted_as_well() -> None:
    torch.manual_seed(0)
    sites, within = sites_of((8, 7), (2, 2))
    alone = moved(MixedBlock(sites, within, NAMES, 1, 2)).eval()
    shared = share_batch_norm(copy.deepcopy(alone), World(0, 2))
    assert any(isinstance(module, SharedBatchNorm) for module in shared.modules())
    nodes, first, second = nodes_of(sites), torch.rand(3, 11).double(), torch.rand(1, 11).double()
    shares = Shares(first, first.new_ones(3), second)
    torch.testing.assert_close(shared(nodes, shares), alone(nodes, shares))


def test_plain_darts_has_one_tier() -> None:
    sites, within = sites_of((8, 8), (1, 1))
    block = MixedBlock(sites, within, FEATURES, 1, 1).double()
    nodes, weights = nodes_of(sites), torch.rand(3, 7, dtype=torch.float64)
    theirs = slow_tier(nodes, block.first.edges, FEATURES, weights, False)
    torch.testing.assert_close(block(nodes, Shares(weights, weights.new_ones(3), None)), theirs)


@pytest.mark.parametrize("tiers", [1, 2])
def test_none_takes_its_part_of_the_softmax(tiers: int) -> None:
    """Written out as in DARTS: one more operation on every edge, which gives zeros."""
    torch.manual_seed(0)
    names = FEATURES if tiers == 1 else NAMES
    architecture = Architecture(Choices(names, blocks=2, tiers=tiers, none=True), 1).double()
    with torch.no_grad():
        architecture.operations.normal_()
    sites, within = sites_of((8, 7), (2, 2))
    block = moved(MixedBlock(sites, within, names, 1, tiers)).eval()
    nodes, own = nodes_of(sites), architecture()[1]
    rows = architecture.operations.softmax(1)[[2, 3, 4, *([6] if tiers == 2 else [])]]
    assert rows.shape[1] == len(names) + 1
    theirs = slow_tier(nodes, block.first.edges, names, rows[:3, :-1], False)
    theirs = theirs + sum(0 * weight for weight in rows[:3, -1])
    if tiers == 2:
        theirs = slow_tier([theirs], block.second.edges, names, rows[3:, :-1], True) + 0 * rows[3, -1]
    ours = block(nodes, own)
    torch.testing.assert_close(ours, theirs)
    along = torch.randn_like(ours)
    slopes = [torch.autograd.grad(each, architecture.operations, along)[0] for each in (ours, theirs)]
    torch.testing.assert_close(*slopes)
    assert slopes[0][2:5, -1].abs().min() > 0, "by the softmax"


def test_an_edge_of_nothing_but_none_is_zero() -> None:
    architecture = Architecture(Choices(FEATURES, blocks=1, tiers=1, none=True), 1)
    with torch.no_grad():
        architecture.operations[:, -1] = 200.0
    site = Site(4, (6, 6), (1, 1), 4)
    for partial in (1, 2):
        block = MixedBlock([site, site], site, FEATURES, partial, 1)
        y = block([torch.randn(2, 4, 6, 6) for _ in range(2)], architecture()[0])
        assert [bool(channel.any()) for channel in y[0]] == ([False] * 4 if partial == 1 else [False, True] * 2)


def test_partial_channels_pass_by() -> None:
    """Without weight on any operation, what is left are the channels that none has seen, in another order."""
    torch.manual_seed(0)
    site = Site(8, (6, 6), (1, 1), 8)
    tier = MixedTier([site, site], NAMES, partial=4, surrogate=False)
    assert tier.edges[0][0][1].weight.shape[0] == 2, "operations see a quarter of the channels"
    nodes = [torch.randn(2, 8, 6, 6) for _ in range(2)]
    shares = torch.tensor([0.25, 0.75])
    y = tier(nodes, torch.zeros(2, 11), shares)
    rest = 0.25 * nodes[0][:, 2:] + 0.75 * nodes[1][:, 2:]
    torch.testing.assert_close(y, shuffled(torch.cat([torch.zeros(2, 2, 6, 6), rest], 1), 4))
    assert [bool(channel.any()) for channel in y[0]] == [False, True, True, True] * 2, "the next ones see others"


def test_partial_channels_are_calibrated_all() -> None:
    torch.manual_seed(0)
    site = Site(8, (6,), (2,), 8)
    tier = MixedTier([site], NAMES, partial=2, surrogate=False)
    weights = torch.zeros(1, 11)
    weights[0, NAMES.index("channel_attention")] = 1.0
    node = torch.randn(2, 8, 6)
    plain, factors = (
        tier([node], torch.zeros(1, 11), torch.ones(1)),
        tier.edges[0][NAMES.index("channel_attention")](node[:, :4]),
    )
    assert plain.shape == (2, 8, 3)
    torch.testing.assert_close(tier([node], weights, torch.ones(1)), plain * (1 + factors))
