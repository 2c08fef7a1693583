"""The continuous CNN: kernels, norms, other resolutions."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from eclose.backbones import make_backbone
from eclose.backbones.ccnn import CCNN
from eclose.backbones.ccnn_block import Block, BlockShape, _ScaledGELU
from eclose.errors import ConfigError
from eclose.ops.continuous import FourierFeatures
from eclose.ops.first_channels import Norm, add_to_first
from eclose.ops.masks import gaussian, product
from eclose.ops.resolution import resample
from eclose.signature import Signature

MASKED = {"kernel": (0.3, 0.4), "mean": (0.0, 0.1)}


def block(shape, trained=(9, 8), **options):
    torch.manual_seed(0)
    trunk = FourierFeatures(len(trained), 8, 1.0)
    return Block(shape, trained, trunk, 8, **options), trunk


def test_shapes_are_data():
    shape = BlockShape((3, 4, 5), (0.1,), (0.0,), (0.2,), 50.0, 0.5)
    assert BlockShape.from_dict(shape.as_dict()) == shape


def test_the_generator_is_registered_once():
    network = make_backbone("ccnn", Signature("classification", 1, (16,), 2), {"width": 4, "blocks": 3, "hidden": 8})
    trunks = [name for name in network.state_dict() if "frequencies" in name]
    assert trunks == ["trunk.frequencies"]


def test_the_generator_is_asked_once_for_the_longest_kernel():
    shapes = [BlockShape((4, 4, 4))] * 3 + [BlockShape((4, 4, 4), (0.3,), (0.0,))]
    network = CCNN(Signature("dense", 1, (16,), 1), 4, shapes, hidden=8, omega=1.0)
    asked = []
    network.trunk.register_forward_hook(lambda trunk, given, values: asked.append(len(values)))
    network(torch.randn(2, 1, 16)).sum().backward()
    assert asked == [17]
    assert network.blocks[1].kernel.grad.abs().sum() > 0


def test_a_cut_kernel_is_the_whole_one_times_its_mask():
    """Values and gradients: what is not rendered is zero."""
    shape = BlockShape((4, 4, 4), **MASKED)
    own, trunk = block(shape)
    widths = torch.tensor(shape.kernel, requires_grad=True)

    def rendered(grid):
        lines = zip(own.lines(grid.kernel, widths.device, widths.dtype), widths, shape.mean, strict=True)
        return own.rendered(
            own.generated(trunk, [grid]), grid, own.weights(), product([gaussian(*line) for line in lines])
        )

    # Cut as if the mask were as wide as the axes.
    grid, wide = own.grid((9, 8)), own.grid((9, 8), BlockShape((4, 4, 4), (9.0, 9.0), shape.mean))
    cut, whole = rendered(grid), rendered(wide)
    assert cut.shape[1:] == grid.taps != whole.shape[1:]
    window = tuple(slice(a - b, a - b + n) for a, b, n in zip(grid.first, wide.first, grid.taps, strict=True))
    torch.testing.assert_close(whole[(slice(None), *window)], cut)
    torch.testing.assert_close(whole.square().sum(), cut.square().sum())
    ours, theirs = (torch.autograd.grad(each.square().sum(), (widths, own.kernel)) for each in (cut, whole))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_a_block_keeps_the_variance():
    for extra in ({}, {"kernel": (0.0325, 0.0325), "mean": (0.0, 0.0)}):
        own, trunk = block(BlockShape((32, 32, 32), **extra), (32, 32))
        grid = own.grid((32, 32))
        kernel = own.rendered(own.generated(trunk, [grid]), grid, own.weights(), own.window)
        torch.testing.assert_close(kernel.square().sum((1, 2)), torch.ones(32))


def test_branches_begin_with_a_third_of_the_usual_weights(monkeypatch):
    """In their last layer, and nowhere else."""
    monkeypatch.setattr(nn.init, "kaiming_normal_", lambda weight, **_: nn.init.ones_(weight))
    block = Block(BlockShape((4, 5, 6)), (8,), FourierFeatures(1, 8, 1.0), 8)
    assert torch.equal(block.mix.weight, torch.ones(5, 4))
    torch.testing.assert_close(block.out.weight, torch.full((6, 5), 1 / 3))


def test_nothing_but_the_first_channels_is_read_and_changed():
    own, trunk = block(BlockShape((2, 3, 4)))
    own.eval()
    x = torch.randn(2, 6, 9, 8)
    y = own(x, trunk)
    assert torch.equal(y[:, 4:], x[:, 4:])
    assert (y[:, :4] != x[:, :4]).any()
    other = torch.cat([x[:, :2], torch.randn(2, 4, 9, 8)], dim=1)
    torch.testing.assert_close(own(other, trunk) - other, y - x, atol=1e-5, rtol=1e-4)


def test_a_scale_of_zero_is_the_identity():
    own, trunk = block(BlockShape((2, 3, 4), scale=0.0))
    x = torch.randn(2, 6, 9, 8)
    assert torch.equal(own(x, trunk), x)


def test_a_scale_that_learns():
    z = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(_ScaledGELU.apply, (z, scale))
    assert torch.autograd.gradgradcheck(_ScaledGELU.apply, (z, scale))  # second-order searches need it


@pytest.mark.parametrize("channels", [2, 5])
def test_a_sum_with_the_first_channels(channels):
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(2, channels, 3, dtype=torch.float64, requires_grad=True)
    before = x.detach().clone()
    total = add_to_first(x, y)
    assert torch.equal(total[:, :channels], x[:, :channels] + y)
    assert torch.equal(total[:, channels:], x[:, channels:])
    assert torch.equal(x, before)
    assert torch.autograd.gradcheck(add_to_first, (x, y))
    assert torch.autograd.gradgradcheck(add_to_first, (x, y))


def test_a_causal_network_does_not_see_the_future():
    signature = Signature("dense", 1, (12,), 1)
    network = make_backbone("ccnn", signature, {"width": 4, "blocks": 2, "hidden": 8, "causal": True}).eval()
    x = torch.randn(1, 1, 12)
    changed = x.clone()
    changed[..., 7:] += 1.0
    torch.testing.assert_close(network(x)[..., :7], network(changed)[..., :7])
    x[..., 0] += 1.0
    assert (network(x)[..., -1] != network(changed)[..., -1]).all()


@pytest.mark.parametrize("kind", ["classification", "dense"])
def test_an_input_of_another_resolution(kind):
    """Kernels, masks and their gains belong to the domain, not to its points."""
    shape = BlockShape((4, 4, 4), (0.2, 0.2), (0.0, 0.0), (0.2, 0.4))
    torch.manual_seed(0)
    network = CCNN(Signature(kind, 1, (32, 32), 3), 4, [shape] * 2, hidden=16, omega=0.5).eval()

    def smooth(n):  # zero at the borders, where points of different grids lie at different places
        line = torch.sin(torch.pi * (torch.arange(n) / n)) ** 2
        return (line[:, None] * line)[None, None]

    coarse, fine = network(smooth(32)), network(smooth(48))
    assert fine.shape == ((1, 3) if kind == "classification" else (1, 3, 48, 48))
    means = [y.flatten(2).mean(-1) if kind == "dense" else y for y in (coarse, fine)]
    torch.testing.assert_close(*means, rtol=0.1, atol=0.02)


RESOLUTIONS = [
    [(0.2,), (0.2,), (0.2,)],
    [(0.5,), (-0.2,), (-0.5,)],
    [(-0.5,), (0.2,), (-0.2,)],
    [(-0.2,), (1.1,), (0.2,)],
    [(0.2, -0.3), (0.2, 1.1), (-0.5, -0.3)],
    [(-0.5, 0.2), (0.2, -0.5)],
    [(0.2, -0.3, 0.0), (0.2, -0.3, 1.1), (0.2, -0.6, 0.0)],
]


@pytest.mark.parametrize("kind", ["classification", "dense"])
@pytest.mark.parametrize("offsets", RESOLUTIONS)
def test_blocks_that_share_their_points_are_those_that_come_back_to_all_points(kind, offsets):
    """Values and gradients; on the points of the training and on others."""
    sizes = (20, 13, 8)[: len(offsets[0])]
    widths = [(4, 5, 3), (5, 3, 5), (3, 4, 5)]
    shapes = [BlockShape(each, (), (), offset, scale=0.7) for each, offset in zip(widths, offsets, strict=False)]
    torch.manual_seed(0)
    network = CCNN(Signature(kind, 2, sizes, 3), 5, shapes, hidden=4, omega=1.0).double()
    for x in (torch.randn(3, 2, *sizes).double(), torch.randn(3, 2, *(size + 3 for size in sizes)).double()):
        y = F.gelu(network.norm((network.encoder(x.movedim(1, -1))).movedim(-1, 1)))
        for block in network.blocks:
            y = block(y, network.trunk)
        features = network.pool(y) if kind == "classification" else y.movedim(1, -1)
        wanted = network.decoder(features) if kind == "classification" else network.decoder(features).movedim(-1, 1)
        found = network(x)
        torch.testing.assert_close(found, wanted)
        weight = torch.randn_like(wanted)
        ours, theirs = (
            torch.autograd.grad((weight * each).sum(), list(network.parameters())) for each in (found, wanted)
        )
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


def test_a_signal_becomes_coarser_once_and_is_not_made_finer_for_a_mean(monkeypatch):
    seen = []

    def told(x, sizes):
        seen.append((*x.shape[2:], *sizes))
        return resample(x, sizes)

    monkeypatch.setattr("eclose.backbones.ccnn_block.resample", told)
    shapes = [BlockShape((4, 4, 4), (), (), (offset,)) for offset in (0.2, 0.2, -0.2)]
    for kind, wanted in (("classification", [(32, 24), (24, 16)]), ("dense", [(32, 24), (24, 16), (16, 24), (24, 32)])):
        network = CCNN(Signature(kind, 1, (32,), 3), 4, shapes, hidden=4, omega=1.0)
        seen.clear()
        network(torch.randn(2, 1, 32))
        assert [pair for pair in seen if pair[0] != pair[1]] == wanted


def test_a_norm_forgets_channels_that_were_closed():
    norm, x = Norm(4), torch.randn(64, 4, 5)
    for _ in range(3):
        norm(x)
    norm(100 + x[:, :2])  # two are closed, and open again with other values
    norm(7 + 3 * x)
    norm.eval()
    y = norm(7 + 3 * x)[:, 2:].detach()
    assert y.mean() == pytest.approx(0.0, abs=0.05)
    assert y.std() == pytest.approx(1.0, abs=0.05)


def test_a_new_norm_changes_nothing():
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(Norm(4).eval()(x), x, rtol=1e-4, atol=1e-4)


def test_a_norm_is_that_of_torch():
    ours, theirs, x = Norm(4), nn.BatchNorm1d(4), 3 + 2 * torch.randn(8, 4, 5)
    torch.testing.assert_close(ours(x), theirs(x))
    batch = Norm(4, batch_statistics=True).eval()
    torch.testing.assert_close(batch(x), theirs(x))
    assert batch(x[:1, :, :1]).isfinite().all()
    assert batch(x[:0]).shape == (0, 4, 5)


def test_kernels_are_kept_until_a_parameter_changes():
    own, trunk = block(BlockShape((2, 3, 4)))
    own.eval()
    x = torch.randn(2, 4, 9, 8)
    with torch.no_grad():
        before = own(x, trunk)
        kept = own._kept
        assert torch.equal(own(x, trunk), before)
        assert own._kept is kept
        trunk.layers[0].weight.mul_(2.0)
        assert not torch.equal(own(x, trunk), before)
    torch.testing.assert_close(own(x, trunk), own(x, trunk))
    assert own._kept is None


def test_masks_of_the_usual_sizes_are_made_once():
    """Buffers, which a CUDA graph can read for as long as the network lives; those of other sizes are made anew."""
    own, trunk = block(BlockShape((4, 4, 4), **MASKED, resolution=(1.0, 1.0)))
    assert {"window", "response"} <= dict(own.named_buffers()).keys()
    assert not {"window", "response"} & own.state_dict().keys()
    x, finer, used = torch.randn(2, 4, 9, 8), torch.randn(2, 4, 18, 16), []
    own._new_response = lambda grid, make=own._new_response: used.append(grid) or make(grid)
    own(x, trunk)
    assert not used
    own(finer, trunk)
    assert used == [own.grid((18, 16))]
    assert own.double().window.dtype == torch.float64


def test_two_signals_are_compared():
    signature = Signature("classification", 1, (16,), 2, vocabulary=5)
    network = make_backbone("ccnn", signature, {"width": 4, "blocks": 2, "hidden": 8, "pair": True}).eval()
    tokens = torch.arange(32).reshape(2, 16) % 5
    assert network(tokens).shape == (2, 2)
    body = network.get_submodule("network")
    assert body.blocks[0].trained == (8,)
    assert body.decoder[0].in_features == 16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"generator": "magnetic"}, "backbone.generator is 'magnetic'; did you mean 'magnet'"),
        ({"causal": True}, "backbone.causal is for signals along 1 axis, but an input of this task has 2"),
        ({"pair": True}, "backbone.pair is for signals along 1 axis"),
        ({"width": 0}, "backbone.width is 0, but 'ccnn' needs it to be at least 1"),
        ({"kernel": -1.0}, "backbone.kernel is -1.0, but 'ccnn' needs it to be at least 0"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        make_backbone("ccnn", Signature("classification", 1, (8, 8), 2), options)


def test_a_pair_needs_two_halves():
    with pytest.raises(ConfigError, match="two signals of equal length"):
        make_backbone("ccnn", Signature("classification", 1, (9,), 2), {"pair": True})
