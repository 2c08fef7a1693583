"""Mixed networks: which layers take part, and that sizes stay."""

from typing import Any

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.backbones.resnet20 import SubsampledIdentity
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.mixture import Mixture
from eclose.signature import Signature
from eclose.spaces import spaces
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.mix import mix
from tests.spaces.networks import Twice

IMAGES = Signature("classification", 3, (16, 15), 5)
SIGNALS = Signature("classification", 2, (23,), 4)
VOLUMES = Signature("dense", 1, (6, 5, 4), 2)
FIELDS = Signature("dense", 1, (13, 10), 1)


def mixtures(model: nn.Module) -> dict[str, Mixture]:
    return {path: module for path, module in model.named_modules() if isinstance(module, Mixture)}


@pytest.mark.parametrize(
    ("name", "signature", "options", "count"),
    [
        ("lenet", IMAGES, {}, 4),
        ("lenet", Signature("classification", 1, (17, 20), 5), {"padding": False, "pool": "average"}, 4),
        ("resnet20", IMAGES, {}, 19),
        ("resnet", SIGNALS, {"width": 4}, None),
        ("unet", FIELDS, {"width": 4}, None),
        ("cnn", FIELDS, {"width": 4}, 4),
        ("cnn", VOLUMES, {"width": 4}, 4),
    ],
)
def test_sizes_stay_and_all_parameters_learn(name: str, signature: Signature, options: Any, count: int | None) -> None:
    torch.manual_seed(0)
    model = make_backbone(name, signature, options)
    x = torch.randn(signature.input_shape(2))
    mixed = mix(model, x)
    assert count is None or len(mixtures(mixed)) == count
    assert mixed(x).shape == model(x).shape
    mixed(x).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in mixed.parameters())
    own = {id(parameter) for parameter in model.parameters()}
    assert not any(id(parameter) in own for parameter in mixed.parameters()), "the given network is left alone"


@pytest.mark.parametrize(("name", "signature"), [("resnet20", IMAGES), ("cnn", FIELDS)])
def test_a_little_perturbed_it_is_the_backbone(name: str, signature: Signature) -> None:
    torch.manual_seed(0)
    model = make_backbone(name, signature, {}).double().eval()
    x = torch.randn(signature.input_shape(2), dtype=torch.float64)
    mixed = mix(model, x, perturb=1e-10, kinds=("conv", "skip"))
    torch.testing.assert_close(mixed(x), model(x), rtol=1e-6, atol=1e-6)


def test_skips_are_where_they_are_called_so() -> None:
    x = torch.zeros(IMAGES.input_shape(1))
    model = make_backbone("resnet20", IMAGES, {})
    found = mixtures(mix(model, x, kinds=("skip",)))
    assert len(found) == 9
    assert all(path.endswith(".shortcut") for path in found)
    shapes = {(each.channels, each.windows[0].stride) for each in found.values()}
    assert shapes == {((16, 16), 1), ((16, 32), 2), ((32, 32), 1), ((32, 64), 2), ((64, 64), 1)}
    with pytest.raises(ConfigError, match="no layer of kind skip: choose other kinds or layers, an"):
        mix(make_backbone("cnn", FIELDS, {}), torch.zeros(FIELDS.input_shape(1)), kinds=("skip",))


def test_a_skip_keeps_what_the_shortcut_keeps() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shortcut = SubsampledIdentity(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.shortcut(x)

    x = torch.randn(2, 4, 7, 8)
    found = mix(Block(), x, kinds=("skip",), perturb=1e-7)
    torch.testing.assert_close(found(x), Block()(x), rtol=0, atol=1e-5)


def test_selection_and_large_poolings() -> None:
    x = torch.zeros(IMAGES.input_shape(1))
    model = make_backbone("lenet", IMAGES, {})
    assert list(mixtures(mix(model, x, kinds=("pool",)))) == ["2", "5"]
    assert list(mixtures(mix(model, x, select="[03]"))) == ["0", "3"]
    large = nn.Sequential(nn.Conv1d(2, 2, 1), nn.Conv1d(2, 2, 3), nn.MaxPool1d(4))
    assert list(mixtures(mix(large, torch.zeros(1, 2, 9)))) == ["1"]


class Halved(nn.Conv1d):
    """Not what its class says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * super().forward(x)


def hooked() -> nn.Module:
    layer = nn.Conv1d(2, 2, 3)
    layer.register_forward_hook(lambda module, inputs, output: 2 * output)
    return layer


def test_a_shared_module_stays_one() -> None:
    mixed = mix(Twice(), torch.zeros(1, 2, 9))
    assert mixed.get_submodule("first") is mixed.get_submodule("second")
    assert list(named_architecture(mixed)) == ["first.alpha"]


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (Twice(), {"kinds": ("convs",)}, "unknown kind of layer 'convs'; did you mean 'conv'"),
        (Twice(spare=True), {}, "'spare' never runs on the example"),
        (Twice(), {"select": "nowhere"}, "nothing to mix: .* that select='nowhere' names .*: choose"),
        (Twice(), {"perturb": 0.0}, "'first' cannot be mixed: perturb is 0.0, but must lie between 0 and 1"),
        (nn.Sequential(Halved(2, 2, 3)), {}, "'0' cannot be mixed: this Halved has another forward than Conv1d"),
        (nn.Sequential(nn.Conv1d(5, 2, 3)), {}, "'0' fails on the example: RuntimeError"),
        (nn.Sequential(hooked()), {}, "'0' cannot be mixed: it has hooks"),
        (nn.Sequential(nn.MaxPool1d(3, 2, 1, dilation=2)), {}, "'0' cannot be mixed: it has a divisor or a dilation"),
        (
            nn.Sequential(nn.AvgPool1d(3), nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect")),
            {"kinds": ("conv",)},
            r"'1' cannot be mixed: a signal of \(3,\) is too small for its operations",
        ),
    ],
)
def test_mistakes(model: nn.Module, options: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        mix(model, torch.zeros(1, 2, 9), **options)


def test_examples_that_are_no_batch_of_real_values() -> None:
    with pytest.raises(ConfigError, match=r"'first' cannot be mixed: it is given \(2, 9\), not \(batch, "):
        mix(Twice(), torch.zeros(2, 9))
    with pytest.raises(ConfigError, match="'first' is given int64 values"):
        mix(Twice(), torch.zeros(1, 2, 9, dtype=torch.long))


@pytest.mark.parametrize("layer", [nn.Conv1d(2, 2, 3, padding=1), nn.MaxPool1d(2)])
def test_a_network_of_one_layer(layer: nn.Module) -> None:
    x = torch.randn(1, 2, 8)
    mixed = mix(layer, x, kinds="conv" if isinstance(layer, nn.Conv1d) else "pool")
    assert isinstance(mixed, Mixture)
    assert mixed(x).shape == layer(x).shape


def test_the_start_says_how_layers_are_mixed() -> None:
    space = spaces["discrete"].make(Config().with_values({"backbone.name": "lenet"}), perturb=0.5)
    assert space.start(IMAGES).choices["mixture"] == {"perturb": 0.5, "kinds": ["conv", "pool"], "select": ""}
