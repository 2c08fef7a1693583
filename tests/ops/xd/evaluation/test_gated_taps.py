"""Weights with their gates, made for operations alike at once: the same numbers, and derivatives for those that ran."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.utils.parametrizations import weight_norm

from eclose.ops.xd import XD, operation, serve_together
from eclose.ops.xd.evaluation.batching import all_of, gated_taps_of_each, one_pass
from eclose.ops.xd.evaluation.prepare import GatedTaps
from tests.ops.xd.cases import agree, conv, gradients, shaken, signal, truth

SHAPES = {"real": (3, 2), "complex": (3, 2, 2)}


@pytest.mark.parametrize(
    ("kind", "form", "counted"),
    [
        ("none", GatedTaps(pairs=False, joint=0, bias=False), 2),
        ("none", GatedTaps(pairs=False, joint=6, bias=False), 6),
        ("none", GatedTaps(pairs=False, joint=7, bias=True), 5),
        ("real", GatedTaps(pairs=False, joint=0, bias=True), 2),
        ("real", GatedTaps(pairs=False, joint=6, bias=False), 6),
        ("real", GatedTaps(pairs=False, joint=8, bias=True), 5),
        ("complex", GatedTaps(pairs=False, joint=0, bias=True), 4),
        ("complex", GatedTaps(pairs=False, joint=12, bias=True), 10),
        ("complex", GatedTaps(pairs=True, joint=8, bias=True), 6),
    ],
)
def test_of_each_as_of_one(kind, form, counted):
    """``counted``: along the last dimension; what is behind meets zeros of the filters."""
    weights = [signal(3, 2, 2, 2, seed=seed).requires_grad_() for seed in range(3)]
    gates = [] if kind == "none" else [signal(*SHAPES[kind], seed=seed).requires_grad_() for seed in range(3, 6)]
    found = gated_taps_of_each(form, weights, gates)
    expected = [form.of(*one) for one in (zip(weights, gates, strict=True) if gates else zip(weights, strict=True))]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))

    def function(*given):
        return [one[..., :counted] for one in gated_taps_of_each(form, given[:3], given[3:])]

    assert gradcheck(function, [*weights, *gates], fast_mode=True)
    assert gradgradcheck(function, [*weights, *gates], fast_mode=True)


def test_who_was_left_out_gets_no_derivative():
    weights, gates = ([signal(3, 2, *more, seed=seed).requires_grad_() for seed in range(3)] for more in ((4,), ()))
    _, found, _ = gated_taps_of_each(GatedTaps(pairs=False, joint=8, bias=True), weights, gates)
    found.sum().backward()
    assert [tensor.grad is None for tensor in (*weights, *gates)] == [True, False, True] * 2


@pytest.fixture
def network():
    """Operations of one shape of weights, some of another order, in double precision."""
    orders = ("frequency", "frequency", "sandwich", "merged", "frequency")
    layers = [XD.from_conv(conv(1, 2, 2, 3, padding=1), 7, order=order) for order in orders]
    found = nn.Sequential(*[shaken(layer, seed) for seed, layer in enumerate(layers)])
    serve_together(found)
    return found


def step(network, x):
    """A pass that tells who asks."""
    with one_pass(all_of(network)):
        network(x)


def passed(network, x, change=None):
    """Output and gradients of a pass; ``change``: what happens to a layer once the pass has begun."""
    with one_pass(all_of(network)):
        if change is not None:
            change(network[1])
        y = network(x)
        return y, gradients(y, list(network.parameters()))


def expected(network, x):
    for layer in network:
        x = truth(layer, x)
    return x, gradients(x, list(network.parameters()))


def test_a_pass_makes_them_once_for_operations_alike(network, monkeypatch):
    counts, original = [], gated_taps_of_each
    monkeypatch.setattr(
        operation, "gated_taps_of_each", lambda *given: counts.append(len(given[1])) or original(*given)
    )
    x = signal(3, 2, 7)
    passed(network, x)
    assert counts == [1] * 5
    found, slopes = passed(network, x)
    assert sorted(counts[5:]) == [5]
    y, truths = expected(network, x)
    agree([found, *slopes], [y, *truths])


def clamped(layer, _):
    layer.weight.data.clamp_(-0.1, 0.1)


def written_in_place(layer):
    with torch.no_grad():
        layer.weight.mul_(2)


def given_other_numbers(layer):
    layer.weight.data = 2 * layer.weight.data


def given_another_parameter(layer):
    layer.weight = nn.Parameter(2 * layer.weight.detach())


def trained_from_now_on(layer):
    layer.weight.requires_grad_(True)


@pytest.mark.parametrize(
    "change", [written_in_place, given_other_numbers, given_another_parameter, trained_from_now_on]
)
def test_weights_that_change_within_a_pass_count(network, change):
    x = signal(3, 2, 7)
    network[1].weight.requires_grad_(change is not trained_from_now_on)
    step(network, x)
    y, slopes = passed(network, x, change)
    found, truths = expected(network, x)
    agree([y, *slopes], [found, *truths])


def test_weights_that_a_hook_changes_count(network):
    x = signal(3, 2, 7)
    network[1].register_forward_pre_hook(clamped)
    step(network, x)
    y, slopes = passed(network, x, lambda layer: layer.weight.data.mul_(5))
    found, truths = expected(network, x)
    agree([y, *slopes], [found, *truths])


def test_weights_may_not_change_before_the_backward_pass(network):
    x = signal(3, 2, 7)
    step(network, x)
    with one_pass(all_of(network)):
        y = network(x).sum()
        written_in_place(network[1])
        with pytest.raises(RuntimeError, match="written to between"):
            y.backward()


def test_computed_weights_are_computed_when_they_are_used():
    layers = [shaken(XD.from_conv(weight_norm(conv(1, 2, 2, 3, padding=1)), 7), seed) for seed in range(2)]
    network = nn.Sequential(*layers)
    serve_together(network)
    x = signal(3, 2, 7)
    passed(network, x)
    with torch.no_grad():
        network[0].parametrizations.weight.original0.mul_(3)
    y, slopes = passed(network, x)
    found, truths = expected(network, x)
    agree([y, *slopes], [found, *truths])
