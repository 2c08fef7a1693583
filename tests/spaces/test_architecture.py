"""What a search moves is found in any network, by whoever says that it has some."""

import copy

import pytest
import torch
from torch import nn

import eclose
from eclose.backbones import make_backbone
from eclose.errors import ConfigError
from eclose.ops.mixture import mixture_of_conv
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.architecture import (
    architecture_size,
    freeze_architecture,
    named_architecture,
    saved_architecture,
    set_architecture,
)
from eclose.spaces.relaxing.mix import mix
from eclose.spaces.relaxing.relax import relax


def both() -> nn.Module:
    first, second = nn.Conv1d(2, 2, 3, padding=1), nn.Conv1d(2, 2, 3, padding=1)
    return nn.Sequential(XD.from_conv(first, 8, gates=False), nn.ReLU(), nn.Sequential(mixture_of_conv(second)))


def test_names_and_parameters() -> None:
    model = both()
    names = ["0.architecture.b", *(f"0.architecture.{part}.0.entries" for part in "KLM"), "2.0.alpha"]
    assert sorted(named_architecture(model)) == sorted(names)
    assert all(
        dict(model.named_parameters())[name] is parameter for name, parameter in named_architecture(model).items()
    )
    assert named_architecture(nn.Sequential(nn.Linear(2, 2))) == {}


def test_a_module_alone_and_copies() -> None:
    assert list(named_architecture(mixture_of_conv(nn.Conv1d(2, 2, 3)))) == ["alpha"]
    model = both()
    assert named_architecture(copy.deepcopy(model)).keys() == named_architecture(model).keys()


def test_values_come_back() -> None:
    model = both()
    with torch.no_grad():
        for parameter in named_architecture(model).values():
            parameter.normal_()
    saved = saved_architecture(model)
    other = both()
    set_architecture(other, {**saved, "elsewhere": torch.ones(3)})
    assert all(torch.equal(parameter, saved[name]) for name, parameter in named_architecture(other).items())
    with torch.no_grad():
        named_architecture(model)["2.0.alpha"].zero_()
    assert saved["2.0.alpha"].any(), "the saved values are copies"


def test_frozen() -> None:
    model = both()
    freeze_architecture(model)
    assert not any(parameter.requires_grad for parameter in named_architecture(model).values())
    assert model[0].weight.requires_grad


def test_size() -> None:
    model = both()
    # Transforms of 9 = 3 x 3 points: two stages of 9 x 3 complex entries in each of K, L and M, and b.
    assert architecture_size(model) == 3 * 2 * (2 * 9 * 3) + 2 * 9 + 8
    model[0].requires_grad_(False)
    assert architecture_size(model) == 8, "what is frozen is not trained"
    shared = mixture_of_conv(nn.Conv1d(2, 2, 3, padding=1))
    assert architecture_size(nn.Sequential(shared, shared)) == 8
    assert architecture_size(nn.Linear(2, 2)) == 0


def test_spaces_compose() -> None:
    """Whatever a space makes is a plain network, and another may go on with it."""
    signature = Signature("classification", 2, (16, 16), 3)
    x = torch.randn(signature.input_shape(2))
    model = make_backbone("lenet", signature, {})
    found = relax(mix(model, x, kinds=("pool",)), x, select="[03]")
    kinds = {name.split(".")[0] for name in named_architecture(found)}
    assert kinds == {"0", "2", "3", "5"}


def test_parameters_split_for_a_loop_of_ones_own():
    network = relax(nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.Linear(8, 3)), torch.zeros(1, 1, 8))
    weights, own = eclose.architecture(network)
    assert [p.shape for p in weights] == [(2, 1, 3), (2,), (3, 8), (3,)]
    assert {id(p) for p in own} == {id(p) for p in named_architecture(network).values()}
    assert len(weights) + len(own) == len(list(network.parameters()))
    assert eclose.architecture(network).weights == weights
    with pytest.raises(ConfigError, match="no architecture to train: eclose.relax"):
        eclose.architecture(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="an nn.Module, not str"):
        eclose.architecture("net")
