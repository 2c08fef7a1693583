"""Frozen architectures, wrong inputs."""

import copy

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD
from tests.ops.xd.cases import OPERATIONS, agree, conv, gradients, shaken, signal, truth


def frozen(operation):
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    return operation


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect"])
def test_frozen_is_the_convolution_itself(mode):
    layer = conv(2, 2, 4, 3, padding=1, padding_mode=mode)
    operation = frozen(XD.from_conv(layer, 6))
    x = signal(2, 2, 6, 6).requires_grad_()
    assert torch.equal(operation(x), layer(x))
    inputs = [x, *layer.parameters()]
    for got, expected in zip(gradients(operation(x), inputs), gradients(layer(x), inputs), strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(operation(x[..., :5]), layer(x[..., :5]))  # of any size


def test_frozen_away_from_the_start_is_not():
    operation = frozen(shaken(OPERATIONS["1d"]()))
    x = signal(2, 4, 7)
    agree([operation(x)], [truth(operation, x)])


@pytest.mark.parametrize("part", ["K.0.entries", "b", "C"])
def test_every_change_is_noticed(part):
    layer = conv(1, 2, 2, 3, padding=1)
    operation = frozen(XD.from_conv(layer, 6))
    x = signal(2, 2, 6)
    assert torch.equal(operation(x), layer(x))
    copied = copy.deepcopy(operation)
    with torch.no_grad():
        operation.architecture.get_parameter(part).add_(0.1)
    assert not torch.allclose(operation(x), layer(x))
    assert torch.equal(copied(x), layer(x))
    again = copy.deepcopy(operation)
    agree([again(x)], [operation(x)])
    copied.load_state_dict(operation.state_dict())
    agree([copied(x)], [operation(x)])


def test_frozen_survives_conversion():
    operation = frozen(XD.from_conv(conv(1, 2, 2, 3, padding=1).float(), 6)).double()
    assert operation.architecture.frozen_at_start()


def replica(module):
    """As ``nn.DataParallel`` makes them: a module without parameters, whose tensors are plain attributes."""
    found = module._replicate_for_data_parallel()
    for name, child in module._modules.items():
        found._modules[name] = replica(child)
    for name, parameter in module._parameters.items():
        if parameter is None:
            found._parameters[name] = None
        else:
            setattr(found, name, parameter.view_as(parameter))
    return found


@pytest.mark.parametrize("prepared", [lambda operation: operation, frozen], ids=["trained", "frozen"])
def test_replicas(prepared):
    operation = prepared(shaken(OPERATIONS["1d"]()))
    x = signal(2, 4, 7)
    parameters = [parameter for parameter in operation.parameters() if parameter.requires_grad]
    y, expected = replica(operation)(x), truth(operation, x)
    agree([y, *gradients(y, parameters)], [expected, *gradients(expected, parameters)])


@pytest.mark.parametrize("dtype", [torch.complex128, torch.int64, torch.bool])
def test_wrong_types(dtype):
    operation = XD.from_conv(conv(1, 2, 2, 3, padding=1), 9)
    with pytest.raises(ValueError, match=f"real floating-point inputs, not {dtype}"):
        operation(torch.ones(1, 2, 9, dtype=dtype))


@pytest.mark.parametrize("shape", [(1, 3, 9), (9,), (1, 2, 9, 9)])
def test_wrong_shapes(shape):
    operation = XD.from_conv(conv(1, 2, 2, 3, padding=1), 9)
    with pytest.raises(ValueError, match=r"expected \(batch, 2, 9\)"):
        operation(signal(*shape))


def test_messages_name_the_place_in_the_network():
    operation = XD.from_conv(conv(1, 2, 2, 3), 9)
    operation.path = "blocks.0.conv"
    with pytest.raises(ValueError, match="^blocks.0.conv: an input of shape"):
        operation(signal(1, 3, 9))
    with pytest.raises(ValueError, match="^blocks.0.conv: an XD-operation takes real"):
        operation(torch.ones(1, 2, 9, dtype=torch.int64))
    with pytest.raises(ValueError, match="^blocks.0.conv: 3 taps with dilation 1 reach over 3 points"):
        operation(signal(1, 2, 2))
    with pytest.raises(ValueError, match="^blocks.0.conv: an input of size 99 needs"):
        shaken(operation)(signal(1, 2, 99))


def test_wrong_starts():
    with pytest.raises(ValueError, match="only Conv1d, Conv2d and Conv3d .* not Linear"):
        XD.from_conv(nn.Linear(2, 2), 9)
    with pytest.raises(ValueError, match="2 input sizes given for 1 axes"):
        XD.from_conv(nn.Conv1d(2, 2, 3), (9, 9))
    with pytest.raises(ValueError, match="reach over 9 points, more than an input of size 6"):
        XD.from_conv(nn.Conv1d(2, 2, 5, dilation=2), 6)
    with pytest.raises(ValueError, match="at least 1, not"):
        XD.from_conv(nn.Conv1d(2, 2, 3), 9, depth=(1, 0, 1))
    with pytest.raises(ValueError, match="reflect padding of an input of size 2 is at most 1, not 2"):
        XD.from_conv(nn.Conv1d(2, 2, 3, padding=2, padding_mode="reflect"), 2)


def test_shapes_are_told():
    told = repr(XD.from_conv(nn.Conv2d(2, 4, 3, padding=1, groups=2), (7, 8)))
    assert "2, 4, kernel=(3, 3), sizes=(7, 8), transforms=(8, 9), depth=(1, 1, 1), groups=2" in told


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_an_empty_batch(axes):
    operation = shaken(XD.from_conv(conv(axes, 2, 3, 3, stride=2), [7] * axes))
    y = operation(signal(0, 2, *[7] * axes).requires_grad_())
    assert y.shape == (0, 3, *[3] * axes)
    y.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in operation.parameters())
