"""Layers whose weight is computed: the operation computes it in the same way, from parameters of the same names."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, conv, gradients, signal

WAYS = {
    "weight norm": parametrizations.weight_norm,
    "weight norm over taps": lambda layer: parametrizations.weight_norm(layer, dim=2),
    "spectral norm": parametrizations.spectral_norm,
    "weight norm by hook": nn.utils.weight_norm,
    "spectral norm by hook": nn.utils.spectral_norm,
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", amount=0.4),
    "pruned bias": lambda layer: prune.l1_unstructured(layer, "bias", amount=0.4),
    "both normed": lambda layer: parametrizations.weight_norm(parametrizations.weight_norm(layer), "bias", dim=None),
}
pytestmark = pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")


def moved(layer):
    """The layer with other values of its parameters."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(1 + 0.3 * torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype))
    return layer


@pytest.mark.parametrize("way", WAYS)
def test_same_function_parameters_and_names(way):
    layer = moved(WAYS[way](conv(1, 2, 4, 3, padding=1))).eval()
    x = signal(2, 2, 7).requires_grad_()
    operation = XD.from_conv(layer, 7).eval()
    names = dict(layer.named_parameters())
    own = {name: p for name, p in operation.named_parameters() if not name.startswith("architecture")}
    assert own.keys() == names.keys()
    assert all(own[name] is parameter for name, parameter in names.items())
    assert layer.state_dict().keys() == {key for key in operation.state_dict() if not key.startswith("architecture")}
    for _ in range(2):
        inputs = [x, *names.values()]
        agree([operation(x)], [layer(x)], 1e-12)
        agree(gradients(operation(x), inputs), gradients(layer(x), inputs))
        moved(layer)  # both share their parameters: the weight is computed anew


@pytest.mark.parametrize("way", WAYS)
def test_saved_loaded_and_copied(way):
    layer = moved(WAYS[way](conv(1, 2, 4, 3, padding=1))).eval()
    x = signal(2, 2, 7)
    with torch.no_grad():
        expected = layer(x)
        other = XD.from_conv(WAYS[way](conv(1, 2, 4, 3, padding=1)), 7).eval()
        assert not torch.allclose(other(x), expected)
        other.load_state_dict(XD.from_conv(layer, 7).state_dict())
        agree([other(x)], [expected], 1e-12)
        agree([copy.deepcopy(other)(x)], [expected], 1e-12)


def test_removal_leaves_the_weight():
    for way, remove in [("weight norm", parametrize.remove_parametrizations), ("pruned", prune.remove)]:
        layer = moved(WAYS[way](conv(1, 2, 4, 3, padding=1)))
        operation, x = XD.from_conv(layer, 7), signal(2, 2, 7)
        before = operation(x)
        remove(operation, "weight")
        assert isinstance(operation.weight, nn.Parameter)
        agree([operation(x)], [before], 1e-12)


def test_transposed():
    layer = moved(parametrizations.weight_norm(nn.ConvTranspose1d(2, 4, 3, stride=2, dtype=torch.float64)))
    x = signal(2, 2, 7)
    agree([XD.from_transposed(layer, 7)(x)], [layer(x)], 1e-12)


def test_hooks_go_over():
    layer = conv(1, 2, 4, 3, padding=1)
    layer.register_forward_pre_hook(lambda module, args, kwargs: ((2 * args[0],), kwargs), with_kwargs=True)
    layer.register_forward_hook(lambda module, args, y: y + 1)
    operation = XD.from_conv(layer, 7)
    for x in (signal(2, 2, 7), signal(2, 7)):
        agree([operation(x)], [layer(x)], 1e-12)


def test_computed_weights_cannot_grow():
    layer = parametrizations.weight_norm(conv(1, 2, 4, 3, padding=1))
    with pytest.raises(ValueError, match="its weight is computed and cannot grow: leave out max_kernel"):
        XD.from_conv(layer, 7, max_kernel=5)
    assert XD.from_conv(layer, 7, max_kernel=3).weight.shape == (4, 2, 3)
