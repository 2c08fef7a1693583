"""Relaxed networks compute the same function at the start, whatever network it is."""

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.relax import relax
from tests.spaces.networks import Twice, moved

IMAGES = Signature("classification", 3, (9, 8), 5)
SIGNALS = Signature("classification", 2, (23,), 4)
VOLUMES = Signature("dense", 1, (6, 5, 4), 2)
FIELDS = Signature("dense", 1, (13, 10), 1)


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("resnet20", IMAGES),
        ("lenet", Signature("classification", 3, (16, 15), 5)),
        ("resnet", SIGNALS),
        ("resnet", IMAGES),
        ("inception", SIGNALS),
        ("inception", IMAGES),
        ("tcn", SIGNALS),
        ("tcn", VOLUMES),
        ("unet", FIELDS),
        ("cnn", FIELDS),
        ("cnn", VOLUMES),
    ],
)
def test_same_function_and_gradients(name: str, signature: Signature) -> None:
    torch.manual_seed(0)
    options = {"inception": {"width": 4}, "resnet20": {}, "lenet": {}}.get(name, {"width": 8})
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
    assert all(p.grad is not None for p in named_architecture(relaxed).values())


def test_the_given_network_is_left_alone() -> None:
    model = make_backbone("cnn", FIELDS, {"width": 4})
    before = copy.deepcopy(model.state_dict())
    moved(relax(model, torch.zeros(FIELDS.input_shape(1))))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


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


class Aside(nn.Module):
    """A convolution beside something else that decides what it is given."""

    def __init__(self, given: Callable[[torch.Tensor], Any], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.given = given
        self.part = nn.ModuleDict({"layer": layer or nn.Conv1d(2, 2, 5)})

    def forward(self, x: torch.Tensor) -> Any:
        return (
            self.part["layer"](*self.given(x))
            if isinstance(self.given(x), tuple)
            else self.part["layer"](self.given(x))
        )


class Standardised(nn.Conv1d):
    """A convolution that is none: another forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean())


def patched(layer: nn.Module) -> nn.Module:
    layer.forward = lambda x: x  # type: ignore[method-assign]
    return layer


class SeveralSizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.conv(x)[..., ::2])


X = torch.zeros(1, 2, 9)
HEAD = nn.Sequential(OrderedDict(body=nn.Conv1d(2, 2, 3), head=nn.Linear(7, 3)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: relax(Twice(spare=True), X), "'spare' never runs on the example: leave it out with select"),
        (
            lambda: relax(nn.Sequential(nn.Linear(3, 3)), torch.zeros(1, 3)),
            "nothing to relax: no layer is chosen; .* none; choose another network, or another space",
        ),
        (
            lambda: relax(nn.Conv1d(2, 2, 1), torch.zeros(1, 2, 1)),
            r"nothing to relax: .* '' \(Conv1d\), which have one tap .*: choose another network or another space, or "
            r"relax them all the same with select='\*'$",
        ),
        (
            lambda: relax(Twice(), X, select="nowhere*"),
            r"there are: 'first' \(Conv1d\), 'second' \(Conv1d\); choose one of them",
        ),
        (lambda: relax(HEAD, X, select="head"), r"'head' \(Linear\) is no layer of these kinds; .*: 'body' \(Conv1d\)"),
        (lambda: relax(HEAD, X, select=["body"]), r"select is \['body'\], but must be a pattern of paths or a funct"),  # type: ignore[arg-type]
        (lambda: relax(HEAD, X, kinds=("convs",)), "unknown kind of layers 'convs'; did you mean 'conv'"),
        (lambda: relax(HEAD, X, gates="imaginary"), "cannot be relaxed: gates is 'imaginary', but must be 'real'"),
        (lambda: relax(SeveralSizes(), X), r"'conv' runs on inputs of several sizes, \(5,\) and \(9,\): leave it out"),
        (lambda: relax(Aside(lambda x: x[..., :3]), X), "'part.layer' fails on the example: .*Kernel size"),
        (lambda: relax(Aside(lambda x: x.long()), X), "'part.layer' is given int64 values, but operations take real"),
        (lambda: relax(Aside(lambda x: x + 1j), X), "'part.layer' is given complex64 values"),
        (
            lambda: relax(Aside(lambda x: (x, [18]), nn.ConvTranspose1d(2, 2, 3, stride=2)), X),
            "'part.layer' is called with something else than one tensor",
        ),
        (
            lambda: relax(Aside(lambda x: x, Standardised(2, 2, 3)), X),
            "'part.layer' cannot be relaxed: this Standardised has another forward than Conv1d",
        ),
        (
            lambda: relax(patched(nn.Conv1d(2, 2, 3)), X),
            "'' cannot be relaxed: this Conv1d has another forward than Conv1d",
        ),
        (
            lambda: relax(nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 3))), X, max_kernel=5),
            "'0' cannot be relaxed: its weight is computed and cannot grow",
        ),
        (
            lambda: relax(nn.Sequential(nn.LazyConv1d(2, 3)), X),
            "'0' is not initialised yet: run the network once before relaxing it",
        ),
        (lambda: relax(Twice(), torch.zeros(1, 3, 9)), "'first' fails on the example: RuntimeError"),
        (
            lambda: relax(nn.Sequential(nn.Linear(3, 3), nn.Conv1d(2, 2, 3)), X),
            "the network fails on the example: Runt",
        ),
    ],
)
def test_mistakes(make: Callable[[], nn.Module], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_the_example_changes_nothing() -> None:
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.Conv1d(3, 3, 3), Noise())
    model[1].eval()
    before, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    relaxed = relax(model, torch.randn(4, 2, 9, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.random.get_rng_state(), state)
    for network in (model, relaxed):
        now = network.state_dict()
        assert all(torch.equal(now[key], value) for key, value in before.items())
        assert [module.training for module in network] == [True, False, True, True, True]  # type: ignore[union-attr]
        assert not any(module._forward_pre_hooks or module._forward_hooks for module in network.modules())


class Noise(nn.Module):
    """Draws random numbers and counts its runs, in training and after."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return x + torch.randn_like(x)


def test_a_layer_alone() -> None:
    layer = nn.Conv1d(2, 3, 3)
    x = torch.randn(1, 2, 9)
    relaxed = relax(layer, x)
    assert isinstance(relaxed, XD)
    torch.testing.assert_close(relaxed(x), layer(x))
    assert list(named_architecture(relaxed))[0] == "architecture.b"


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(2, 3, 3), nn.Conv1d(4, 3, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.one(x) + self.two(y)


def test_several_inputs_and_none_of_a_batch() -> None:
    model, x, y = Sum(), torch.randn(2, 9), torch.randn(4, 9)
    torch.testing.assert_close(relax(model, (x, y))(x, y), model(x, y))


def test_growing_kernels_stay_tied() -> None:
    model = nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.ReLU(), nn.Conv1d(2, 2, 3, padding=1))
    model[2].weight = model[0].weight
    x = torch.randn(1, 2, 9)
    relaxed = relax(model, x, max_kernel=5)
    assert relaxed.get_submodule("0").weight is relaxed.get_submodule("2").weight
    assert relaxed.get_submodule("0").weight.shape == (2, 2, 5)
    torch.testing.assert_close(relaxed(x), model(x))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_weight_norm_stays(norm: Callable[[nn.Module], nn.Module]) -> None:
    model = nn.Sequential(norm(nn.Conv1d(2, 3, 3)), nn.ReLU(), norm(nn.ConvTranspose1d(3, 2, 2, stride=2))).double()
    x = torch.randn(2, 2, 9, dtype=torch.float64)
    model(x).sum().backward()  # leaves a computed weight behind, which torch does not copy
    relaxed = relax(model, x, kinds=("conv", "skip"))
    torch.testing.assert_close(relaxed(x), model(x))
    names = [name for name, _ in relaxed.named_parameters() if "architecture" not in name]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    norms = [name for name in names if name.endswith(("weight_g", "original0"))]
    assert len(norms) == 2
    with torch.no_grad():
        relaxed.get_parameter(norms[0]).mul_(2)
        model.get_parameter(norms[0]).mul_(2)
    torch.testing.assert_close(relaxed(x), model(x))


def test_copies_and_saved_states() -> None:
    torch.manual_seed(0)
    x = torch.randn(SIGNALS.input_shape(2))
    model = make_backbone("resnet", SIGNALS, {"width": 4}).eval()
    relaxed = moved(relax(model, x, depth=(3, 3, 3)))
    wanted = relaxed(x)
    assert not torch.allclose(wanted, model(x), atol=1e-4)
    copied = copy.deepcopy(relaxed)
    torch.testing.assert_close(copied(x), wanted)
    assert len(named_architecture(copied)) == len(named_architecture(relaxed)), "a copy still knows its architecture"
    fresh = relax(model, x, depth=(3, 3, 3))
    fresh.load_state_dict(relaxed.state_dict())
    torch.testing.assert_close(fresh(x), wanted)
