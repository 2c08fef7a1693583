"""Operations that start as average pooling, a skip or zero."""

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, gradients, shaken, signal, truth

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
