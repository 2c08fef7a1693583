"""Costs and masked networks of DNArch against slow transcriptions: appendix C in loops, masks that only multiply.

The paper trained with virtual masks: all channels, points and blocks are computed, then multiplied by masks.
"""

import math

import pytest
import torch
from torch.nn import functional as F

from eclose.backbones.ccnn import CCNN
from eclose.backbones.ccnn_block import BlockShape
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import spaces
from eclose.spaces.dnarch.budget import Budget
from eclose.spaces.dnarch.complexity import COUNTS, BlockSizes, complexity
from eclose.spaces.dnarch.network import MaskedCCNN, trimmed

BLOCKS = [(64.0, (5, 7, 3)), (16.0, (2, 9, 4)), (1.0, (1, 1, 1)), (9.0, (6, 6, 6))]  # points; channels in, mid, out


def cost_by_hand(blocks):
    """Appendix C, layer by layer. The Fourier convolution counts for every channel, since it is depthwise."""
    total = 0.0
    for points, (first, middle, last) in blocks:
        total += points * first  # batch norm
        total += first * points * math.log2(max(2, points))  # Fourier convolution
        total += points * first * middle  # pointwise linear
        total += 2 * points * middle  # GELU, dropout
        total += points * middle * last  # pointwise linear
        total += points * last  # GELU
    return total


def sizes_of(blocks, depth):
    points, widths = zip(*blocks, strict=True)
    return BlockSizes(torch.tensor(points), torch.tensor(widths).float(), torch.tensor(float(depth)))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_costs_are_those_of_appendix_c(depth):
    found = complexity(sizes_of(BLOCKS, depth), COUNTS["operations"], 16)
    assert found.item() == pytest.approx(cost_by_hand(BLOCKS[:depth]))


def test_gradients_of_costs_are_differences():
    """Of every size, to the first order: the formula is smooth where nothing is rounded."""
    sizes = BlockSizes(*(part.double().requires_grad_() for part in sizes_of(BLOCKS[:2], 2)))
    complexity(sizes, COUNTS["operations"], 16).backward()
    for block, (points, widths) in enumerate(BLOCKS[:2]):
        moved = list(BLOCKS[:2])
        moved[block] = (points + 1e-5, widths)
        slope = (cost_by_hand(moved) - cost_by_hand(BLOCKS[:2])) / 1e-5
        assert sizes.points.grad[block].item() == pytest.approx(slope, rel=1e-4)
        for channel in range(3):
            more = list(widths)
            more[channel] += 1e-5
            moved[block] = (points, tuple(more))
            slope = (cost_by_hand(moved) - cost_by_hand(BLOCKS[:2])) / 1e-5
            assert sizes.widths.grad[block, channel].item() == pytest.approx(slope, rel=1e-4)
    assert sizes.depth.grad.item() == pytest.approx(cost_by_hand(BLOCKS[:2]) / 2)  # a block of mean cost


def masked(signature, **options):
    torch.manual_seed(0)
    given = {
        "width": 3,
        "blocks": 2,
        "learn": "KRWD",
        "largest": 2.0,
        "temperatures": {"resolution": 25.0, "width": 25.0, "depth": 8.0},
        "learn_mean": False,
        "learn_temperature": False,
        "step": 1,
        "budget": None,
        "hidden": 8,
        "omega": 2.0,
        **options,
    }
    return MaskedCCNN(signature, **given)


def sigmoid_by_hand(places, offset, temperature):
    values = 1 - 1 / (1 + torch.exp(-temperature * (places - offset)))
    return torch.where(values >= 0.1, values, 0.0)


def axis(number):
    return 2 * torch.arange(1, number + 1, dtype=torch.float64) / number - 1


def virtual(network, x):
    """The same network as the paper computed it: at full size, in double precision, with masks that only multiply."""
    x = F.gelu(normalised(network.encoder.weight @ x + network.encoder.bias[:, None], network.norm))
    number = len(network.blocks)
    depth = sigmoid_by_hand(axis(number), network.depth.offset, network.depth.temperature)
    for index, block in enumerate(network.blocks):
        x = x + depth[index] * branch(network, index, block, x)
    return network.decoder.weight @ x + network.decoder.bias[:, None]


def normalised(x, norm):
    mean, var = x.mean((0, 2), keepdim=True), x.var((0, 2), correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5) * norm.weight[:, None] + norm.bias[:, None]


def branch(network, index, block, x):
    length = x.shape[-1]
    widths = [sigmoid_by_hand(axis(network.width), o, network.widths.temperature) for o in network.widths.offset[index]]
    y = normalised(x, block.norm)
    lags = torch.arange(-(length // 2), length // 2 + 1, dtype=torch.float64) / (length // 2)
    sigma = network.kernels.width[index, 0]
    gauss = torch.exp(-0.5 * (lags / sigma) ** 2)
    gauss = torch.where(gauss >= 0.1, gauss, 0.0)
    kernel = (block.kernel @ network.trunk(lags[:, None]).T + block.kernel_bias[:, None]) * gauss
    convolved = F.conv1d(y, kernel.flip(-1)[:, None], padding=length // 2, groups=len(kernel))
    y = widths[0][:, None] * convolved
    y = F.gelu(widths[1][:, None] * (block.mix.weight @ y + block.mix.bias[:, None]))
    return F.gelu(widths[2][:, None] * (block.out.weight @ y + block.out.bias[:, None]))


@pytest.mark.parametrize("offsets", [(0.3, -0.2, 0.6), (-0.8, 1.0, 0.0)])
def test_what_is_computed_equals_virtual_masks_at_full_size(offsets):
    """Kernels, widths and depth: cut weights and skipped blocks change nothing."""
    signature = Signature("dense", 2, (11,), 3)
    network = masked(signature, learn="KWD").double()
    with torch.no_grad():
        network.kernels.width.copy_(torch.tensor([[0.2], [0.5], [0.11], [0.9]]))
        network.widths.offset.copy_(torch.tensor([offsets, offsets[::-1], offsets, offsets]))
        network.depth.offset.fill_(0.1)
        for norm in (network.norm, *(block.norm for block in network.blocks)):
            norm.weight.normal_()
            norm.bias.normal_()
    x = torch.randn(4, 2, 11, dtype=torch.float64)
    torch.testing.assert_close(network(x), virtual(network, x), atol=1e-6, rtol=1e-5)


def test_rounded_widths_are_computed_counted_and_kept():
    """With a step of 4 a mask that ends behind 5 of 10 channels has 8: in the network, in its cost, once trimmed."""
    network = masked(Signature("dense", 2, (11,), 3), width=10, largest=1.0, learn="W", step=4).double()
    with torch.no_grad():
        network.widths.offset.fill_(0.0)
        network.after_step()
    exact = network.widths.offset.detach() + math.log(9) / 25
    assert torch.equal((10 * (exact + 1) / 2).floor(), torch.full((2, 3), 5.0, dtype=torch.float64))
    assert [shape.widths for shape in network.shapes()] == [(8, 8, 8)] * 2
    offsets = {"widths": (network.widths.offset, network.widths.temperature)}
    assert network.cost(offsets).item() == pytest.approx(cost_by_hand([(11, (8, 8, 8))] * 2))
    made = CCNN(network.signature, 10, network.found(), hidden=8, omega=2.0).double()
    x = torch.randn(4, 2, 11, dtype=torch.float64)
    network.eval()
    torch.testing.assert_close(trimmed(network, made).eval()(x), network(x), atol=1e-9, rtol=1e-9)


def test_gradients_of_masks_equal_those_of_virtual_masks():
    signature = Signature("dense", 2, (11,), 3)
    network = masked(signature, learn="KWD").double()
    with torch.no_grad():
        network.kernels.width.copy_(torch.tensor([[0.2], [0.5], [0.11], [0.9]]))
        network.widths.offset.uniform_(-0.5, 0.5)
        network.depth.offset.fill_(0.1)
    x, weight = torch.randn(4, 2, 11, dtype=torch.float64), torch.randn(4, 3, 11, dtype=torch.float64)
    parameters = [network.kernels.width, network.widths.offset, network.depth.offset, *network.blocks.parameters()]
    ours = torch.autograd.grad((weight * network(x)).sum(), parameters, allow_unused=True)
    theirs = torch.autograd.grad((weight * virtual(network, x)).sum(), parameters, allow_unused=True)
    for mine, wanted in zip(ours, theirs, strict=True):
        mine = torch.zeros_like(wanted) if mine is None else mine
        torch.testing.assert_close(mine, wanted, atol=1e-6, rtol=1e-5)


def walked(network, generator, steps=25):
    """The cost after each of some steps that push all masks about, first up, then down."""
    for step in range(steps):
        with torch.no_grad():
            for table in (network.widths, network.resolutions, network.depth):
                if table is not None:
                    push = 0.05 * torch.randn(table.offset.shape, generator=generator)
                    table.offset.add_(push + (0.02 if step < steps / 2 else -0.02))
        for module in network.modules():
            if hasattr(module, "after_step"):
                module.after_step()
        yield network.relative()


@pytest.mark.parametrize(("sizes", "width", "blocks"), [((32, 32), 32, 4), ((512,), 8, 2), ((43, 20), 16, 3)])
@pytest.mark.parametrize(("learn", "target"), [("KRWD", 1.0), ("KRWD", 0.3), ("WD", 0.5), ("R", 0.5)])
def test_the_cost_stays_within_a_twentieth_of_the_target_whatever_moves_the_masks(sizes, width, blocks, learn, target):
    settings = {"backbone.width": width, "backbone.blocks": blocks, "backbone.hidden": 4, "train.epochs": 1}
    space = spaces["dnarch"].make(Config().with_values(settings), learn=learn, target=target)
    signature = Signature("classification", 2, sizes, 3)
    network = space.supernet(space.start(signature), signature)
    assert network.relative() == pytest.approx(1, abs=0.05)
    costs = list(walked(network, torch.Generator().manual_seed(0)))
    assert max(abs(cost - 1) for cost in costs) <= 0.05
    found, _ = space.derive(space.start(signature), network)
    shapes = [BlockShape.from_dict(shape) for shape in found.choices["blocks"]]
    lows = [CCNN(signature, 1, [BlockShape((1, 1, 1))]).blocks[0].grid(sizes, shape).points for shape in shapes]
    ours = cost_by_hand([(math.prod(low), shape.widths) for low, shape in zip(lows, shapes, strict=True)])
    whole = cost_by_hand([(math.prod(sizes), (width,) * 3)] * blocks)
    assert ours / whole == pytest.approx(target, rel=0.05)  # of the network that is handed back, counted by hand
    assert ours / whole == pytest.approx(found.choices["complexity"], rel=1e-4)


def test_kernels_may_begin_wider_than_in_the_paper():
    signature = Signature("dense", 1, (15, 33), 1)

    def points(**options):
        config = Config().with_values({"backbone.width": 4, "backbone.hidden": 4})
        space = spaces["dnarch"].make(config, learn="K", **options)
        network = space.build(space.start(signature), signature)
        return network.blocks[0].grid((15, 33)).taps

    assert points(kernel_width=0.0325) == (3, 3)
    assert points(kernel_width=0.2) == (7, 13)  # 0.43 of 7 and of 16 points, to both sides
    assert points() == points(kernel_width=0.7) == (15, 33)
    with pytest.raises(ConfigError) as error:
        points(kernel_width=0.0)
    assert str(error.value) == "space.kernel_width is 0.0, but must be above 0 and at most 2"


def test_the_loss_of_the_cost_is_that_of_the_formula():
    """Its value and its gradient, which are computed on the CPU from numbers that have come there once."""
    network = masked(Signature("dense", 2, (11,), 3), budget=Budget(3000.0, penalty=0.5), learn_temperature=True)
    network(torch.randn(4, 2, 11))
    parts = [tensor for pair in network.offsets().values() for tensor in pair]
    for move in (0.0, -0.1):
        with torch.no_grad():
            network.widths.offset.add_(move)
        before = network.on_host(known=True)
        ours = network.extra_loss()
        assert network.on_host(known=True) is before
        theirs = 0.5 * (network.cost(network.offsets()).double() / 3000.0 - 1) ** 2
        assert ours.item() == pytest.approx(theirs.item())
        for one, other in zip(*(torch.autograd.grad(each, parts) for each in (ours, theirs)), strict=True):
            torch.testing.assert_close(one, other)
