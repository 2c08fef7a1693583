"""Every order of evaluation against the dense definition, away from the start."""

import pytest
import torch
from torch.func import functional_call, vmap

from eclose.ops.xd.evaluation import ORDERS, frequency
from tests.ops.xd.cases import (
    CASES,
    OPERATIONS,
    agree,
    derivatives_are_those_by_differences,
    gradients,
    has_gradients_of_every_sample,
    only_what_is_needed_gets_a_gradient,
    shaken,
    signal,
    truth,
)


def input_of(operation, batch=2):
    return signal(batch, operation.in_channels, *[axis.size for axis in operation.axes]).requires_grad_()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(("name", "order"), CASES)
def test_orders_are_the_definition(name, order, recompute):
    operation = shaken(OPERATIONS[name](order=order, recompute=recompute))
    x = input_of(operation)
    inputs = [x, *operation.parameters()]
    y, expected = operation(x), truth(operation, x)
    agree([y], [expected])
    agree(gradients(y, inputs), gradients(expected, inputs))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["1d", "2d bare", "1d depthwise", "2d", "2d bias only", "2d grouped", "3d"])
def test_derivatives_by_differences(name, order):
    operation = shaken(OPERATIONS[name]())
    x = signal(1, operation.in_channels, *[axis.size for axis in operation.axes])
    terms = operation.terms(x, operation.axes, operation.architecture.prepared(order, operation.axes))
    derivatives_are_those_by_differences(ORDERS[order], terms)


@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] in ("1d", "2d", "2d bias only", "3d")])
def test_only_what_is_needed_gets_a_gradient(name, order):
    operation = shaken(OPERATIONS[name](order=order))
    x = input_of(operation)
    only_what_is_needed_gets_a_gradient(operation, x, truth)


@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] in ("1d", "2d", "3d")])
def test_only_inputs_and_small_spectra_are_kept(name, order, monkeypatch):
    monkeypatch.setattr(frequency, "KEPT_SPECTRUM", 10_000)
    operation = shaken(OPERATIONS[name](order=order))
    x = input_of(operation, batch=500)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        operation(x)
    large = [tensor for tensor in kept if tensor.numel() >= x.numel()]
    assert {tensor.data_ptr() for tensor in large} == {x.data_ptr()}


@pytest.mark.parametrize("order", [*ORDERS, "flat"])
def test_inputs_in_any_memory_format(order):
    operation = shaken(OPERATIONS["2d"](order=order))
    x = input_of(operation).detach()
    expected = truth(operation, x)
    agree([operation(x.to(memory_format=torch.channels_last))], [expected])
    agree([operation(x[0])], [expected[0]])
    assert operation(x).is_contiguous()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] in ("1d", "2d")])
def test_gradients_of_every_sample_by_function_transforms(name, order):
    operation = shaken(OPERATIONS[name](order=order, recompute=False))
    has_gradients_of_every_sample(operation, input_of(operation).detach())


@pytest.mark.parametrize(
    ("name", "order"),
    [
        *(case for case in CASES if case[0] == "1d"),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in CASES if case[0] in ("2d grouped", "3d")),
    ],
)
def test_exported_for_every_batch(name, order):
    operation = shaken(OPERATIONS[name](order=order))
    x = input_of(operation, batch=3).detach()
    program = torch.export.export(operation, (x[:2],), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    agree([program.module()(x), program.module()(x[:1])], [operation(x), operation(x[:1])])


def test_unknown_orders_are_named():
    with pytest.raises(ValueError, match="'fast' is no order of evaluation; there are frequency"):
        OPERATIONS["1d"](order="fast")


@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] in ("1d", "2d bare", "3d")])
def test_a_backward_pass_within_autocast_is_that_of_a_forward_pass_outside(name, order):
    operation = shaken(OPERATIONS[name](order=order)).float()
    x = input_of(operation).detach().float().requires_grad_()
    inputs = [x, *operation.parameters()]
    expected, y = gradients(operation(x), inputs), operation(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gradients(y, inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(("name", "order"), [case for case in CASES if case[0] in ("1d", "2d")])
def test_many_sets_of_parameters_at_once(name, order):
    operation = shaken(OPERATIONS[name](order=order, recompute=False))
    x = input_of(operation).detach()
    many = {name: torch.stack([p.detach(), 0.9 * p.detach()]) for name, p in operation.named_parameters()}
    found = vmap(lambda parameters: functional_call(operation, parameters, x))(many)
    for place in range(2):
        one = {name: parameters[place] for name, parameters in many.items()}
        agree([found[place]], [functional_call(operation, one, x)])
