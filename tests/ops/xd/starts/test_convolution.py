"""At the start an XD-operation is the convolution it was made from: border included, for all its options."""

import itertools
import math

import pytest
import torch

from eclose.ops.kaleidoscope import pairs
from eclose.ops.kaleidoscope.truth import explicit_stages
from eclose.ops.xd import XD
from eclose.ops.xd.evaluation import ORDERS
from tests.ops.xd.cases import CONVS, agree, computes_under_autocast_as, conv, gradients, signal

PADDINGS = [
    (0, "zeros"),
    (1, "zeros"),
    (4, "zeros"),
    ("valid", "zeros"),
    ("same", "zeros"),
    (2, "circular"),
    ("same", "circular"),
    (2, "reflect"),
    ("same", "reflect"),
    (3, "replicate"),
]


def fits(size, kernel, dilation, padding):
    padded = {"valid": 0, "same": dilation * (kernel - 1) / 2}.get(padding, padding)
    return size + 2 * padded >= dilation * (kernel - 1) + 1


def compare(layer, sizes, **options):
    x = signal(2, layer.in_channels, *sizes)
    operation = XD.from_conv(layer, sizes, **options)
    agree([operation(x)], [layer(x)], 1e-12)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("padding", "mode"), PADDINGS)
@pytest.mark.parametrize("size", [7, 8, 13, 38])
@pytest.mark.parametrize("some", [5, pytest.param(1, marks=pytest.mark.exhaustive)], ids=["some", "all"])
def test_1d(size, padding, mode, some):
    layers = list(itertools.product(range(1, 6), (1, 2, 3), (1, 2, 3), (1, 2)))
    first = (size + PADDINGS.index((padding, mode))) % some  # others for other sizes and paddings
    for kernel, stride, dilation, groups in layers[first::some]:
        usable = fits(size, kernel, dilation, padding) and not (padding == "same" and stride > 1)
        if usable and not (mode == "reflect" and padding == "same" and dilation * (kernel - 1) / 2 >= size):
            options = {"stride": stride, "dilation": dilation, "padding": padding, "padding_mode": mode}
            compare(conv(1, 2, 4, kernel, groups=groups, **options), (size,))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("padding", "mode"), PADDINGS)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_2d(groups, padding, mode):
    for kernel, stride, dilation in itertools.product((1, 3, (2, 5)), (1, (3, 2)), (1, 2)):
        if padding == "same" and stride != 1:
            continue
        options = {"stride": stride, "dilation": dilation, "padding": padding, "padding_mode": mode}
        compare(conv(2, 4, 4, kernel, groups=groups, **options), (9, 11))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("padding", "mode"), PADDINGS)
def test_3d(padding, mode):
    for kernel, stride, dilation in [(1, 1, 1), (3, 1, 1), ((2, 3, 1), 1, (2, 1, 1))]:
        options = {"stride": stride, "dilation": dilation, "padding": padding, "padding_mode": mode}
        compare(conv(3, 2, 4, kernel, groups=2, **options), (5, 4, 7))


@pytest.mark.parametrize("size", [1, 2, 3, 19, 106, 141])
@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_awkward_sizes(size, mode):
    compare(conv(1, 1, 2, 3, padding=1, padding_mode=mode), (size,))


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect"])
def test_other_starts_of_the_same_function(mode):
    layer = conv(2, 2, 2, 3, padding=1, padding_mode=mode)
    for options in [{"paper": True}, {"depth": (3, 2, 4)}, {"fewest": True}, {"largest": 3}, {"bias": False}]:
        compare(layer, (10, 12), **options)


def test_transforms_of_the_paper():
    layer = conv(1, 2, 2, 3, padding=1)
    operation = XD.from_conv(layer, 32, paper=True, depth=(1, 2, 3), bias=False, gates=False)
    assert operation.axes[0].transform == 64
    assert sum(p.numel() for p in operation.arch_parameters()) == sum(d * 4 * 64 * 6 for d in (1, 2, 3))


@pytest.mark.parametrize(
    ("size", "mode", "options", "transform", "radices"),
    [
        (32, "zeros", {}, 40, (2, 2, 2, 5)),
        (85, "zeros", {}, 96, (2, 2, 2, 2, 2, 3)),
        (85, "zeros", {"largest": 2}, 128, (2,) * 7),
        (85, "circular", {}, 100, (2, 2, 5, 5)),  # the signal goes on periodically, folded into M
        (85, "circular", {"largest": 3}, 108, (2, 2, 3, 3, 3)),
        (85, "circular", {"largest": 17}, 85, (5, 17)),  # needs no padding, but has dense blocks of 17 x 17
        (96, "circular", {}, 96, (2, 2, 2, 2, 2, 3)),
        (96, "circular", {"fewest": True}, 96, (8, 12)),
    ],
)
def test_sizes_have_small_factors_before_they_fit(size, mode, options, transform, radices):
    layer = conv(2, 1, 1, 13, padding=6, padding_mode=mode)
    operation = XD.from_conv(layer, size, **options)
    assert [axis.transform for axis in operation.axes] == [transform] * 2
    assert operation.architecture.radices == (radices,) * 2


def test_every_stage_of_k_and_m_is_unitary_at_the_start():
    """L is a plain transform. What an earlier version saved has K = F^-1 and M = F, the same function."""
    layer = conv(2, 2, 3, 3, padding=1)
    operation, earlier = XD.from_conv(layer, (5, 11)), XD.from_conv(layer, (5, 11), unitary=False)
    for place, axis in enumerate(operation.axes):
        scale = math.sqrt(axis.transform)
        for part, factor in (("K", scale), ("M", 1 / scale), ("L", 1.0)):
            now, before = (getattr(one.architecture, part)[place].matrix for one in (operation, earlier))
            agree([now.dense()], [factor * before.dense()])
            for stage in explicit_stages(pairs.to_complex(now.entries[0]), now.radices):
                gram, radix = stage.mH @ stage, stage.abs().square().sum(0)
                torch.testing.assert_close(gram, torch.diag(radix + 0j))
                assert (part == "L") == bool((radix > 1.5).all())
                if part != "L":
                    torch.testing.assert_close(radix, torch.ones_like(radix))
    x = signal(2, 2, 5, 11)
    agree([operation(x), earlier(x)], [layer(x)] * 2)


@pytest.mark.parametrize("axes", CONVS)
def test_parameters_are_those_of_the_convolution(axes):
    layer = conv(axes, 2, 4, 3, padding=1)
    operation = XD.from_conv(layer, 6)
    assert operation.weight is layer.weight
    assert operation.bias is layer.bias
    architecture = set(operation.arch_parameters())
    assert set(operation.parameters()) - architecture == set(layer.parameters())
    assert len(architecture) == 3 * axes + 2
    # Keys of the layer's own tensors stay what they were.
    assert set(layer.state_dict()) <= set(operation.state_dict())


def test_saved_and_loaded():
    layer = conv(2, 2, 3, 3, padding=1)
    one, other = XD.from_conv(layer, 5), XD.from_conv(conv(2, 2, 3, 3, padding=1), 5)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.mul_(1.1)
    other.load_state_dict(one.state_dict())
    x = signal(2, 2, 5, 5)
    assert torch.equal(one(x), other(x))


def test_gradients_of_weights_are_those_of_the_convolution():
    layer = conv(2, 2, 4, 3, padding=1, stride=2)
    operation = XD.from_conv(layer, 7)
    x = signal(3, 2, 7, 7).requires_grad_()
    agree(gradients(operation(x), [x, *layer.parameters()]), gradients(layer(x), [x, *layer.parameters()]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_follows_the_convolution(dtype):
    layer = conv(1, 2, 2, 3, padding=1).to(dtype)
    operation = XD.from_conv(layer, 9)
    assert {parameter.dtype for parameter in operation.parameters()} == {dtype}
    assert operation(signal(1, 2, 9).to(dtype)).dtype == dtype


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("order", list(ORDERS))
def test_autocast_is_as_precise_as_that_of_a_convolution(order, axes):
    layer = conv(axes, 8, 8, 3, padding=1).float()
    operation = XD.from_conv(layer, [12] * axes, order=order)
    x = signal(4, 8, *[12] * axes).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, rounded = operation(x), layer(x)
    exact = layer(x)
    error, usual = ((y.float() - exact).norm() for y in (found, rounded))
    assert error < 4 * usual
    found.float().square().sum().backward()
    for parameter in operation.parameters():
        assert parameter.grad.dtype == torch.float32
        assert parameter.grad.isfinite().all()


def test_autocast_computes_as_a_convolution_does():
    layer = conv(1, 4, 4, 3, padding=1).float()
    operation = XD.from_conv(layer, 16)
    x = signal(2, 4, 16).float()
    computes_under_autocast_as(layer, operation, x)


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
