import pytest
import torch

from eclose.backbones.wideresnet import PreActivationBlock


def relu_norm(norm, x):
    return torch.relu((x - norm.running_mean[:, None]) / (norm.running_var[:, None] + norm.eps).sqrt())


def test_formula_where_shapes_stay():
    block = PreActivationBlock(1, 3, 3, kernel=(3,), stride=(1,))
    x = torch.randn(4, 3, 8)
    block(x)  # moves the running statistics
    block.eval()
    inner = block.conv2(relu_norm(block.norm2, block.conv1(relu_norm(block.norm1, x))))
    torch.testing.assert_close(block(x), x + inner)


@pytest.mark.parametrize(("outputs", "stride"), [(5, 1), (3, 2), (5, 2)])
def test_formula_where_shapes_change(outputs, stride):
    block = PreActivationBlock(1, 3, outputs, kernel=(5,), stride=(stride,)).eval()
    x = torch.randn(4, 3, 9)
    activated = relu_norm(block.norm1, x)
    inner = block.conv2(relu_norm(block.norm2, block.conv1(activated)))
    pointwise = torch.einsum("bit,oi->bot", activated, block.shortcut.weight[:, :, 0])[:, :, ::stride]
    torch.testing.assert_close(block(x), pointwise + inner)


def test_strides_by_axis():
    block = PreActivationBlock(3, 2, 4, kernel=(3, 1, 5), stride=(1, 2, 4))
    assert block(torch.randn(2, 2, 5, 5, 5)).shape == (2, 4, 5, 3, 2)


def test_dropout_is_off_in_evaluation():
    block = PreActivationBlock(1, 3, 3, kernel=(3,), stride=(1,), dropout=0.9)
    x = torch.randn(4, 3, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))
