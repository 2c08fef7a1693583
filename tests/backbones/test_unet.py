import pytest
import torch

from eclose.backbones import unet
from eclose.backbones.unet import level_strides, sizes
from eclose.signature import Signature


@pytest.mark.parametrize(
    ("space", "strides"),
    [
        ((6,), []),
        ((7,), [(2,)]),
        ((16,), [(2,), (2,)]),
        ((1000,), [(2,), (2,), (2,)]),
        ((1, 3), []),
        ((64, 5), [(2, 1), (2, 1), (2, 1)]),
        ((13, 8, 40), [(2, 2, 2), (2, 1, 2), (1, 1, 2)]),
    ],
)
def test_axes_are_halved_while_they_keep_four_points(space, strides):
    assert level_strides(space, 3) == strides


def test_as_many_levels_as_asked_for():
    assert len(level_strides((10_000,), 7)) == 7
    assert level_strides((10_000,), 0) == []


def test_levels_that_are_left_open_follow_the_sizes():
    for space, levels in (((1000,), 6), ((16,), 2), ((64, 64), 4), ((128, 128), 4), ((5, 5), 0), ((64, 64, 64), 3)):
        chosen = sizes(Signature("dense", 1, space, 1), width=0, levels=0)
        assert chosen["levels"] == levels, space


def test_parameters_by_hand():
    def layer(inputs, outputs):  # a 3x3 convolution without bias, and its norm
        return 9 * inputs * outputs + 2 * outputs

    down = layer(3, 32) + layer(32, 32) + layer(32, 64) + 5 * layer(64, 64)
    up = 2 * (layer(128, 64) + layer(64, 64)) + layer(96, 32) + layer(32, 32)
    model = unet(Signature("dense", 3, (32, 32), 10))
    assert sum(p.numel() for p in model.parameters()) == down + up + 32 * 10 + 10 == 472_746


@pytest.mark.parametrize("space", [(31,), (29, 17), (13, 11, 7)])
def test_every_output_sees_far_and_every_size_fits(space):
    """The answer in one corner depends on the input in the opposite one: all levels are joined."""
    model = unet(Signature("dense", 1, space, 1), width=4).eval()
    x = torch.randn(1, 1, *space, requires_grad=True)
    y = model(x)
    assert y.shape == x.shape
    y[(0, 0, *(-1 for _ in space))].backward()
    assert x.grad[(0, 0, *(0 for _ in space))] != 0


def test_skips_carry_the_finest_detail():
    model = unet(Signature("dense", 1, (32,), 1), width=4).eval()
    x = torch.randn(1, 1, 32)
    seen = []
    model.up[0].register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    model(x)
    assert torch.equal(seen[0][:, :4], model.down[0](x))


def test_learns_what_needs_the_whole_signal():
    """The sign of the mean, at every position."""
    torch.manual_seed(0)
    x = torch.randn(64, 1, 32) + torch.tensor([-1.0, 1.0]).repeat(32)[:, None, None]
    y = x.mean(dim=2, keepdim=True).sign().expand_as(x)
    model = unet(Signature("dense", 1, (32,), 1), width=8)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(8):
        for batch in torch.randperm(64).split(16):
            loss = (model(x[batch]) - y[batch]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    assert loss < 0.2
