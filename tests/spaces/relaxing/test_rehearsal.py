"""What relaxing a network would break or miss is refused, with a path and a way out."""

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.relax import relax
from tests.spaces.networks import Twice

X = torch.randn(2, 2, 9, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    """Does anything with its only convolution; counts the runs of all copies."""

    runs: ClassVar[list[str]] = []

    def __init__(self, use: Callable[[Any, Tensor], Any], **options: Any) -> None:
        super().__init__()
        self.use = use
        self.part = nn.ModuleDict({"conv": nn.Conv1d(2, 2, 3, **options)})
        self.held = [self.part["conv"]]

    @property
    def conv(self) -> Any:
        return self.part["conv"]

    def forward(self, x: Tensor) -> Any:
        self.runs.append("relaxed" if isinstance(self.conv, XD) else "plain")
        return self.use(self, x)


def torch_layers(net: Network, x: Tensor) -> Tensor:
    for layer in net.part.values():
        x = layer(x) if isinstance(layer, nn.Conv1d) else x
    return x


@pytest.mark.parametrize(
    ("use", "options", "says"),
    [
        (
            lambda net, x: net.held[0](x),
            {},
            r"'part.conv' is run from where it cannot be replaced \(a list, .*: run it as 'part.conv' alone, or leave",
        ),
        (lambda net, x: net.held[0](x) + net.conv(x), {}, "'part.conv' is run from where it cannot be replaced"),
        (torch_layers, {}, "'part.conv' does not run any more once it is relaxed: leave it out with select="),
        (
            lambda net, x: net.conv(x)[..., : net.conv.kernel_size[0]],
            {"max_kernel": 5},
            "once relaxed, 'part.conv' fails on the example: AttributeError: 'XD' object has no attribute "
            "'kernel_size'; leave out layers whose weights or attributes the network reads itself, with select=",
        ),
        (
            lambda net, x: net.conv(x) + net.conv.weight.view(2, 2, 3).mean(),
            {"max_kernel": 5},
            "once relaxed, the network fails on the example: RuntimeError: shape .* is invalid .*; leave out layers",
        ),
        (
            lambda net, x: F.conv_transpose1d(net.conv(x), net.conv.weight, padding=1),
            {"max_kernel": 5},
            r"another function: on the example it has an output of shape \(2, 2, 9\) in place of \(2, 2, 7\); leave",
        ),
        (
            lambda net, x: {"scaled": [x, net.conv(x) + net.conv.weight.square().mean()]},
            {"max_kernel": 5},
            r"another function: on the example it has an output that is up to 0\.0\d+ away, of values up to \d\.",
        ),
    ],
)
def test_refused(use: Callable[[Any, Tensor], Any], options: dict[str, Any], says: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(ConfigError, match=says) as error:
        relax(Network(use), X, **options)
    assert "\n" not in str(error.value)


def test_weights_that_the_network_reads_stay_true() -> None:
    model = Network(lambda net, x: F.conv_transpose1d(net.conv(x), net.conv.weight, padding=1))
    torch.testing.assert_close(relax(model, X)(X), model(X))


def test_attributes_that_the_network_reads_stay() -> None:
    def causal(net: Network, x: Tensor) -> Tensor:
        return net.conv(F.pad(x, (net.conv.dilation[0] * (net.conv.kernel_size[0] - 1), 0)))

    model = Network(causal, dilation=2)
    model.conv.mark = "mine"
    relaxed = relax(model, X)
    torch.testing.assert_close(relaxed(X), model(X))
    conv = relaxed.get_submodule("part.conv")
    read = (conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.padding_mode, conv.mark)
    assert read == ((3,), (1,), (0,), (2,), "zeros", "mine")
    grown = relax(nn.Conv1d(2, 2, 3, stride=2), X, max_kernel=5)
    assert grown.stride == (2,)
    assert not hasattr(grown, "kernel_size"), "it has five taps now"


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.ReLU(), nn.Conv1d(2, 2, 3, padding=1))
    model[2].weight = model[0].weight
    return model


def test_a_weight_does_not_grow_away_from_what_it_is_tied_to() -> None:
    says = "weight of '0' cannot grow to 5 taps: it is tied to '2.weight', .*; select both layers or none, or leave out"
    with pytest.raises(ConfigError, match=says):
        relax(tied(), X, select="0", max_kernel=5)
    with pytest.raises(ConfigError, match="weight of 'first' cannot grow to 5 taps: it is tied to 'second.weight'"):
        relax(Twice(), X, select="first", max_kernel=5)
    for options in ({"max_kernel": 3}, {}):  # does not grow
        relaxed = relax(tied(), X, select="0", **options)  # type: ignore[arg-type]
        assert relaxed.get_parameter("0.weight") is relaxed.get_submodule("2").weight


def test_one_place_of_a_shared_module() -> None:
    model = Twice()
    relaxed = relax(model, X, select="first")
    assert isinstance(relaxed.get_submodule("first"), XD)
    assert type(relaxed.get_submodule("second")) is nn.Conv1d
    torch.testing.assert_close(relaxed(X), model(X))
    assert not relaxed.get_submodule("second")._forward_pre_hooks


def test_runs() -> None:
    """One of each network; the plain one runs again where outputs differ, which says nothing if it differs itself."""
    Network.runs.clear()
    relax(Network(lambda net, x: net.conv(x)), X, causal=False, tell=None)
    assert Network.runs == ["plain", "relaxed"]
    Network.runs.clear()
    numbers = itertools.count()
    relax(Network(lambda net, x: net.conv(x) + next(numbers)), X, causal=False, tell=None)
    assert Network.runs == ["plain", "relaxed", "plain"]


def test_nothing_is_left_behind() -> None:
    model, x = Network(lambda net, x: net.conv(x.add_(1)) + torch.rand(())), X.clone()
    state = torch.random.get_rng_state()
    relaxed = relax(model, x)
    assert torch.equal(x, X)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert relaxed.training
    assert all(parameter.requires_grad for parameter in relaxed.parameters())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in relaxed.modules())
    assert len(named_architecture(relaxed)) == 5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_rounding_is_no_difference(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    kinds = ("conv", "pool", "skip")
    layers = [nn.ConvTranspose1d(2, 2, 3), nn.Identity(), nn.AvgPool1d(3), nn.Conv1d(2, 2, 3, padding="same")]
    relaxed = relax(nn.Sequential(*layers).to(dtype), X.to(dtype), kinds=kinds)
    assert all(isinstance(module, XD) for module in relaxed.children())


def test_autocast() -> None:
    model = nn.Sequential(nn.ConvTranspose1d(2, 2, 3), nn.Identity(), nn.AvgPool1d(3))
    with torch.autocast("cpu", torch.bfloat16):
        relaxed = relax(model, X, kinds=("conv", "pool", "skip"))
    torch.testing.assert_close(relaxed(X), model(X))


def test_in_inference_mode() -> None:
    with torch.inference_mode():
        model = nn.Sequential(nn.Conv1d(2, 2, 3))
        torch.testing.assert_close(relax(model, X)(X), model(X))


def test_without_values() -> None:
    with pytest.raises(ConfigError, match="'0' is on the meta device, where nothing has a value: load its weights"):
        relax(nn.Sequential(nn.Conv1d(2, 2, 3)).to("meta"), X.to("meta"))
