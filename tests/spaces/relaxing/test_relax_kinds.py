"""Every kind of layer that can be relaxed, in the networks of this package and alone."""

import pytest
import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.backbones.layers import Subsample
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.relax import relax

IMAGES = Signature("classification", 2, (9, 8), 5)
FIELDS = Signature("dense", 1, (13, 10), 1)
ALL = ("conv", "fno", "pool", "skip")

NETWORKS = {
    "resnet20": (IMAGES, {"width": 2}, 28),
    "resnet": (Signature("classification", 2, (23,), 4), {"width": 4}, 9 + 1),
    "inception": (Signature("classification", 2, (23,), 4), {"width": 2, "blocks": 4}, 3 * 4 + 1),
    "tcn": (Signature("classification", 2, (23,), 4), {"width": 4}, 4 + 1),
    "lenet": (IMAGES, {"widths": (2, 3), "pool": "average"}, 4),
    "unet": (FIELDS, {"width": 2, "levels": 1}, 6),
    "fno": (FIELDS, {"width": 3, "modes": 3}, 9),
    "cnn": (Signature("dense", 1, (6, 5, 4), 2), {"width": 2, "layers": 2, "norm": True}, 3),
}


def relaxed_layers(model: nn.Module) -> list[str]:
    return [path for path, module in model.named_modules() if isinstance(module, XD)]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_all_kinds(name: str) -> None:
    torch.manual_seed(0)
    signature, options, count = NETWORKS[name]
    model = make_backbone(name, signature, options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # no value is exactly where ReLU has its kink
            parameter.add_(0.01 * torch.randn_like(parameter))
    x = torch.randn(signature.input_shape(2), dtype=torch.float64)
    relaxed = relax(model, x, kinds=ALL)
    assert len(relaxed_layers(relaxed)) == count
    torch.testing.assert_close(relaxed(x), model(x), rtol=0, atol=1e-10)
    for network in (relaxed, model):
        network(x).square().sum().backward()
    own = dict(relaxed.named_parameters())
    for key, parameter in model.named_parameters():
        torch.testing.assert_close(own[key].grad, parameter.grad)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in own.values())


def test_the_wide_residual_network() -> None:
    torch.manual_seed(0)
    model = make_backbone("wrn40-4", Signature("classification", 1, (5, 4), 2), {}).double().eval()
    x = torch.randn(1, 1, 5, 4, dtype=torch.float64)
    relaxed = relax(model, x, kinds=ALL, gates=False)
    assert len(relaxed_layers(relaxed)) == 37 + 15
    with torch.no_grad():
        torch.testing.assert_close(relaxed(x), model(x), rtol=0, atol=1e-10)


def test_weights_of_convolutions_and_fourier_layers_are_as_many_as_before() -> None:
    for name in ("resnet20", "fno", "unet"):
        signature, options, _ = NETWORKS[name]
        model = make_backbone(name, signature, options)
        relaxed = relax(model, torch.zeros(signature.input_shape(1)))
        own = sum(p.numel() for p in named_architecture(relaxed).values())
        assert own > 0
        assert sum(p.numel() for p in relaxed.parameters()) - own == sum(p.numel() for p in model.parameters())
        assert {key for key in relaxed.state_dict() if ".architecture." not in f".{key}"} == set(model.state_dict())


LAYERS = [
    (nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), (5, 4)),
    (nn.ConvTranspose1d(3, 6, 4, dilation=2, groups=3), (7,)),
    (nn.AvgPool1d(2), (7,)),
    (nn.AvgPool3d(2, stride=1, padding=1), (3, 4, 5)),
    (nn.AdaptiveAvgPool1d(4), (12,)),
    (nn.AdaptiveAvgPool2d((None, 1)), (5, 7)),
    (nn.AdaptiveAvgPool3d(1), (3, 4, 2)),
    (nn.Identity(), (5,)),
    (nn.Identity(), (3, 2, 4)),
    (Subsample(3), (7, 8)),
]


@pytest.mark.parametrize(("layer", "space"), LAYERS)
def test_layers(layer: nn.Module, space: tuple[int, ...]) -> None:
    model = nn.Sequential(layer).double()
    x = torch.randn(2, 3, *space, dtype=torch.float64)
    for options in ({}, {"bias": False, "gates": False}, {"paper": True}):
        relaxed = relax(model, x, kinds=ALL, **options)  # type: ignore[arg-type]
        assert relaxed_layers(relaxed) == ["0"]
        torch.testing.assert_close(relaxed(x), model(x), rtol=0, atol=1e-10)


def test_max_pooling_starts_as_average_pooling() -> None:
    model = nn.Sequential(nn.MaxPool2d(3, stride=2, padding=1), nn.MaxPool1d(2))
    average = nn.Sequential(nn.AvgPool2d(3, stride=2, padding=1), nn.AvgPool1d(2))
    for place, shape in enumerate([(2, 3, 7, 8), (2, 3, 9)]):
        x = torch.randn(shape)
        relaxed = relax(model[place], x, kinds=("max_pool",))
        torch.testing.assert_close(relaxed(x), average[place](x))
    with pytest.raises(ConfigError, match="nothing to relax"):
        relax(model[1], x, kinds=("pool",))


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (
            nn.AdaptiveAvgPool1d(4),
            r"'0' cannot be relaxed: adaptive pooling of \(9,\) to \(4,\) has windows of several",
        ),
        (nn.MaxPool1d(2, dilation=2), "'0' cannot be relaxed: max pooling with dilation or return_indices"),
        (nn.AvgPool1d(2, padding=1, count_include_pad=False), "'0' cannot be relaxed: .* not the same everywhere"),
        (nn.MaxPool1d(2, ceil_mode=True), "'0' cannot be relaxed: .* cuts its last window at size 9"),
    ],
)
def test_pooling_that_is_no_operation(layer: nn.Module, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        relax(nn.Sequential(layer), torch.zeros(1, 2, 9), kinds=("pool", "max_pool"))


def test_identities_that_are_no_skips_stay() -> None:
    """Placeholders before vectors and indices, and those that never run."""
    model = nn.Sequential(nn.Identity(), nn.Embedding(5, 4), nn.Identity(), nn.Flatten(), nn.Identity())
    model[0].spare = nn.Identity()
    tokens = torch.zeros(2, 6, dtype=torch.long)
    assert relaxed_layers(relax(model, tokens, kinds=("skip",))) == ["2"]
    with pytest.raises(ConfigError, match=r"no signal \(batch, channels, 1 to 3 axes\) goes through '0' \(Identity\)"):
        relax(model, tokens, kinds=("skip",), select="0")


@pytest.mark.parametrize("pool", [nn.AdaptiveAvgPool1d(2), nn.AdaptiveAvgPool1d(1), nn.AvgPool1d(2, ceil_mode=True)])
def test_windows_that_belong_to_a_size_are_refused_at_another(pool: nn.Module) -> None:
    relaxed = relax(nn.Sequential(pool), torch.zeros(1, 2, 8), kinds=("pool",))
    x = torch.randn(1, 2, 8)
    torch.testing.assert_close(relaxed(x), pool(x))
    for size in (7, 12):
        with pytest.raises(ValueError, match=f"0: an input of size {size} has other windows than one of size 8"):
            relaxed(torch.zeros(1, 2, size))
