"""Operations that start as average pooling, a skip or zero; kernels that may grow; causal operations."""

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, conv, gradients, shaken, signal, truth

POOLS = [
    (nn.AvgPool1d(3), (10,)),
    (nn.AvgPool1d(2, stride=1, padding=1), (7,)),
    (nn.AvgPool2d(2), (6, 9)),
    (nn.AvgPool2d((3, 2), stride=(2, 1), padding=1), (8, 7)),
    (nn.AvgPool2d(3, divisor_override=2), (9, 9)),
    (nn.AvgPool2d(2, ceil_mode=True), (6, 8)),
    (nn.AvgPool3d(2, padding=1, stride=1), (3, 4, 5)),
]


@pytest.mark.parametrize(("pool", "sizes"), POOLS)
def test_average_pooling(pool, sizes):
    x = signal(2, 3, *sizes).float()
    for options in [{}, {"paper": True}, {"depth": (2, 2, 2)}, {"gates": False}]:
        operation = XD.from_avg_pool(pool, 3, sizes, **options)
        agree([operation(x)], [pool(x)], 1e-5)


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col"])
def test_pooling_learns_away_from_its_start(order):
    operation = XD.from_avg_pool(nn.AvgPool2d(2), 2, (4, 6), order=order).double()
    x = signal(3, 2, 4, 6)
    parameters = dict(operation.named_parameters())
    found = dict(zip(parameters, gradients(operation(x), list(parameters.values())), strict=True))
    zero = {name for name, gradient in found.items() if not gradient.any()}
    # L is zero because its first factor is: that one moves first.
    assert zero == {"weight", "architecture.L.1.entries"}
    agree([shaken(operation)(x)], [truth(operation, x)])


@pytest.mark.parametrize(("pool", "sizes"), POOLS)
def test_frozen_pooling_is_a_plain_convolution(pool, sizes):
    operation = XD.from_avg_pool(pool, 3, sizes, depth=(1, 2, 1), dtype=torch.float64)
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    assert operation.architecture.frozen_at_start()
    x = signal(2, 3, *sizes)
    agree([operation(x)], [pool(x)], 1e-12)
    assert not gradients(operation(x), [operation.weight])[0].any(), "the weight does not count, but has a gradient"
    assert not gradients(operation(x[:0]), [operation.weight])[0].any()
    with torch.no_grad():
        operation.architecture.b.add_(0.1)
    agree([operation(x)], [truth(operation, x)])


def test_skips():
    x = signal(2, 3, 7, 8).float()
    agree([XD.from_identity(3, (7, 8))(x)], [x], 1e-5)
    agree([XD.from_identity(3, (7, 8), stride=2)(x)], [x[..., ::2, ::2]], 1e-5)
    agree([XD.from_identity(3, (7, 8), scale=0.0)(x)], [torch.zeros_like(x)], 1e-5)
    frozen = XD.from_identity(3, (7, 8), stride=2).requires_grad_(False)
    assert torch.equal(frozen(x), x[..., ::2, ::2])


def test_pooling_that_is_no_xd_operation():
    with pytest.raises(ValueError, match="not the same everywhere"):
        XD.from_avg_pool(nn.AvgPool2d(2, padding=1, count_include_pad=False), 3, 6)
    with pytest.raises(ValueError, match="cuts its last window at size 7"):
        XD.from_avg_pool(nn.AvgPool2d(2, ceil_mode=True), 3, 7)
    with pytest.raises(ValueError, match="not MaxPool2d"):
        XD.from_avg_pool(nn.MaxPool2d(2), 3, 7)


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect"])
@pytest.mark.parametrize("options", [{"padding": 1}, {"padding": 2, "stride": 2, "dilation": 2}])
def test_kernels_grow_around_what_they_were(mode, options):
    layer = conv(2, 2, 4, 3, padding_mode=mode, groups=2, **options)
    x = signal(2, 2, 12, 13)
    for taps in (2, 3, 4, 5):
        operation = XD.from_conv(layer, (12, 13), max_kernel=taps)
        assert operation.weight.shape[2:] == (max(3, taps),) * 2
        agree([operation(x)], [layer(x)], 1e-12)
        for parameter in operation.arch_parameters():
            parameter.requires_grad_(False)
        agree([operation(x)], [layer(x)], 1e-12)
        # New taps get gradients: they see what taps at their places see.
        assert all(gradients(operation(x), [operation.weight])[0].flatten())


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
