import pytest
import torch
from torch import nn

from eclose.backbones import lenet, spherical, wide_lenet
from eclose.errors import ConfigError
from eclose.signature import Signature

CIFAR10 = Signature("classification", 3, (32, 32), 10)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_parameters_by_hand():
    convolutions = 3 * 6 * 25 + 6 + 6 * 16 * 25 + 16
    connected = 120 + 120 * 84 + 84 + 84 * 10 + 10
    assert count(lenet(CIFAR10)) == convolutions + 16 * 8 * 8 * 120 + connected == 136_886
    assert count(lenet(CIFAR10, padding=False)) == convolutions + 16 * 5 * 5 * 120 + connected == 62_006


def test_layers_of_the_papers():
    kinds = [type(layer).__name__ for layer in lenet(CIFAR10)]
    convolution = ["Conv2d", "ReLU", "MaxPool2d"]
    assert kinds == [*convolution, *convolution, "Flatten", "Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert any(isinstance(layer, nn.AvgPool2d) for layer in lenet(CIFAR10, pool="average"))


def test_baselines_of_k_operations():
    """Chrysalis paper, C.1.1: linear (6 * 16 * 16), linear (16 * 8 * 8), or two K-matrices for a pair of channels."""
    linear = lenet(CIFAR10, layers="linear")
    features = [layer.out_features for layer in linear if isinstance(layer, nn.Linear)]
    assert features == [6 * 16 * 16, 16 * 8 * 8, 120, 84, 10]
    k_layers = lenet(CIFAR10, layers="kaleidoscope", pool="average")
    kinds = [type(layer).__name__ for layer in k_layers]
    assert kinds[:6] == ["KaleidoscopeLayer", "ReLU", "AvgPool2d"] * 2
    matrices = k_layers[3].matrices
    assert [matrix.entries.shape[:3] for matrix in matrices] == [(16, 6, 2)] * 2
    x = torch.randn(2, 3, 32, 32)
    assert linear(x).shape == k_layers(x).shape == (2, 10)


def test_the_wide_one_as_in_the_paper():
    model = wide_lenet(CIFAR10)
    convolutions = [layer for layer in model if isinstance(layer, nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels) for layer in convolutions] == [(3, 32), (32, 64), (64, 128)]
    assert {layer.kernel_size for layer in convolutions} == {(3, 3)}
    assert (model.hidden.in_features, model.hidden.out_features, model.output.out_features) == (128 * 32 * 32, 128, 10)
    pooled = wide_lenet(CIFAR10, pool=4)
    assert pooled.hidden.in_features == 128 * 8 * 8
    assert pooled(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_the_one_for_spheres_as_in_the_paper():
    model = spherical(Signature("classification", 1, (60, 60), 10))
    assert [(model[place].out_channels, model[place].kernel_size[0], model[place].stride[0]) for place in (0, 2)] == [
        (20, 5, 3),
        (40, 5, 3),
    ]
    assert model.output.in_features == 40 * 5 * 5
    assert model(torch.randn(2, 1, 60, 60)).shape == (2, 10)


@pytest.mark.parametrize(("padding", "smallest"), [(True, 4), (False, 16)])
def test_smallest_size(padding, smallest):
    fits = Signature("regression", 1, (smallest, smallest + 1), 1)
    assert lenet(fits, padding=padding)(torch.randn(2, 1, smallest, smallest + 1)).shape == (2, 1)
    with pytest.raises(ConfigError) as caught:
        lenet(Signature("regression", 1, (smallest + 3, smallest - 1), 1), padding=padding)
    assert str(caught.value) == (
        f"backbone 'lenet' needs at least {smallest} points along every axis, but an input of this task "
        f"is {smallest + 3}x{smallest - 1}; choose resnet, which takes any size"
    )


def test_other_widths():
    signature = Signature("classification", 1, (28,), 4)
    model = lenet(signature, widths=(2, 3, 4), hidden=())
    assert count(model) == (5 * 2 + 2) + (2 * 3 * 5 + 3) + (3 * 4 * 5 + 4) + (4 * 3 * 4 + 4)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pool": "min"}, "backbone.pool is 'min', but lenet knows max and average"),
        ({"widths": ()}, "backbone.widths is empty, but lenet needs at least one width, e.g. [6, 16]"),
        ({"hidden": (8, 0)}, "backbone.hidden is 0, but 'lenet' needs it to be at least 1"),
        ({"layers": "k"}, "backbone.layers is 'k', but lenet knows convolution, linear, kaleidoscope"),
        (
            {"layers": "linear", "padding": False},
            "backbone.padding is false, but only convolutions pad, not linear layers: leave one out",
        ),
    ],
)
def test_refusals(options, text):
    with pytest.raises(ConfigError) as caught:
        lenet(CIFAR10, **options)
    assert str(caught.value) == text
