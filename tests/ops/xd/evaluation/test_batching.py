"""Dense matrices made together: the same numbers in fewer operations, never those of another pass."""

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from eclose.ops.xd import XD, architecture, serve_together
from eclose.ops.xd.evaluation.batching import all_of, one_pass


class Skipping(nn.Module):
    """Three operations, of which some may be left out of a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            XD.from_conv(nn.Conv1d(2, 2, 3, padding=1, dtype=torch.float64), size) for size in (7, 7, 7)
        )

    def forward(self, x, skipped=()):
        for place, layer in enumerate(self.layers):
            if place not in skipped:
                x = layer(x).tanh()
        return x


@pytest.fixture
def networks():
    torch.manual_seed(0)
    alone = Skipping()
    with torch.no_grad():
        for parameter in alone.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    joined = copy.deepcopy(alone)
    serve_together(joined.layers)
    return alone, joined, torch.randn(4, 2, 7, dtype=torch.float64)


@pytest.fixture
def makings(monkeypatch):
    """How many matrices each call made."""
    made, original = [], architecture.dense

    def counted(matrices):
        made.append(sum(matrix.batch.numel() for matrix in matrices))
        return original(matrices)

    monkeypatch.setattr(architecture, "dense", counted)
    return made


def gradients(network):
    return [parameter.grad for parameter in network.parameters()]


def step(network, x, skipped=()):
    with one_pass(all_of(network)):
        y = network(x, skipped)
        y.square().sum().backward()
    return y


def test_values_and_gradients_are_the_same_from_one_making(networks, makings):
    alone, joined, x = networks
    for _ in range(2):
        expected = alone(x)
        expected.square().sum().backward()
    assert makings == [3] * 6
    step(joined, x)  # a first pass tells who asks
    assert makings[6:] == [3, 3, 3]
    found = step(joined, x)
    assert makings[9:] == [9]
    torch.testing.assert_close(found, expected)
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("passes", [[(), (0,), ()], [(0,), (1,), (0, 1), ()], [(2,), (2,), (0,)]])
def test_passes_that_leave_layers_out_add_up(networks, passes):
    alone, joined, x = networks
    for skipped in passes:
        alone(x, skipped).square().sum().backward()
        step(joined, x, skipped)
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        torch.testing.assert_close(one, other)


def test_who_does_not_ask_is_left_out(networks, makings):
    _, joined, x = networks
    for _ in range(2):
        step(joined, x, skipped=(1,))
    assert makings == [3, 3, 6]
    for _ in range(2):
        step(joined, x)
    assert makings[3:] == [6, 3, 9]


def test_outside_of_a_pass_layers_are_differentiated_in_any_order(networks):
    alone, joined, x = networks
    step(joined, x)
    step(joined, x)
    joined.zero_grad()
    for network in (alone, joined):
        for _ in range(2):
            first = network.layers[0](x)
            second = network.layers[1](first.detach())
            second.square().sum().backward()
            first.square().sum().backward()
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_checkpoints(networks, inside, reentrant):
    alone, joined, x = networks
    alone(x).square().sum().backward()
    with one_pass(all_of(joined) if inside else []):
        joined(x)  # tells who asks
    x = x.requires_grad_()
    with one_pass(all_of(joined) if inside else []):
        y = x
        for layer in joined.layers:
            y = checkpoint(lambda y, layer=layer: layer(y).tanh(), y, use_reentrant=reentrant)
        y.square().sum().backward()
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        torch.testing.assert_close(one, other)


def test_a_pass_that_fails_leaves_nothing_behind(networks):
    alone, joined, x = networks
    step(joined, x)

    def broken():
        joined(x)
        raise RuntimeError

    with pytest.raises(RuntimeError), one_pass(all_of(joined)):
        broken()
    joined.zero_grad()
    alone(x).square().sum().backward()
    joined(x).square().sum().backward()
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("write", [lambda p: p.mul_(1.5), lambda p: p.data.mul_(1.5)])
def test_without_gradients_they_are_kept_until_entries_change(networks, makings, write):
    alone, joined, x = networks
    with torch.no_grad():
        first, again = joined(x), joined(x)
        assert torch.equal(first, again)
        assert makings == [3, 3, 3]
        for network in (alone, joined):
            write(network.layers[1].architecture.M[0].entries)
        torch.testing.assert_close(joined(x), alone(x))
        assert not torch.allclose(joined(x), first)


def test_little_is_kept_of_inputs_of_many_sizes():
    operation = XD.from_conv(nn.Conv1d(2, 2, 3, padding=1, dtype=torch.float64), 12)
    architecture, (axis,) = operation.architecture, operation.axes

    def given(size):
        return weakref.ref(architecture.prepared("frequency", [axis.at(size)]).outer[0])

    with torch.no_grad():
        found = [given(size) for size in range(3, 13)]
        assert [place for place, kept in enumerate(found) if kept() is not None] == [6, 7, 8, 9]
        architecture.K[0].entries.mul_(2)
        found.append(given(5))
        assert [place for place, kept in enumerate(found) if kept() is not None] == [10]


def test_nothing_is_kept_in_training(networks):
    _, joined, x = networks
    layer = joined.layers[0]
    with torch.no_grad():
        kept = weakref.ref(layer.architecture.prepared("frequency", layer.axes).outer[0])
    assert kept() is not None
    layer(x).sum().backward()
    assert kept() is None


def test_frozen_operations_keep_theirs_in_training(networks, makings):
    _, joined, x = networks
    for layer in joined.layers:
        layer.architecture.requires_grad_(False)
    with torch.inference_mode():
        joined(x)
    for _ in range(3):
        joined(x).sum().backward()
    assert makings == [3, 3, 3]
    assert joined.layers[0].weight.grad is not None


def test_a_network_that_is_dropped_is_gone_at_once(networks):
    network = copy.deepcopy(networks[1])
    step(network, networks[2])
    parameters = [weakref.ref(parameter) for parameter in network.parameters()]
    gc.disable()
    try:
        del network
        assert not any(parameter() is not None for parameter in parameters)
    finally:
        gc.enable()


def test_a_layer_that_is_dropped_is_made_no_more(networks, makings):
    alone, joined, x = networks
    step(joined, x)
    for network in (alone, joined):
        del network.layers[1]
    alone(x).square().sum().backward()
    joined.zero_grad()
    makings.clear()
    step(joined, x)
    assert makings == [6]
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        torch.testing.assert_close(one, other)


def test_entries_that_are_trained_from_within_a_pass_on_get_gradients(networks):
    alone, joined, x = networks
    frozen = joined.layers[1].architecture.K.requires_grad_(False)
    step(joined, x)
    joined.zero_grad()
    with one_pass(all_of(joined)):
        frozen.requires_grad_(True)
        joined(x).square().sum().backward()
    alone(x).square().sum().backward()
    for one, other in zip(gradients(joined), gradients(alone), strict=True):
        torch.testing.assert_close(one, other)


def test_a_copy_shares_nothing(networks):
    _, joined, x = networks
    with torch.no_grad():
        before = joined(x)
        other = copy.deepcopy(joined)
        other.layers[0].architecture.K[0].entries.zero_()
        assert torch.equal(joined(x), before)
        assert not torch.allclose(other(x), before)
    members = {id(member) for layer in other.layers for member in (layer, layer.architecture)}
    assert set(other.layers[0].architecture.together.members) == members


@pytest.mark.parametrize("again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_of_one_layer_leaves_the_others_behind(networks, again):
    _, joined, x = networks
    layer = joined.layers[1]
    other = again(layer)
    assert list(other.architecture.together.members.values()) == [other.architecture, other]
    assert torch.equal(other(x), layer(x))
    assert len(joined.layers[1].architecture.together.members) == 6


def test_another_type_makes_them_anew(networks):
    _, joined, x = networks
    with torch.no_grad():
        expected = joined(x)
        torch.testing.assert_close(joined.float()(x.float()), expected.float())


def test_several_threads_at_once(networks):
    alone, joined, x = networks
    with torch.no_grad():
        expected = alone(x)

    def work(place):
        for turn in range(20):
            with torch.set_grad_enabled((place + turn) % 2 == 0):
                torch.testing.assert_close(joined(x), expected)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, place) for place in range(4)]:
            future.result()
