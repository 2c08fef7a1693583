"""The merged order against the definition and the dense orders, away from the start; what it keeps and makes."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from eclose.ops.xd import XD
from eclose.ops.xd.evaluation.merged import channels
from eclose.ops.xd.evaluation.merged import order as merged
from eclose.ops.xd.evaluation.merged.order import Merged
from tests.ops.xd.cases import (
    OPERATIONS,
    agree,
    computes_under_autocast_as,
    conv,
    derivatives_are_those_by_differences,
    gradients,
    only_what_is_needed_gets_a_gradient,
    shaken,
    signal,
    truth,
)

ONE_AXIS = [name for name in OPERATIONS if name.startswith("1d")]


def made(size, kernel=3, channels=(2, 3), *, depth=(1, 1, 1), options=(), order="merged", **of_conv):
    layer = conv(1, *channels, kernel, **of_conv)
    return shaken(XD.from_conv(layer, size, depth=depth, order=order, **dict(options)))


def compare(operation, size=None, batch=2):
    x = signal(batch, operation.in_channels, size or operation.axes[0].size).requires_grad_()
    inputs = [x, *operation.parameters()]
    y, expected = operation(x), truth(operation, x)
    agree([y], [expected])
    agree(gradients(y, inputs), gradients(expected, inputs))
    assert y.is_contiguous()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_is_the_definition(name, recompute):
    compare(shaken(OPERATIONS[name](order="merged", recompute=recompute)))


@pytest.mark.parametrize("depth", [(1, 1, 1), (2, 1, 2), (1, 2, 3), (3, 3, 3), (4, 2, 5)])
@pytest.mark.parametrize("size", [16, 30, 7, 2, 1, 85])
def test_depths_and_radices(size, depth):
    compare(made(size, 1 if size == 1 else 2, depth=depth))


@pytest.mark.parametrize("options", [{"fewest": True}, {"paper": True}, {"largest": 3}, {"max_kernel": 6}])
def test_other_transforms(options):
    compare(made(35, 4, options=options.items(), padding=1, depth=(2, 2, 2)))


@pytest.mark.parametrize(
    ("padding", "mode"),
    [(0, "zeros"), (4, "zeros"), ("same", "zeros"), (2, "circular"), (7, "circular"), (3, "reflect"), (5, "replicate")],
)
@pytest.mark.parametrize("size", [12, 19])
def test_paddings(size, padding, mode):
    for stride, dilation, groups in [(1, 1, 1), (1, 2, 2), (3, 1, 2), (2, 3, 4)]:
        if stride == 1 or padding != "same":
            options = {"stride": stride, "dilation": dilation, "padding": padding, "padding_mode": mode}
            compare(made(size, 3, (4, 8), groups=groups, **options))


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
def test_inputs_of_another_size(mode):
    operation = made(16, 3, padding=1, padding_mode=mode, stride=2)
    for size in (3, 9, 14):
        compare(operation, size)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("gates", [False, True])
def test_without_b_and_c(bias, gates):
    compare(made(12, options={"bias": bias, "gates": gates}.items(), padding=1, bias=bias))


@pytest.mark.parametrize("at_once", [1, 100])
def test_frequencies_in_parts(at_once, monkeypatch):
    monkeypatch.setitem(channels.AT_ONCE, "cpu", at_once)
    for options in ({}, {"gates": False}, {"bias": False}):
        compare(made(15, 3, (4, 6), options=options.items(), padding=1, groups=2))


@pytest.mark.parametrize("channels", [(4, 4), (4, 8), (8, 4)])
def test_channels_by_themselves(channels, monkeypatch):
    for kept in (0, 2**21):
        monkeypatch.setitem(merged.KEPT_SPECTRA, "cpu", kept)
        compare(made(12, 3, channels, padding=1, groups=4))


def test_long_signals_are_those_of_the_dense_order():
    dense, long = (made(1000, 5, padding=2, padding_mode="circular", order=o) for o in ("frequency", "merged"))
    x = signal(2, 2, 1000).requires_grad_()
    agree([long(x)], [dense(x)])
    agree(gradients(long(x), [x, *long.parameters()]), gradients(dense(x), [x, *dense.parameters()]))


@pytest.mark.parametrize("name", ["1d deep", "1d depthwise", "1d strided"])
def test_derivatives_by_differences(name):
    operation = shaken(OPERATIONS[name]())
    entries, geometry = operation.architecture.prepared_merged(operation.axes[0])
    x = signal(1, operation.in_channels, operation.axes[0].size)
    derivatives_are_those_by_differences(Merged(geometry), operation.terms(x, operation.axes, entries))


def test_only_what_is_needed_gets_a_gradient():
    operation = shaken(OPERATIONS["1d deep"](order="merged"))
    x = signal(2, 2, 6).requires_grad_()
    only_what_is_needed_gets_a_gradient(operation, x, truth)


def kept_by(operation, x):
    """How many numbers are kept, beside x."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        operation(x)
    numbers = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() // 8 for tensor in kept}
    assert numbers.pop(x.data_ptr()) == x.numel()
    return sum(numbers.values())


def test_only_inputs_are_kept_where_spectra_are_large(monkeypatch):
    operation = made(512, 5, (4, 3), padding=2, padding_mode="reflect", options={"largest": 13}.items())
    x = signal(200, 4, 512).requires_grad_()
    spectra = 2 * operation.axes[0].transform * 200 * (4 + 3)
    monkeypatch.setitem(merged.KEPT_SPECTRA, "cpu", spectra - 1)
    small = kept_by(operation, x)
    assert small < 4 * sum(parameter.numel() for parameter in operation.parameters()) < x.numel()
    monkeypatch.setitem(merged.KEPT_SPECTRA, "cpu", spectra)
    assert kept_by(operation, x) == small + spectra


@pytest.mark.parametrize("name", ONE_AXIS)
def test_nothing_kept_is_computed_anew(name, monkeypatch):
    monkeypatch.setitem(merged.KEPT_SPECTRA, "cpu", 0)
    compare(shaken(OPERATIONS[name](order="merged")))


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor had that was made."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = [t for t in torch.utils._pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
        self.numbers = max([self.numbers, *(t.untyped_storage().nbytes() // t.element_size() for t in tensors)])
        return found


@pytest.mark.parametrize(("size", "mode"), [(8192, "circular"), (8191, "replicate"), (4096, "zeros")])
def test_nothing_square_is_made_where_signals_are_long(size, mode):
    """From construction to the gradients, the planner choosing."""
    with Largest() as largest:
        layer = conv(1, 2, 2, 17, padding=8, padding_mode=mode).float()
        operation = XD.from_conv(layer, size)
        x = torch.ones(1, 2, size, requires_grad=True)
        operation(x).sum().backward()
    assert largest.numbers < size**2 / 5
    assert all(parameter.grad is not None for parameter in operation.parameters())


def test_starts_as_the_convolution():
    layer = conv(1, 3, 4, 17, padding="same", padding_mode="circular")
    x = signal(2, 3, 2048)
    agree([XD.from_conv(layer, 2048)(x)], [layer(x)], 1e-12)
    agree([XD.from_conv(layer, 2048)(x[0])], [layer(x)[0]], 1e-12)


def test_autocast_computes_as_a_convolution_does():
    layer = conv(1, 4, 4, 3, padding=1).float()
    operation = XD.from_conv(layer, 64, order="merged")
    x = signal(2, 4, 64).float()
    computes_under_autocast_as(layer, operation, x)


def test_a_backward_pass_under_autocast_is_as_precise_as_the_forward_pass():
    operation = made(64, 3, (4, 4), padding=1).float()
    x = signal(2, 4, 64).float().requires_grad_()
    y = operation(x)
    (expected,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        agree(torch.autograd.grad(y.sum(), x), [expected], 1e-6)


def test_where_it_is_refused():
    with pytest.raises(ValueError, match="'merged' is no order of evaluation of this operation; there are frequency"):
        OPERATIONS["2d"](order="merged")
    with pytest.raises(ValueError, match="'merged' is no order of evaluation of a causal operation; there are sand"):
        OPERATIONS["1d"](order="merged", causal=True)
