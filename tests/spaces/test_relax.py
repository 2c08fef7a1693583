"""Relaxed networks compute the same function at the start, whatever network it is."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.relax import architecture, relax

IMAGES = Signature("classification", 3, (9, 8), 5)
SIGNALS = Signature("classification", 2, (23,), 4)
VOLUMES = Signature("dense", 1, (6, 5, 4), 2)
FIELDS = Signature("dense", 1, (13, 10), 1)


def moved(model: nn.Module) -> nn.Module:
    """Away from its architecture's start by a step, so that no shortcut computes it."""
    with torch.no_grad():
        for parameter in architecture(model).values():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("resnet20", IMAGES),
        ("lenet", Signature("classification", 3, (16, 15), 5)),
        ("resnet", SIGNALS),
        ("resnet", IMAGES),
        ("unet", FIELDS),
        ("cnn", FIELDS),
        ("cnn", VOLUMES),
    ],
)
def test_same_function_and_gradients(name: str, signature: Signature) -> None:
    torch.manual_seed(0)
    options = {"width": 8} if name in ("unet", "cnn", "resnet") else {}
    model = make_backbone(name, signature, options).double().eval()
    x = torch.randn(signature.input_shape(2), dtype=torch.float64)
    relaxed = relax(model, x)
    assert any(isinstance(module, XD) for module in relaxed.modules())
    torch.testing.assert_close(relaxed(x), model(x))
    for network in (relaxed, model):
        network(x).square().sum().backward()
    ours = {key: p.grad for key, p in relaxed.named_parameters() if "architecture" not in key}
    theirs = {key: p.grad for key, p in model.named_parameters()}
    assert ours.keys() == theirs.keys(), "weights and their names stay"
    for key, gradient in theirs.items():
        torch.testing.assert_close(ours[key], gradient)
    assert all(p.grad is not None for p in architecture(relaxed).values())


def test_the_given_network_is_left_alone() -> None:
    model = make_backbone("cnn", FIELDS, {"width": 4})
    before = copy.deepcopy(model.state_dict())
    moved(relax(model, torch.zeros(FIELDS.input_shape(1))))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


class Twice(nn.Module):
    """One convolution in two places, and one that never runs."""

    def __init__(self, spare: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 2, 3, padding=1)
        self.second = self.first
        self.spare = nn.Conv1d(2, 2, 3) if spare else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_a_shared_module_stays_one() -> None:
    x = torch.randn(1, 2, 11)
    model = Twice()
    relaxed = relax(model, x)
    assert relaxed.get_submodule("first") is relaxed.get_submodule("second")
    torch.testing.assert_close(relaxed(x), model(x))


def test_selection() -> None:
    model = make_backbone("resnet20", IMAGES, {})
    x = torch.zeros(IMAGES.input_shape(1))
    every = [path for path, module in relax(model, x).named_modules() if isinstance(module, XD)]
    some = [path for path, module in relax(model, x, select="*.conv1").named_modules() if isinstance(module, XD)]
    one = relax(model, x, select=lambda path, module: path == every[0])
    assert len(every) == 19
    assert 0 < len(some) < 19
    assert [path for path, module in one.named_modules() if isinstance(module, XD)] == every[:1]


Mistake = tuple[Callable[[], nn.Module], str]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: relax(Twice(spare=True), torch.zeros(1, 2, 9)), "'spare' never runs on the example"),
        (lambda: relax(nn.Sequential(nn.Linear(3, 3)), torch.zeros(1, 3)), "nothing to relax: no chosen convolution"),
        (lambda: relax(Twice(), torch.zeros(1, 2, 9), select="nowhere*"), r"its convolutions: first, second"),
    ],
)
def test_mistakes(make: Callable[[], nn.Module], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_copies_and_saved_states() -> None:
    torch.manual_seed(0)
    x = torch.randn(SIGNALS.input_shape(2))
    model = make_backbone("resnet", SIGNALS, {"width": 4}).eval()
    relaxed = moved(relax(model, x, depth=(3, 3, 3)))
    wanted = relaxed(x)
    assert not torch.allclose(wanted, model(x), atol=1e-4)
    copied = copy.deepcopy(relaxed)
    torch.testing.assert_close(copied(x), wanted)
    assert len(architecture(copied)) == len(architecture(relaxed)), "a copy still knows its architecture"
    fresh = relax(model, x, depth=(3, 3, 3))
    fresh.load_state_dict(relaxed.state_dict())
    torch.testing.assert_close(fresh(x), wanted)
