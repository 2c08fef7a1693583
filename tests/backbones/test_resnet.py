import math

import pytest
import torch
from torch import nn

from eclose.backbones import resnet
from eclose.backbones.resnet import stage_strides, stem_strides
from eclose.errors import ConfigError
from eclose.signature import Signature


def shortened(space, strides):
    for stride in strides:
        space = tuple(math.ceil(n / s) for n, s in zip(space, stride, strict=True))
    return space


@pytest.mark.parametrize(
    ("space", "strides"),
    [
        ((140,), [(1,)]),
        ((512,), [(1,)]),
        ((513,), [(2,)]),
        ((1025,), [(4,)]),
        ((100_000,), [(4,), (4,), (4,), (4,)]),
        ((8, 8), [(1, 1)]),
        ((96, 1), [(2, 1)]),
        ((224, 100), [(4, 2)]),
        ((64, 20, 40), [(2, 1, 2)]),
    ],
)
def test_stem_shortens_long_axes_only(space, strides):
    assert stem_strides(space) == strides


@pytest.mark.parametrize(
    ("space", "strides"),
    [
        ((8,), [(1,), (1,), (1,)]),
        ((9,), [(1,), (2,), (1,)]),
        ((140,), [(1,), (2,), (2,)]),
        ((32, 7), [(1, 1), (2, 1), (2, 1)]),
        ((1, 16, 17), [(1, 1, 1), (1, 2, 2), (1, 1, 2)]),
    ],
)
def test_stages_leave_short_axes_alone(space, strides):
    assert stage_strides(space) == strides


@pytest.mark.parametrize("space", [(20_011,), (300, 2), (70, 5, 33)])
def test_the_plan_is_what_the_network_does(space):
    model = resnet(Signature("regression", 1, space, 2), width=4).eval()
    seen = []
    model[-2].register_forward_pre_hook(lambda _module, args: seen.append(tuple(args[0].shape[2:])))
    assert model(torch.randn(1, 1, *space)).shape == (1, 2)
    stemmed = shortened(space, stem_strides(space))
    assert seen == [shortened(stemmed, stage_strides(stemmed))]


@pytest.mark.parametrize("space", [(140,), (50_000,), (8, 8), (224, 224), (16, 16, 16), (64, 64, 64)])
def test_small_at_every_number_of_axes(space):
    model = resnet(Signature("classification", 3, space, 10))
    assert 100_000 < sum(p.numel() for p in model.parameters()) < 500_000


def test_parameters_by_hand():
    def block(inputs, outputs):
        shortcut = inputs * outputs if inputs != outputs else 0
        return 9 * inputs * outputs + 9 * outputs**2 + shortcut + 2 * inputs + 2 * outputs

    by_hand = 9 * 3 * 32 + block(32, 32) + block(32, 64) + block(64, 128) + 2 * 128 + 128 * 10 + 10
    model = resnet(Signature("classification", 3, (32, 32), 10))
    assert sum(p.numel() for p in model.parameters()) == by_hand == 308_266


def test_learns_to_tell_frequencies_apart():
    torch.manual_seed(0)
    t = torch.linspace(0, 1, 60)
    classes = torch.arange(96) % 3
    phase = torch.rand(96, 1) * 2 * torch.pi
    x = torch.sin((4 + 3 * classes[:, None]) * 2 * torch.pi * t + phase)[:, None] + 0.3 * torch.randn(96, 1, 60)
    model = resnet(Signature("classification", 1, (60,), 3))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(5):
        for batch in torch.randperm(64).split(16):
            loss = nn.functional.cross_entropy(model(x[batch]), classes[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    model.eval()
    assert (model(x[64:]).argmax(dim=1) == classes[64:]).float().mean() > 0.9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel": 4}, "backbone.kernel is 4, but 'resnet' needs an odd number"),
        ({"blocks": 0}, "backbone.blocks is 0, but 'resnet' needs it to be at least 1"),
        ({"dropout": 2.0}, "backbone.dropout is 2.0, but 'resnet' needs it in [0, 1)"),
    ],
)
def test_refusals(options, text):
    with pytest.raises(ConfigError) as caught:
        resnet(Signature("classification", 1, (20,), 3), **options)
    assert str(caught.value) == text
