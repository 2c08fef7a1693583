"""The nearest known operation of learned ones: exact where they are known, right under noise, optimal anywhere."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from eclose.ops.xd import XD, nearest_gates, nearest_operations
from tests.ops.xd.cases import OPERATIONS, conv, shaken
from tests.ops.xd.learned_operations import band, dilated, low_passed, made, residual, scrambled, tabulated

EXACT = 1e-6
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def best(operation):
    return nearest_operations(operation)[0]


def named(operation, name):
    return next(found for found in nearest_operations(operation) if found.name == name)


def units(operation):
    sizes = [axis.size for axis in operation.axes]
    return torch.eye(math.prod(sizes), dtype=torch.float64).view(-1, 1, *sizes)


def convolved(operation, dilations, lefts, x=None):
    """Taps ``(taps, outputs, inputs)`` of torch's convolution; lefts are what it pads before the signal."""
    x = units(operation) if x is None else x
    axes = operation.axes
    function = {1: F.conv1d, 2: F.conv2d}[len(axes)]
    for dim, (axis, dilation, left) in enumerate(zip(axes, dilations, lefts, strict=True), start=2):
        reach = dilation * (axis.kernel - 1) + (axis.out - 1) * axis.stride + 1
        places = torch.arange(reach) - left
        inside = (places >= 0) & (places < axis.size)
        x = x.index_select(dim, places % axis.size)
        if axis.mode == "zeros":
            x = x * inside.view(-1, *[1] * (x.dim() - dim - 1))
    weights = torch.eye(math.prod(axis.kernel for axis in axes), dtype=torch.float64)
    weights = weights.view(-1, 1, *[axis.kernel for axis in axes])
    y = function(x, weights, stride=[axis.stride for axis in axes], dilation=dilations)
    return y.flatten(2).permute(1, 2, 0)


@pytest.mark.parametrize("name", OPERATIONS)
def test_starts_are_their_convolutions(name):
    operation = OPERATIONS[name]()
    found = best(operation)
    assert found.name == "convolution"
    assert found.residual < EXACT
    assert found.parameters["dilation"] == tuple(axis.dilation for axis in operation.axes)
    assert not any(found.parameters["shift"])
    assert found.parameters["scale"] == pytest.approx(1)


@pytest.mark.parametrize("size", [1, 2, 3, 13])
@pytest.mark.parametrize("mode", ["zeros", "circular", "replicate"])
def test_awkward_sizes(size, mode):
    operation = XD.from_conv(conv(1, 1, 1, 3, padding=1, padding_mode=mode), size, depth=(2, 2, 2))
    assert best(operation).name == "convolution"
    assert best(operation).residual < EXACT
    assert all(0 <= found.residual < 1 + 1e-9 for found in nearest_operations(shaken(operation)))


DILATED = [
    ((16,), 3, (2,), (2,), "circular", 0),
    ((16,), 3, (2,), (1,), "circular", 1),
    ((15,), 3, (5,), (0,), "circular", 5),
    ((17,), 4, (3,), (6,), "circular", -2),
    ((9, 8), 3, (2, 3), (2, 3), "circular", 0),
]


@pytest.mark.parametrize(("sizes", "kernel", "dilations", "lefts", "mode", "shift"), DILATED)
def test_dilation(sizes, kernel, dilations, lefts, mode, shift):
    operation = dilated(sizes, kernel, dilations, lefts, mode)
    found = best(operation)
    assert (found.name, found.parameters["dilation"]) == ("convolution", dilations)
    assert found.residual < EXACT
    assert found.parameters["shift"] == (shift,) * len(sizes)
    noisy = shaken(operation, scale=0.02)
    again = best(noisy)
    assert (again.name, again.parameters["dilation"]) == ("convolution", dilations)
    assert again.residual == pytest.approx(residual(noisy, convolved(noisy, dilations, lefts)), rel=1e-9)
    assert 0.02 < again.residual < 0.4


def test_dilation_with_zeros_around():
    # A transform of the paper's size has room for what the wider taps read outside.
    operation = dilated((20,), 3, (3,), (3,), "zeros", paper=True)
    assert str(best(operation)) == "convolution with dilation 3, residual below 0.1 %"
    # Without that room they wrap round, which torch's convolution does not: that is in the residual.
    tight = dilated((20,), 3, (3,), (3,), "zeros")
    assert best(tight).parameters["dilation"] == (3,)
    assert best(tight).residual == pytest.approx(residual(tight, convolved(tight, (3,), (3,))), rel=1e-9)
    assert best(tight).residual > 0.1


@pytest.mark.parametrize("mode", ["zeros", "circular"])
@pytest.mark.parametrize("stride", [1, 2])
def test_no_convolution_is_nearer(mode, stride):
    layer = conv(1, 1, 1, 2, padding=1, stride=stride, padding_mode=mode, bias=False)
    operation = shaken(XD.from_conv(layer, 6), scale=1.0)
    lefts = range(6) if mode == "circular" else range(-12, 13)
    choices = [convolved(operation, (dilation,), (left,)) for dilation in range(1, 6) for left in lefts]
    ours = tabulated(operation)
    least = min(residual(operation, taps, ours=ours) for taps in choices if taps.any())
    assert named(operation, "convolution").residual == pytest.approx(least, rel=1e-9)


POOLS = [
    (nn.AvgPool1d(3), (10,), (3,), (0,)),
    (nn.AvgPool1d(2, stride=1, padding=1), (7,), (2,), (1,)),
    (nn.AvgPool2d((3, 2), stride=(2, 1), padding=1), (8, 7), (3, 2), (1, 1)),
    (nn.AvgPool3d(2, padding=1, stride=1), (3, 4, 5), (2, 2, 2), (1, 1, 1)),
]


@pytest.mark.parametrize(("pool", "sizes", "kernel", "padding"), POOLS)
def test_average_pooling(pool, sizes, kernel, padding):
    operation = XD.from_avg_pool(pool, 1, sizes).double()
    found = best(operation)
    assert (found.name, found.parameters["kernel"], found.parameters["padding"]) == ("average pooling", kernel, padding)
    assert found.parameters["scale"] == pytest.approx(1, rel=1e-6)
    assert found.residual < EXACT
    noisy = shaken(operation, scale=0.01)
    free = pool(units(noisy)).flatten(1).mT
    again = best(noisy)
    assert (again.name, again.parameters["kernel"], again.parameters["padding"]) == ("average pooling", kernel, padding)
    assert again.residual == pytest.approx(residual(noisy, free=free), rel=1e-6)


def test_no_window_is_nearer():
    operation = shaken(XD.from_avg_pool(nn.AvgPool1d(3, stride=2, padding=1), 1, (7,)).double(), scale=1.0)
    choices = [(size, pad) for size in range(1, 20) for pad in range(-7, size + 7)]
    least, ours = 1.0, tabulated(operation)
    for size, pad in choices:
        around = F.pad(units(operation), (30, 30))[..., 30 - pad :]
        free = F.avg_pool1d(around, size, stride=2)[..., : operation.axes[0].out].flatten(1).mT
        least = min(least, residual(operation, free=free, ours=ours)) if free.any() else least
    found = min(n.residual for n in nearest_operations(operation) if n.name in ("skip", "average pooling"))
    assert found == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("stride", [1, 2])
def test_skip(stride):
    operation = XD.from_identity(1, (7, 8), stride=stride, scale=0.7).double()
    found = best(operation)
    assert (found.name, found.parameters["shift"], str(found)) == ("skip", (0, 0), "skip, residual below 0.1 %")
    assert found.parameters["scale"] == pytest.approx(0.7)
    noisy = shaken(operation, scale=0.01)
    free = units(noisy)[..., ::stride, ::stride].flatten(1).mT
    assert best(noisy).name == "skip"
    assert best(noisy).residual == pytest.approx(residual(noisy, free=free), rel=1e-6)


def test_zero():
    operation = XD.from_identity(2, (7, 8), scale=0.0)
    assert (best(operation).name, best(operation).residual) == ("zero", 0)
    noisy = best(shaken(operation, scale=1e-3))
    assert noisy.name == "zero"
    assert 1e-4 < noisy.residual < 0.01
    layer = XD.from_conv(conv(1, 2, 2, 3, padding=1), 8)
    assert named(layer, "zero").residual == 1
    with torch.no_grad():
        layer.architecture.L[0].entries.zero_()
    assert (best(layer).name, best(layer).residual) == ("zero", 0)


@pytest.mark.parametrize(
    ("sizes", "modes", "mode"),
    [((32,), 4, "circular"), ((32,), 4, "zeros"), ((30,), 5, "zeros"), ((9, 8), 2, "circular")],
)
def test_band_limited(sizes, modes, mode):
    operation = band(sizes, modes, mode)
    found = best(operation)
    assert (found.name, found.parameters["modes"]) == ("band-limited", (modes,) * len(sizes))
    assert found.residual < EXACT
    noisy = best(shaken(operation, scale=0.002))
    assert (noisy.name, noisy.parameters["modes"]) == ("band-limited", (modes,) * len(sizes))
    assert 0.002 < noisy.residual < 0.2


@pytest.mark.parametrize(("size", "stride", "paper"), [(16, 1, False), (17, 1, True), (15, 2, False), (16, 3, True)])
@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect"])
def test_filters_are_fitted_by_least_squares(size, stride, paper, mode):
    layer = conv(1, 1, 1, 3, padding=1, stride=stride, padding_mode=mode, bias=False)
    operation = low_passed(XD.from_conv(layer, size, bias=False, paper=paper), 3)
    compare_with_least_squares(operation)


def test_filters_of_two_axes_are_fitted_by_least_squares():
    compare_with_least_squares(low_passed(made((9, 8), (3, 2), (1, 1, 1), bias=False), 2))


def test_what_needs_most_frequencies_is_not_band_limited():
    # Noise in L alone leaves every tap a filter, of all frequencies.
    operation = made((64,), 3, (1, 1, 1))
    with torch.no_grad():
        entries = operation.architecture.L[0].entries
        entries.add_(0.1 * torch.randn(entries.shape, generator=torch.Generator().manual_seed(0), dtype=entries.dtype))
    assert best(operation).name == "convolution"
    assert all(found.name != "band-limited" for found in nearest_operations(operation))
    assert best(low_passed(operation, 9)).name == "band-limited"


def compare_with_least_squares(operation):
    assert named(operation, "band-limited").residual < EXACT
    found = named(shaken(operation, scale=0.005), "band-limited")
    basis = torch.ones(1, 1, 1, dtype=torch.float64)  # (filters, outputs, inputs)
    for axis, modes in zip(operation.axes, found.parameters["modes"], strict=True):
        more = filters(axis, modes)
        basis = torch.einsum("ipu,jqv->ijpquv", basis, more).flatten(0, 1).flatten(-2).flatten(1, 2)
    taps, basis = tabulated(operation)[0].flatten(1).mT, basis.flatten(1).mT
    rest = taps - basis @ torch.linalg.lstsq(basis, taps, driver="gelsd").solution
    assert found.residual == pytest.approx((rest.norm() / taps.norm()).item(), rel=1e-6)


def filters(axis, modes):
    """Real filters of one frequency each, ``(filters, outputs, inputs)``, applied by torch's transforms."""
    places, extension = axis.sources(), torch.eye(axis.transform, axis.size)
    if places is not None:
        extension = F.one_hot(places + 1, axis.size + 1)[:, 1:]
    found = []
    for frequency, phase in itertools.product(range(modes), (1, 1j)):
        spectrum = torch.zeros(axis.transform // 2 + 1, 1, dtype=torch.complex128)
        spectrum[frequency] = phase
        filtered = torch.fft.irfft(spectrum * torch.fft.rfft(extension.double(), dim=0), axis.transform, dim=0)
        found.append(filtered[axis.rows()])
    return torch.stack(found)


@pytest.mark.parametrize("mode", ["zeros", "circular"])
@pytest.mark.parametrize("sizes", [(7,), (32,), (13, 6)])
def test_permutation_then_convolution(sizes, mode):
    operation, orders = scrambled(sizes, 3, mode)
    found = best(operation)
    assert found.name == "permutation, then convolution"
    assert found.residual < EXACT
    assert found.parameters["order"] == tuple(tuple(order.tolist()) for order in orders)
    noisy = shaken(operation, scale=0.02)
    x = units(noisy)
    for dim, order in enumerate(orders, start=2):
        x = x.index_select(dim, order)
    again = best(noisy)
    assert (again.name, again.parameters["order"]) == (found.name, found.parameters["order"])
    taps = convolved(noisy, (1,) * len(sizes), (1,) * len(sizes), x)
    assert again.residual == pytest.approx(residual(noisy, taps), rel=1e-9)


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_no_permutation_is_nearer(mode):
    operation = shaken(made((5,), 3, (1, 1, 1), mode), scale=1.0)
    plain = convolved(operation, (1,), (1,))
    places, ours = itertools.permutations(range(5)), tabulated(operation)
    least = min(residual(operation, plain[..., list(place)], ours=ours) for place in places)
    assert named(operation, "permutation, then convolution").residual == pytest.approx(least, rel=1e-9)


def test_weights_and_bias_count_by_their_sizes():
    operation = made((8,), 3, (1, 1, 1))
    with torch.no_grad():
        operation.weight.fill_(0.1)
        operation.architecture.b[..., 0] = 0.2  # a skip of 0.2 beside the convolution
    found = nearest_operations(operation)
    assert [one.name for one in found[:2]] == ["skip", "convolution"]
    assert found[0].parameters["scale"] == pytest.approx(0.2)
    whole = math.hypot(0.2, 0.1 * 3**0.5)
    assert found[0].residual == pytest.approx(0.1 * 3**0.5 / whole)
    assert found[1].residual == pytest.approx(0.2 / whole)


@pytest.mark.parametrize("padding", [2, 4])
def test_causal_operations(padding):
    operation = XD.from_conv(conv(1, 1, 1, 5, padding=padding, bias=False), 9, causal=True)
    assert best(operation).name == "convolution"
    assert best(operation).residual < EXACT
    noisy = shaken(operation, scale=0.05)
    taps = convolved(noisy, (1,), (padding,)) * noisy.axes[0].causal()
    assert best(noisy).residual == pytest.approx(residual(noisy, taps), rel=1e-9)
    identity = torch.eye(noisy.axes[0].out, 9, dtype=torch.float64)
    assert named(noisy, "skip").residual == pytest.approx(residual(noisy, free=identity), rel=1e-6)


def test_gates():
    operation = XD.from_conv(conv(1, 3, 3, 3, padding=1), 8)
    assert [(found.name, found.residual) for found in nearest_gates(operation)][0] == ("all channels", 0)
    with torch.no_grad():
        operation.architecture.C.copy_(2 * torch.eye(3))
    depthwise, everything = nearest_gates(operation)
    assert (depthwise.name, depthwise.parameters, depthwise.residual) == ("depthwise", {"scale": 2}, 0)
    assert everything.residual == pytest.approx(math.sqrt(2 / 3))
    assert len(nearest_gates(XD.from_conv(conv(1, 4, 2, 3), 8, gates=False))) == 1


def test_complex_gates():
    operation = XD.from_conv(conv(1, 3, 3, 3, padding=1), 8, gates="complex")
    everything, _ = nearest_gates(operation)
    assert (everything.name, everything.parameters, everything.residual) == (
        "all channels",
        {"scale": 1, "phase": 0},
        0,
    )
    phase = torch.polar(torch.tensor(2.0).double(), torch.tensor(0.5).double())
    with torch.no_grad():
        operation.architecture.C.copy_(torch.view_as_real(phase * torch.eye(3)))
    depthwise, everything = nearest_gates(operation)
    assert depthwise.name == "depthwise"
    assert depthwise.parameters == pytest.approx({"scale": 2, "phase": 0.5})
    assert depthwise.residual < 1e-12
    assert everything.residual == pytest.approx(math.sqrt(2 / 3))
    assert best(operation).name == "convolution"
    assert best(operation).parameters["scale"] == pytest.approx(math.cos(0.5))


def test_precision_and_weights_are_left_alone():
    operation = XD.from_conv(nn.Conv2d(2, 2, 3, padding=1), (6, 5))
    before = {name: tensor.clone() for name, tensor in operation.state_dict().items()}
    assert best(operation).residual < EXACT
    assert all(torch.equal(before[name], tensor) for name, tensor in operation.state_dict().items())
    assert all(parameter.requires_grad for parameter in operation.parameters())
