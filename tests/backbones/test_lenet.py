import pytest
import torch
from torch import nn

from eclose.backbones import lenet
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
    ],
)
def test_refusals(options, text):
    with pytest.raises(ConfigError) as caught:
        lenet(CIFAR10, **options)
    assert str(caught.value) == text
