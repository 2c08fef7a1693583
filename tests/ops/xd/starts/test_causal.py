"""Causal operations: no output sees farther ahead than the start does, whatever is learned."""

import pytest
import torch

from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, conv, gradients, shaken, signal


def causal_operations():
    yield XD.from_conv(conv(1, 2, 2, 3, padding=2), 6, causal=True)
    yield XD.from_conv(conv(1, 2, 2, 3, padding=1), 6, causal=True, depth=(2, 2, 2))
    yield XD.from_conv(conv(1, 2, 2, 3, padding=2, stride=2), 7, causal=True, order="im2col")
    yield XD.from_conv(conv(1, 2, 2, 3, dilation=2), 9, causal=True, max_kernel=5)
    yield XD.from_conv(conv(1, 2, 2, 3, padding=4), 6, causal=True)
    yield XD.from_conv(conv(1, 2, 4, 2, padding=4, dilation=4, groups=2), 6, causal=True, gates=False)
    yield XD.from_conv(conv(2, 2, 2, 3, padding=2), (3, 5), causal=True)
    yield XD.from_conv(conv(3, 1, 2, 2, padding=1), (2, 3, 4), causal=True, order="im2col")


@pytest.mark.parametrize("operation", list(causal_operations()))
@pytest.mark.parametrize("recompute", [False, True])
def test_no_output_sees_the_future(operation, recompute):
    operation.recompute = recompute
    sizes = [axis.size for axis in operation.axes]
    x = signal(1, operation.in_channels, *sizes)
    jacobian = torch.autograd.functional.jacobian(shaken(operation), x)
    allowed = operation.axes[-1].causal()
    jacobian = jacobian.movedim(len(sizes) + 1, -2)  # (..., last out, last size)
    assert not jacobian[..., ~allowed].any()
    assert operation.groups > 1 or jacobian[..., allowed].all()
    assert len(gradients(operation(x), list(operation.parameters()))) > 0


def test_causal_operations_start_as_the_causal_convolution():
    layer = conv(1, 2, 3, 3, padding=4, dilation=2)
    x = signal(2, 2, 9)
    operation = XD.from_conv(layer, 9, causal=True)
    agree([operation(x)], [layer(x)], 1e-12)
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    agree([operation(x)], [layer(x)], 1e-12)


@pytest.mark.parametrize(("padding", "ahead"), [(0, 4), (2, 2), (4, 0), (5, -1)])
def test_causal_operations_look_no_farther_ahead_than_their_start(padding, ahead):
    layer = conv(1, 1, 1, 3, padding=padding, dilation=2, bias=False)
    allowed = XD.from_conv(layer, 9, causal=True).axes[-1].causal()
    places = torch.arange(9) - torch.arange(len(allowed)).unsqueeze(1)
    assert torch.equal(allowed, places <= ahead)
    with torch.no_grad():
        layer.weight[..., :2] = 0  # the last tap alone
    jacobian = torch.autograd.functional.jacobian(layer, signal(1, 1, 9)).flatten(0, 2).flatten(1)
    assert torch.equal(jacobian != 0, places == ahead)


def test_causal_mistakes():
    with pytest.raises(ValueError, match="circular padding shows the future"):
        XD.from_conv(conv(1, 2, 2, 3, padding=1, padding_mode="circular"), 6, causal=True)
    with pytest.raises(ValueError, match="'frequency' is no order of evaluation of a causal operation; there are sand"):
        XD.from_conv(conv(1, 2, 2, 3, padding=1), 6, causal=True, order="frequency")
