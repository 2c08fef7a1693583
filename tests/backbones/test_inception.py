import pytest
import torch
from torch import nn

from eclose.backbones import inception
from eclose.backbones.inception import sizes, three_kernels
from eclose.errors import ConfigError
from eclose.signature import Signature


def size(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("space", "kernels"),
    [
        ((5000,), (39, 19, 9)),
        ((96,), (39, 19, 9)),
        ((46,), (23, 11, 5)),
        ((29,), (13, 7, 3)),
        ((6,), (3, 1, 1)),
        ((28, 28), (7, 5, 3)),
        ((8, 5), (7, 5, 3)),
        ((4, 4), (3, 1, 1)),
        ((16, 16, 16), (5, 3, 1)),
    ],
)
def test_kernels_follow_the_length(space, kernels):
    chosen = sizes(Signature("classification", 1, space, 2), width=0, kernel=0)
    assert three_kernels(chosen["kernel"], len(space)) == kernels


def test_parameters_by_hand():
    """InceptionTime with a bottleneck wherever there are more channels than it has."""

    def block(inputs):
        bottleneck = inputs * 32 if inputs > 32 else 0
        return bottleneck + min(inputs, 32) * 32 * (39 + 19 + 9) + inputs * 32 + 2 * 128

    def shortcut(inputs):
        return inputs * 128 + 2 * 128

    model = inception(Signature("classification", 1, (140,), 5))
    assert size(model) == block(1) + 5 * block(128) + shortcut(1) + shortcut(128) + 128 * 5 + 5


@pytest.mark.parametrize("space", [(5000,), (70, 40), (40, 20, 9)])
def test_long_axes_are_shortened_for_one_answer_and_whole_for_many(space):
    for kind, shortens in (("regression", True), ("dense", False)):
        model = inception(Signature(kind, 1, space, 2), width=2, kernel=3, blocks=4).eval()
        seen = []
        for module in model.modules():
            if isinstance(module, nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d):
                module.register_forward_hook(lambda _m, _args, out, seen=seen: seen.append(out.shape[2:].numel()))
        model(torch.randn(1, 1, *space))
        assert len(seen) == 4
        whole = torch.Size(space).numel()
        assert (max(seen) < whole) is shortens
        assert (seen[-1] < seen[0]) is shortens


def test_every_third_block_has_a_shortcut():
    model = inception(Signature("classification", 1, (20,), 3), blocks=7)
    assert [len(group.blocks) for group in model if hasattr(group, "blocks")] == [3, 3, 1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel": 4}, "backbone.kernel is 4, but 'inception' needs an odd number"),
        ({"blocks": 0}, "backbone.blocks is 0, but 'inception' needs it to be at least 1"),
        ({"dropout": 1.0}, "backbone.dropout is 1.0, but 'inception' needs it in [0, 1)"),
    ],
)
def test_refusals(options, text):
    with pytest.raises(ConfigError) as caught:
        inception(Signature("classification", 1, (20,), 3), **options)
    assert str(caught.value) == text
