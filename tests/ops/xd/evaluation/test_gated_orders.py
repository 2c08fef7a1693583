"""Complex gates: every order of evaluation against a literal transcription of the definition, away from the start."""

import math

import pytest
import torch

from eclose.ops.xd import XD
from eclose.ops.xd.evaluation import ORDERS
from eclose.ops.xd.evaluation.frequency import BLOCK_NUMBERS
from eclose.ops.xd.evaluation.merged.channels import AT_ONCE
from eclose.ops.xd.evaluation.merged.order import Merged
from eclose.ops.xd.evaluation.shifts.order import CHUNK_NUMBERS
from tests.ops.xd.cases import (
    agree,
    computes_under_autocast_as,
    conv,
    derivatives_are_those_by_differences,
    has_gradients_of_every_sample,
    only_what_is_needed_gets_a_gradient,
    shaken,
    signal,
    truth,
)
from tests.ops.xd.complex_gates import CASES, OPERATIONS, SOME, compare, input_of, literal, of


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("name", "order"), CASES)
def test_orders_are_the_definition(name, order, recompute):
    compare(shaken(OPERATIONS[name](order=order, recompute=recompute)))


@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] in ("1d", "2d circular")])
def test_without_b(name, order):
    compare(shaken(OPERATIONS[name](order=order, bias=False)))


def test_the_slow_truth_is_the_definition_too():
    for name in ("1d strided", "2d grouped", "3d"):
        operation = shaken(OPERATIONS[name]())
        x = input_of(operation)
        agree([truth(operation, x)], [literal(operation, x)], 1e-12)


@pytest.mark.parametrize("numbers", [1, 3000])
@pytest.mark.parametrize(("name", "order"), SOME)
def test_parts_make_the_whole(name, order, numbers, monkeypatch):
    for table in (BLOCK_NUMBERS, CHUNK_NUMBERS, AT_ONCE):
        monkeypatch.setitem(table, "cpu", numbers)
    compare(shaken(OPERATIONS[name](order=order)), batch=3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("order", ["sandwich", "im2col"])
@pytest.mark.parametrize(
    "make",
    [
        of(1, 7, 4, 2, 3, padding=2, stride=2, groups=2),
        of(2, (3, 7), 2, 3, 3, padding=1, dilation=(1, 2)),
        of(3, (2, 3, 4), 1, 2, 2, padding=1),
    ],
)
def test_causal(make, order, bias):
    operation = shaken(make(causal=True, order=order, bias=bias))
    *others, last = operation.axes
    every = torch.ones(math.prod(axis.out for axis in others), math.prod(axis.size for axis in others))
    compare(operation, batch=3, mask=torch.kron(every.double(), last.causal().double()))


@pytest.mark.parametrize(("name", "order"), SOME)
def test_derivatives_by_differences(name, order):
    """Of everything that an order is given, with complex gates as it sees them."""
    operation = shaken(OPERATIONS[name]())
    axes, arch = operation.axes, operation.architecture
    prepared, geometry = arch.prepared_merged(axes[0]) if order == "merged" else (arch.prepared(order, axes), None)
    terms = operation.terms(input_of(operation, 1).detach(), axes, prepared)
    how = Merged(geometry) if order == "merged" else ORDERS["frequency" if order == "flat" else order]
    derivatives_are_those_by_differences(how, terms)


@pytest.mark.parametrize(("name", "order"), SOME)
def test_only_what_is_needed_gets_a_gradient(name, order):
    operation = shaken(OPERATIONS[name](order=order))
    x = input_of(operation)
    only_what_is_needed_gets_a_gradient(operation, x, truth)


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col", "flat"])
def test_autocast_computes_as_a_convolution_does(order):
    layer = conv(2, 4, 4, 3, padding=1).float()
    operation = XD.from_conv(layer, 8, gates="complex", order=order)
    x = signal(2, 4, 8, 8).float()
    computes_under_autocast_as(layer, operation, x)


@pytest.mark.parametrize(("name", "order"), [("1d", "merged"), *(case for case in SOME if case[0] == "2d grouped")])
def test_exported_for_every_batch(name, order):
    operation = shaken(OPERATIONS[name](order=order))
    x = input_of(operation, batch=3).detach()
    program = torch.export.export(operation, (x[:2],), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    agree([program.module()(x), program.module()(x[:1])], [operation(x), operation(x[:1])])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col", "flat"])
def test_gradients_of_every_sample_by_function_transforms(order):
    operation = shaken(OPERATIONS["2d"](order=order, recompute=False))
    has_gradients_of_every_sample(operation, input_of(operation).detach())


def test_only_inputs_are_kept():
    operation = shaken(OPERATIONS["2d"](order="im2col"))
    x = input_of(operation, batch=500)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        operation(x)
    large = [tensor for tensor in kept if tensor.numel() >= x.numel()]
    assert {tensor.data_ptr() for tensor in large} == {x.data_ptr()}
