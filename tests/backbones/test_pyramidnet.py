import pytest
import torch

from eclose.backbones.pyramidnet import PyramidBlock, block_widths, pyramidnet
from eclose.errors import ConfigError
from eclose.signature import Signature

CIFAR10 = Signature("classification", 3, (32, 32), 10)


def test_parameters_by_hand():
    """36 blocks of three convolutions and four norms; the published figure for PyramidNet-110 (84) is 2.5 M."""
    inputs, by_hand = 16, 3 * 9 * 16 + 2 * 16
    for number in range(1, 37):
        width = int(16 + 84 * number / 36 + 0.5)
        by_hand += inputs * width + 9 * width * width + width * 4 * width  # convolutions
        by_hand += 2 * (inputs + width + width + 4 * width)  # norms
        inputs = 4 * width
    by_hand += 2 * inputs + 10 * inputs + 10
    count = sum(parameter.numel() for parameter in pyramidnet(CIFAR10).parameters())
    assert count == by_hand
    assert round(count / 1e6, 1) == 2.5


def test_layers():
    assert sum(p.dim() > 1 for p in pyramidnet(CIFAR10).parameters()) == 110


def test_widths_grow_in_equal_steps():
    widths = block_widths(110, 84)
    assert len(widths) == 36
    assert widths[-1] == 16 + 84
    assert {b - a for a, b in zip(widths, widths[1:], strict=False)} <= {2, 3}


def test_stages_halve_the_image():
    model = pyramidnet(CIFAR10, depth=20, alpha=6)
    sizes = []
    for block in model:
        if isinstance(block, PyramidBlock):
            block.register_forward_hook(lambda _module, _inputs, y: sizes.append(tuple(y.shape[1:])))
    model(torch.randn(2, 3, 32, 32))
    assert sizes == [(68, 32, 32), (72, 32, 32), (76, 16, 16), (80, 16, 16), (84, 8, 8), (88, 8, 8)]


def test_the_shortcut_averages_and_pads():
    block = PyramidBlock((4, 6), 3, 1, 2).eval()
    torch.nn.init.zeros_(block.body[-1].weight)
    x = torch.randn(2, 3, 4, 6)
    y = block(x)
    torch.testing.assert_close(y[:, :3], x.reshape(2, 3, 2, 2, 3, 2).mean((3, 5)))
    assert not y[:, 3:].any()


@pytest.mark.parametrize("depth", [2, 10, 109])
def test_refuses_depths_that_are_no_blocks(depth):
    with pytest.raises(ConfigError, match=rf"^backbone.depth is {depth}, but 'pyramidnet' needs 9 n \+ 2 layers: 11, "):
        pyramidnet(CIFAR10, depth=depth)
