"""What operations make of their parameters: the same numbers in fewer operations, once a pass or while kept."""

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

from eclose.errors import ConfigError
from eclose.ops.xd import XD, architecture
from eclose.ops.xd.evaluation.prepare import GatedTaps
from eclose.train.module_hooks import one_pass
from tests.ops.xd.cases import agree, conv, gradients, shaken, signal, truth
from tests.ops.xd.complex_gates import OPERATIONS
from tests.ops.xd.test_operation import replica


class Skipping(nn.Module):
    """Three operations, of which some may be left out of a pass."""

    def __init__(self) -> None:
        super().__init__()
        layers = [XD.from_conv(conv(1, 2, 2, 3, padding=1), 7) for _ in range(3)]
        self.layers = nn.ModuleList(shaken(layer, seed) for seed, layer in enumerate(layers))

    def forward(self, x, skipped=()):
        for place, layer in enumerate(self.layers):
            if place not in skipped:
                x = layer(x).tanh()
        return x


@pytest.fixture
def networks():
    alone = Skipping()
    return alone, copy.deepcopy(alone), signal(4, 2, 7)


@pytest.fixture
def makings(monkeypatch):
    """How many matrices each call made."""
    made, original = [], architecture.dense

    def counted(matrices):
        made.append(sum(matrix.batch.numel() for matrix in matrices))
        return original(matrices)

    monkeypatch.setattr(architecture, "dense", counted)
    return made


@pytest.fixture
def weighings(monkeypatch):
    """How many outputs had the weights that were multiplied by gates."""
    made, original = [], GatedTaps.of
    monkeypatch.setattr(GatedTaps, "of", lambda form, w, *g: made.append(len(w)) or original(form, w, *g))
    return made


def loss(y):
    return y.square().sum()


def slopes(network):
    return [parameter.grad for parameter in network.parameters()]


def same_gradients(*networks):
    for one, other in zip(*map(slopes, networks), strict=True):
        torch.testing.assert_close(one, other)


def test_values_and_gradients_are_the_same_from_one_making(networks, makings, weighings):
    alone, joined, x = networks
    expected = alone(x)
    loss(expected).backward()
    assert (makings, weighings) == ([3, 3, 3], [2, 2, 2])
    with one_pass(joined):
        y = joined(x)
        loss(y).backward()
    assert (makings[3:], weighings[3:]) == ([9], [6])
    torch.testing.assert_close(y, expected)
    same_gradients(joined, alone)


def test_a_backward_pass_after_the_pass_has_ended(networks):
    alone, joined, x = networks
    loss(alone(x)).backward()
    with one_pass(joined):
        y = joined(x)
    loss(y).backward()
    same_gradients(joined, alone)


def test_several_forward_passes_share_what_was_made(networks, makings):
    alone, joined, x = networks
    (loss(alone(x)) + loss(alone(2 * x))).backward()
    makings.clear()
    with one_pass(joined):
        (loss(joined(x)) + loss(joined(2 * x))).backward()
    assert makings == [9]
    same_gradients(joined, alone)


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col", "merged"])
@pytest.mark.parametrize("frozen", ["", "K", "L", "M"])
def test_gradients_add_up_over_several_backward_passes(order, frozen):
    """Each of them is made for anew, as the pass before has freed what it went through."""
    operation = XD.from_conv(conv(1, 2, 2, 3, padding=1), 7, order=order)
    if frozen:
        getattr(shaken(operation).architecture, frozen).requires_grad_(False)
    alone = nn.Sequential(operation, copy.deepcopy(operation))
    joined, x = copy.deepcopy(alone), signal(3, 2, 7)
    for _ in range(2):
        loss(alone(x)).backward()
    with one_pass(joined):
        for _ in range(2):
            loss(joined(x)).backward()
    for one, other in zip(slopes(joined), slopes(alone), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_second_derivatives(networks):
    alone, joined, x = networks
    x = x.requires_grad_()

    def curvature(network):
        (slope,) = torch.autograd.grad(loss(network(x)), x, create_graph=True)
        loss(slope).backward()

    curvature(alone)
    with one_pass(joined):
        curvature(joined)
    same_gradients(joined, alone)


def test_passes_in_one_another(networks, makings):
    alone, joined, x = networks
    other = copy.deepcopy(joined)
    with one_pass(joined), one_pass(other):
        loss(joined(x) + other(x)).backward()
        with one_pass(nn.Sequential(joined, nn.Tanh())):
            joined(x)
            joined(x)
        joined(x)
    assert makings == [9, 9, 9, 9]
    joined(x)
    assert makings[4:] == [3, 3, 3]
    loss(alone(x) + alone(x)).backward()
    for one, two in zip(slopes(alone), slopes(joined), strict=True):
        torch.testing.assert_close(one, 2 * two)


@pytest.mark.parametrize("passes", [[(), (0,), ()], [(0,), (1,), (0, 1), ()], [(2,), (2,), (0,)]])
def test_passes_that_leave_layers_out_add_up(networks, passes):
    alone, joined, x = networks
    for skipped in passes:
        loss(alone(x, skipped)).backward()
        with one_pass(joined):
            loss(joined(x, skipped)).backward()
    same_gradients(joined, alone)


def test_layers_that_do_not_run_have_gradients_of_zero(networks):
    _, joined, x = networks
    with one_pass(joined):
        loss(joined(x, skipped=(1,))).backward()
    assert not any(parameter.grad.any() for parameter in joined.layers[1].architecture.parameters())
    assert joined.layers[1].bias.grad is None


def test_outside_of_a_pass_layers_are_differentiated_in_any_order(networks):
    alone, joined, x = networks
    with one_pass(joined):
        joined(x)
    for network in (alone, joined):
        for _ in range(2):
            first = network.layers[0](x)
            second = network.layers[1](first.detach())
            loss(second).backward()
            loss(first).backward()
    for one, other in zip(slopes(joined), slopes(alone), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", ["nothing", "forward", "both"])
def test_checkpoints(networks, inside, reentrant):
    alone, joined, x = networks
    loss(alone(x)).backward()
    x = x.requires_grad_()

    def forward():
        y = x
        for layer in joined.layers[:2]:
            y = checkpoint(lambda y, layer=layer: layer(y).tanh(), y, use_reentrant=reentrant)
        return loss(joined.layers[2](y).tanh())

    if inside == "nothing":
        forward().backward()
    else:
        with one_pass(joined):
            total = forward()
            if inside == "both":
                total.backward()
        if inside == "forward":
            total.backward()
    same_gradients(joined, alone)


def test_a_pass_that_fails_leaves_nothing_behind(networks, makings):
    alone, joined, x = networks

    def broken():
        joined(x)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"), one_pass(joined):
        broken()
    makings.clear()
    loss(joined(x)).backward()
    assert makings == [3, 3, 3]
    loss(alone(x)).backward()
    same_gradients(joined, alone)


def test_what_was_made_is_gone_when_the_pass_is_over(networks):
    _, joined, x = networks
    layer = joined.layers[0]
    with one_pass(joined):
        y = joined(x)
        made = weakref.ref(layer.architecture.prepared("frequency", layer.axes).outer[0])
        assert made() is not None
    del y
    assert made() is None


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_first(networks, mode, frozen):
    """As when a training looks at validation samples within a pass."""
    alone, joined, x = networks
    for network in (alone, joined):
        network.layers[1].architecture.requires_grad_(not frozen)
    with one_pass(joined):
        with mode():
            torch.testing.assert_close(joined.eval()(x), alone.eval()(x))
        loss(joined.train()(x)).backward()
    loss(alone.train()(x)).backward()
    for one, other in zip(slopes(joined), slopes(alone), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("write", [lambda p: p.mul_(1.5), lambda p: p.data.mul_(1.5)])
@pytest.mark.parametrize("passes", [False, True])
def test_without_gradients_they_are_kept_until_entries_change(networks, makings, write, passes):
    alone, joined, x = networks

    def output():
        with one_pass(joined if passes else nn.Identity()):
            return joined(x)

    with torch.no_grad():
        first, again = output(), output()
        assert torch.equal(first, again)
        assert makings == [3, 3, 3]
        for network in (alone, joined):
            write(network.layers[1].architecture.M[0].entries)
        torch.testing.assert_close(output(), alone(x))
        assert not torch.allclose(output(), first)


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
        with one_pass(joined):
            joined(x).sum().backward()
    assert makings == [3, 3, 3]
    assert joined.layers[0].weight.grad is not None


def test_a_network_that_is_dropped_is_gone_at_once(networks):
    network = copy.deepcopy(networks[1])
    with torch.no_grad():
        network(networks[2])
    with one_pass(network):
        loss(network(networks[2])).backward()
        network(networks[2])  # of which there is no backward pass
    parameters = [weakref.ref(parameter) for parameter in network.parameters()]
    gc.disable()
    try:
        del network
        assert not any(parameter() is not None for parameter in parameters)
    finally:
        gc.enable()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_shares_nothing(networks, again):
    alone, joined, x = networks
    with torch.no_grad():
        before = joined(x)
    with one_pass(joined):
        y = joined(x)
        other = again(joined)
        with torch.no_grad():
            other.layers[0].architecture.K[0].entries.zero_()
        assert not torch.allclose(other(x), before)
        loss(y).backward()
    assert slopes(other) == [None] * len(slopes(other))
    loss(alone(x)).backward()
    same_gradients(joined, alone)
    with torch.no_grad():
        assert torch.equal(joined(x), before)


def test_another_type_makes_them_anew(networks):
    _, joined, x = networks
    with torch.no_grad():
        expected = joined(x)
        torch.testing.assert_close(joined.float()(x.float()), expected.float())


def test_replicas_make_their_own(networks):
    """Those of ``nn.DataParallel``."""
    alone, joined, x = networks
    loss(alone(x)).backward()
    with one_pass(joined):
        halves = torch.cat([replica(joined)(half) for half in x.chunk(2)])
        loss(halves).backward()
    same_gradients(joined, alone)


@pytest.mark.parametrize("inside", [False, True])
def test_several_threads_at_once(networks, inside):
    alone, joined, x = networks
    with torch.no_grad():
        expected = alone(x)

    def work(place):
        for turn in range(10):
            with torch.set_grad_enabled((place + turn) % 2 == 0), one_pass(joined if inside else nn.Identity()):
                torch.testing.assert_close(joined(x), expected)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, place) for place in range(4)]:
            future.result()


def test_a_thread_is_in_its_own_passes_only(networks):
    _, joined, x = networks
    with ThreadPoolExecutor(1) as pool, one_pass(joined):
        total = loss(joined(x))
        other = pool.submit(lambda: loss(joined(x))).result()
        total.backward()
        other.backward()


def test_operations_of_every_kind_in_one_network():
    """Other orders, gates, sizes and frozen parts do not mix."""
    kinds = [{"order": order} for order in ("frequency", "sandwich", "merged", "im2col", "frequency")]
    kinds += [{"gates": kind} for kind in ("complex", "real", False, "complex")]
    kinds += [{"bias": False}, {"gates": False, "bias": False}, {}, {}]
    layers = [shaken(XD.from_conv(conv(1, 2, 2, 3, padding=1), 7, **kind), i) for i, kind in enumerate(kinds)]
    layers[-1].architecture.requires_grad_(False)
    network, x = nn.Sequential(*layers), signal(3, 2, 7)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    y = x
    for layer in layers:
        y = truth(layer, y)
    expected = [y, *gradients(y, trained)]
    with one_pass(network):
        y = network(x)
        agree([y, *gradients(y, trained)], expected)


@pytest.mark.parametrize("name", ["1d strided", "2d grouped", "1d fourier", "2d fourier", "2d transposed"])
def test_operations_side_by_side(name, weighings):
    layers = nn.ModuleList(shaken(OPERATIONS[name](), seed) for seed in range(2))
    x = signal(2, layers[0].in_channels, *(axis.size for axis in layers[0].axes))
    y = sum(truth(layer, x) for layer in layers)
    expected = [y, *gradients(y, list(layers.parameters()))]
    with one_pass(layers):
        y = sum(layer(x) for layer in layers)
        agree([y, *gradients(y, list(layers.parameters()))], expected)
    assert weighings == [2 * layers[0].out_channels]


@pytest.mark.parametrize("size", [7, 6])
def test_inputs_of_another_size(networks, makings, size):
    alone, joined, _ = networks
    x = signal(4, 2, size)
    loss(alone(x)).backward()
    makings.clear()
    with one_pass(joined):
        loss(joined(x)).backward()
    assert makings == [9]
    same_gradients(joined, alone)


def clamped(layer, _):
    layer.weight.data.clamp_(-0.1, 0.1)


def test_weights_that_a_hook_changes_count(networks):
    _, joined, x = networks
    joined.layers[1].register_forward_pre_hook(clamped)
    with one_pass(joined):
        y = joined(x)
    assert joined.layers[1].weight.abs().max() == 0.1
    for layer in joined.layers:
        x = truth(layer, x).tanh()
    agree([y], [x])


def test_computed_weights_are_computed_when_they_are_used():
    layers = [shaken(XD.from_conv(weight_norm(conv(1, 2, 2, 3, padding=1)), 7), seed) for seed in range(2)]
    network, x = nn.Sequential(*layers), signal(3, 2, 7)
    for _ in range(2):
        with one_pass(network):
            y = network(x)
            slopes = gradients(y, list(network.parameters()))
        expected = truth(layers[1], truth(layers[0], x))
        agree([y, *slopes], [expected, *gradients(expected, list(network.parameters()))])
        with torch.no_grad():
            network[0].parametrizations.weight.original0.mul_(3)


def test_one_module_in_two_places(networks, makings):
    alone, joined, x = networks
    for network in (alone, joined):
        network.layers.append(network.layers[0])
    loss(alone(x)).backward()
    makings.clear()
    with one_pass(joined):
        loss(joined(x)).backward()
    assert makings == [9]
    same_gradients(joined, alone)


def test_what_is_no_network_is_refused(networks):
    with pytest.raises(ConfigError, match="one_pass takes a network, an nn.Module, not list"):
        one_pass([networks[1]])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("around", [False, True], ids=["pass in graph", "graph in pass"])
def test_a_graph_holds_its_own(networks, frozen, around):
    """What was made before the capture would be freed, or of old values, when the graph is replayed."""
    alone, joined, x = (one.cuda() for one in networks)
    for network in (alone, joined):
        network.layers[1].architecture.requires_grad_(not frozen)

    def step():
        with one_pass(nn.Identity() if around else joined):
            loss(joined(x)).backward()

    with one_pass(joined if around else nn.Identity()):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream().wait_stream(stream)
        joined.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    torch.cuda.empty_cache()
    with torch.no_grad():
        for network in (alone, joined):
            for parameter in network.parameters():
                parameter.mul_(1.1)
    graph.replay()
    loss(alone(x)).backward()
    for one, other in zip(slopes(joined), slopes(alone), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)
