"""Operations that start as transposed convolutions: every stride, padding, output padding, dilation and group."""

import itertools

import pytest
import torch
from torch import nn

from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, gradients, shaken, signal, truth

LAYERS = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def transposed(axes, *args, **options):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return LAYERS[axes](*args, dtype=torch.float64, **options)


def frozen(operation):
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    return operation


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_1d(size, stride, padding):
    x = signal(2, 4, size)
    count = 0
    for kernel, dilation, more in itertools.product((1, 2, 3), (1, 2), (0, 1, 2)):
        if more >= max(stride, dilation) or (size - 1) * stride + dilation * (kernel - 1) + 1 + more <= 2 * padding:
            continue
        options = {"stride": stride, "padding": padding, "output_padding": more, "dilation": dilation}
        layer = transposed(1, 4, 6, kernel, groups=2, **options)
        for taps in (None, 4, 5):
            operation = XD.from_transposed(layer, size, max_kernel=taps)
            agree([operation(x)], [layer(x)], 1e-12)
            agree([frozen(operation)(x)], [layer(x)], 1e-12)
        count += 1
    assert count or size < 7


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (transposed(2, 2, 3, 2, stride=2), (4, 5)),
        (transposed(2, 4, 2, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 2), groups=2), (5, 3)),
        (transposed(2, 2, 2, 3, dilation=2, stride=5, bias=False), (3, 2)),  # Claim A.7: stride of the dilated kernel
        (transposed(3, 2, 2, (2, 3, 1), stride=(2, 1, 1), padding=(0, 1, 0)), (2, 3, 4)),
    ],
)
def test_values_and_gradients(layer, sizes):
    x = signal(2, layer.in_channels, *sizes).requires_grad_()
    inputs = [x, *layer.parameters()]
    for options in [{}, {"paper": True}, {"depth": (2, 3, 2)}, {"fewest": True}, {"bias": False, "gates": False}]:
        operation = XD.from_transposed(layer, sizes, **options)
        agree([operation(x)], [layer(x)], 1e-12)
        agree(gradients(operation(x), inputs), gradients(layer(x), inputs))
    assert operation.weight is layer.weight
    assert operation.bias is layer.bias


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col"])
@pytest.mark.parametrize("recompute", [False, True])
def test_away_from_the_start(order, recompute):
    layer = transposed(2, 4, 2, 3, stride=2, padding=1, output_padding=1, groups=2)
    operation = shaken(XD.from_transposed(layer, (4, 3), order=order, recompute=recompute))
    x = signal(2, 4, 4, 3).requires_grad_()
    agree([operation(x)], [truth(operation, x)])
    inputs = [x, *operation.parameters()]
    agree(gradients(operation(x), inputs), gradients(truth(operation, x), inputs))


def test_other_sizes():
    layer = transposed(1, 2, 3, 4, stride=2, padding=1)
    operation = XD.from_transposed(layer, 9)
    x = signal(2, 2, 6)
    agree([operation(x)], [layer(x)], 1e-12)
    x = signal(1, 2, 12)
    agree([operation(x)], [layer(x)], 1e-12)  # still what it started as
    shaken(operation)
    with pytest.raises(ValueError, match="an input of size 12 needs transforms of size 25; .* build the operation"):
        operation(x)


def test_wrong_starts():
    with pytest.raises(ValueError, match="only ConvTranspose1d, 2d and 3d .* not Conv1d"):
        XD.from_transposed(nn.Conv1d(2, 2, 3), 9)
    with pytest.raises(
        ValueError, match="padding cuts off 3 and 3 of 5 outputs of an input of size 3: nothing is left"
    ):
        XD.from_transposed(nn.ConvTranspose1d(2, 2, 3, padding=3), 3)


def test_autocast_computes_as_the_layer_does():
    layer = transposed(1, 2, 2, 3, stride=2).float()
    operation = frozen(XD.from_transposed(layer, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert operation(signal(1, 2, 8).float()).dtype == torch.bfloat16
