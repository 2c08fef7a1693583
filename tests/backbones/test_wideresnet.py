import pytest
import torch

from eclose.backbones import wrn40_4
from eclose.backbones.wideresnet import PreActivationBlock, wide_resnet
from eclose.errors import ConfigError
from eclose.signature import Signature

CIFAR10 = Signature("classification", 3, (32, 32), 10)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_parameters_by_hand():
    def block(inputs, outputs):
        convolutions = 9 * inputs * outputs + 9 * outputs * outputs
        shortcut = inputs * outputs if inputs != outputs else 0
        return convolutions + shortcut + 2 * inputs + 2 * outputs

    widths = [64, 128, 256]
    stages = sum(block(a, b) + 5 * block(b, b) for a, b in zip([16, 64, 128], widths, strict=True))
    by_hand = 9 * 3 * 16 + stages + 2 * 256 + 256 * 10 + 10
    model = wrn40_4(CIFAR10)
    assert count(model) == by_hand == 8_949_210
    biases = 16 + sum(12 * width + width for width in widths)  # stem, two a block, shortcut
    assert count(wrn40_4(CIFAR10, bias=True)) == by_hand + biases == 8_955_050
    assert round((by_hand + biases) / 1e6, 2) == 8.96  # Table 4 of the XD paper


def test_layers():
    model = wrn40_4(CIFAR10)
    shortcuts = sum(isinstance(m, PreActivationBlock) and not m.keeps_shape for m in model)
    assert sum(p.dim() > 1 for p in model.parameters()) - shortcuts == 1 + 3 * 6 * 2 + 1  # stem, blocks, output
    assert shortcuts == 3


def test_stages_halve_the_image():
    model = wide_resnet(CIFAR10, 10, 1, 0.0, False)
    sizes = []
    for block in model:
        if isinstance(block, PreActivationBlock):
            block.register_forward_hook(lambda _module, _inputs, y: sizes.append(tuple(y.shape[1:])))
    model(torch.randn(2, 3, 32, 32))
    assert sizes == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_refuses_impossible_dropout(value):
    with pytest.raises(ConfigError, match=rf"^backbone.dropout is {value}, but 'wrn40-4' needs it in \[0, 1\)$"):
        wrn40_4(CIFAR10, dropout=value)
