import pytest
import torch

from eclose.backbones import resnet20
from eclose.backbones.resnet20 import BasicBlock, SubsampledIdentity
from eclose.signature import Signature


def test_parameters_by_hand():
    def layer(inputs, outputs):  # a 3x3 convolution without bias, and its norm
        return 9 * inputs * outputs + 2 * outputs

    stages = 6 * layer(16, 16) + layer(16, 32) + 5 * layer(32, 32) + layer(32, 64) + 5 * layer(64, 64)
    by_hand = layer(3, 16) + stages + 64 * 10 + 10
    model = resnet20(Signature("classification", 3, (32, 32), 10))
    assert sum(p.numel() for p in model.parameters()) == by_hand == 269_722
    assert sum(p.dim() > 1 for p in model.parameters()) == 20


@pytest.mark.parametrize("space", [(7,), (8, 5), (4, 3, 1)])
def test_shortcut_takes_every_second_point_between_zero_channels(space):
    x = torch.randn(2, 3, *space)
    y = SubsampledIdentity(extra=5)(x)
    every_second = (slice(None), slice(None), *(slice(None, None, 2),) * len(space))
    assert torch.equal(y[:, 2:5], x[every_second])
    assert not y[:, :2].any()
    assert not y[:, 5:].any()
    assert y.shape[1] == 8


def test_block_formula():
    block = BasicBlock(2, 4, 8).eval()
    x = torch.randn(2, 4, 7, 6)
    inner = block.norm2(block.conv2(torch.relu(block.norm1(block.conv1(x)))))
    expected = inner.clone()
    expected[:, 2:6] += x[:, :, ::2, ::2]
    torch.testing.assert_close(block(x), torch.relu(expected))


def test_three_resolutions():
    model = resnet20(Signature("classification", 3, (32, 32), 10))
    sizes = []
    for block in model:
        if isinstance(block, BasicBlock):
            block.register_forward_hook(lambda _module, _inputs, y: sizes.append(tuple(y.shape[1:])))
    model(torch.randn(2, 3, 32, 32))
    assert sizes == [(16, 32, 32)] * 3 + [(32, 16, 16)] * 3 + [(64, 8, 8)] * 3
