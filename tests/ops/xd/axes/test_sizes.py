"""Inputs of other sizes than the planned one: exact where they fit or nothing has been learned, else refused."""

import itertools

import pytest
import torch

from eclose.ops.xd import XD, plan_axis
from eclose.ops.xd.evaluation import orders_of
from tests.ops.xd.cases import CONVS, agree, conv, gradients, shaken, signal, truth

MODES = [("zeros", 1), ("zeros", 0), ("zeros", 5), ("circular", 2), ("circular", 5), ("reflect", 2), ("replicate", 3)]
SIZES = (1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 24, 31)


def outcome(function, x):
    try:
        return function(x)
    except (ValueError, RuntimeError) as error:
        return error


@pytest.mark.parametrize("planned", [9, 12])
@pytest.mark.parametrize(("mode", "padding"), MODES)
def test_any_size_at_the_start(mode, padding, planned):
    """What torch's layer gives is given, and what it refuses is refused: trained or frozen, fitting or not."""
    for stride, dilation, kernel in itertools.product((1, 2, 3), (1, 2), (2, 3)):
        options = {"padding": padding, "padding_mode": mode, "stride": stride, "dilation": dilation}
        layer = conv(1, 2, 2, kernel, **options)
        operation = XD.from_conv(layer, planned)
        for size, trained in itertools.product(SIZES, (True, False)):
            for parameter in operation.arch_parameters():
                parameter.requires_grad_(trained)
            x = signal(2, 2, size)
            expected, found = outcome(layer, x), outcome(operation, x)
            if isinstance(expected, torch.Tensor):
                agree([found], [expected], 1e-12)
            else:
                assert isinstance(found, ValueError)


@pytest.mark.parametrize("order", orders_of([plan_axis(8, 3)]))
@pytest.mark.parametrize(("mode", "padding"), MODES)
def test_learned_operations_take_what_fits(mode, padding, order):
    """As the same matrices on the extended signal; never with fewer outputs than a convolution has."""
    taken = []
    for stride in (1, 2):
        layer = conv(1, 2, 2, 3, padding=padding, padding_mode=mode, stride=stride)
        operation = shaken(XD.from_conv(layer, 9, order=order))
        for size in SIZES:
            x = signal(1, 2, size)
            expected, found = outcome(layer, x), outcome(operation, x)
            if isinstance(found, torch.Tensor):
                assert found.shape == expected.shape
                agree([found], [truth(operation, x)])
                taken.append(size)
            elif isinstance(expected, torch.Tensor):
                assert f"an input of size {size} needs transforms of size" in str(found)
                assert "planned for inputs of size 9" in str(found)
                assert not operation.axes[0].at(size).fits
    assert min(taken) < 9 <= max(taken) < 31


def test_matrices_are_exact_wherever_an_axis_fits():
    for (mode, padding), stride, dilation in itertools.product(MODES, (1, 2, 3), (1, 2)):
        layer = conv(1, 1, 1, 3, padding=padding, padding_mode=mode, stride=stride, dilation=dilation, bias=False)
        operation = XD.from_conv(layer, 9, order="frequency")
        for size in SIZES:
            x = signal(1, 1, size)
            expected = outcome(layer, x)
            if isinstance(expected, torch.Tensor) and operation.axes[0].at(size).fits:
                agree([truth(operation, x)], [expected], 1e-12)


def test_circular_signals_that_fill_a_padded_transform():
    """Padded by more than taps reach there are more outputs than inputs, and no transform of the input's size."""
    layer = conv(1, 1, 1, 3, padding=3, padding_mode="circular")
    operation = XD.from_conv(layer, 8, largest=7)
    assert operation.axes[0].transform == 14
    agree([operation(signal(1, 1, 14))], [layer(signal(1, 1, 14))])
    with pytest.raises(ValueError, match="size 14 needs transforms of size 20; .* size 8 and have size 14: build"):
        shaken(operation)(signal(1, 1, 14))
    wrapping = XD.from_conv(conv(1, 1, 1, 3, padding=1, padding_mode="circular"), 19, largest=7)
    assert wrapping.axes[0].transform == 21
    assert wrapping.axes[0].at(21).wraps
    assert shaken(wrapping)(signal(1, 1, 21)).shape == (1, 1, 21)


@pytest.mark.parametrize("axes", CONVS)
def test_every_axis_is_looked_at(axes):
    layer = conv(axes, 2, 2, 3, padding=1)
    operation = XD.from_conv(layer, 5)
    for place in range(axes):
        sizes = [5] * axes
        sizes[place] = 8
        x = signal(1, 2, *sizes)
        agree([operation(x)], [layer(x)], 1e-12)
        with pytest.raises(ValueError, match="size 8 needs transforms of size 9; .* size 5 and have size 6: build"):
            shaken(XD.from_conv(layer, 5))(x)


def test_architectures_do_not_learn_from_what_does_not_fit():
    layer = conv(1, 2, 2, 3, padding=1)
    operation = XD.from_conv(layer, 9)
    x = signal(1, 2, 12).requires_grad_()
    y = operation(x)
    with pytest.raises(ValueError, match="size 12 .* size 9 .* cannot learn from it; freeze it, or build .* size 12"):
        y.sum().backward()
    operation.architecture.requires_grad_(False)
    inputs = [x, *layer.parameters()]
    agree(gradients(operation(x), inputs), gradients(layer(x), inputs))


def test_causal_operations_of_another_size():
    layer = conv(1, 2, 2, 3, padding=2)
    operation = XD.from_conv(layer, 9, causal=True)
    agree([operation(signal(1, 2, 30))], [layer(signal(1, 2, 30))])
    x = signal(1, 2, 7)
    y = shaken(operation)(x)
    assert y.shape == layer(x).shape
    assert torch.equal(shaken(XD.from_conv(layer, 9, causal=True))(x), y)


def test_pooling_starts_of_another_size():
    pool = torch.nn.AvgPool1d(2)
    operation = XD.from_avg_pool(pool, 2, 10, largest=5).double()
    for size in (6, 12):
        agree([operation(signal(1, 2, size))], [pool(signal(1, 2, size))], 1e-6)
    shaken(operation)
    with pytest.raises(ValueError, match="size 12 needs transforms of size 12; .* size 10 and have size 10: build"):
        operation(signal(1, 2, 12))


def test_planned_axes_fit():
    for size, taps, mode in itertools.product((1, 2, 8, 19, 106), (1, 2, 5), ("zeros", "circular", "replicate")):
        for stride, dilation, paper in itertools.product((1, 3), (1, 2), (False, True)):
            padding = (min(size, dilation * (taps - 1)),) * 2
            if size + sum(padding) > dilation * (taps - 1):
                options = {"stride": stride, "dilation": dilation, "padding": padding, "mode": mode, "paper": paper}
                assert plan_axis(size, taps, **options).fits
