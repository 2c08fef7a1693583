"""Networks that see no future stay so, wherever their operations go."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import eclose
from eclose.config import from_dict
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.architecture import architecture
from eclose.spaces.relax import relax
from eclose.spaces.xd import XDSpace


class Temporal(nn.Module):
    """Convolutions that pad both sides and cut off the end, with growing dilation."""

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        given = {"kernel_size": 3, **changes}
        reach = [dilation * (given["kernel_size"] - 1) for dilation in (1, 2)]
        self.layers = nn.ModuleList(
            nn.Conv1d(2, 2, padding=padding, dilation=dilation, **given)
            for padding, dilation in zip(reach, (1, 2), strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x)[..., : x.shape[-1]])
        return x


def future(model: nn.Module, x: Tensor) -> Tensor:  # (1, channels, size)
    """What outputs see of later inputs."""
    jacobian = torch.autograd.functional.jacobian(model, x)[0, :, :, 0].transpose(1, 2)  # (.., out, size)
    return jacobian[..., torch.ones(x.shape[-1], x.shape[-1]).triu(1).bool()]


def moved(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in architecture(model).values():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("options", [{}, {"max_kernel": 6}, {"depth": (2, 2, 2), "gates": "complex"}, {"bias": False}])
def test_no_output_sees_the_future(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, x = Temporal().double(), torch.randn(1, 2, 11, dtype=torch.float64)
    relaxed = relax(model, x, causal=True, **options)
    torch.testing.assert_close(relaxed(x), model(x))
    assert not future(moved(relaxed), x).any()
    assert future(moved(relax(model, x, **options)), x).all(), "they would"


def test_kernels_grow_into_the_past() -> None:
    x = torch.randn(1, 2, 11)
    relaxed = relax(Temporal(), x, causal=True, max_kernel=6)
    weight = next(module for module in relaxed.modules() if isinstance(module, XD)).weight
    assert weight.shape == (2, 2, 6)
    assert not weight[..., :3].any()
    assert weight[..., 3:].all()
    (gradient,) = torch.autograd.grad(relaxed(x).square().sum(), weight)
    assert gradient.all()


def test_layers_that_see_the_future_are_refused() -> None:
    x = torch.zeros(1, 2, 11)
    outside = nn.Sequential(nn.ConstantPad1d((4, 0), 0.0), nn.Conv1d(2, 2, 3, dilation=2))
    with pytest.raises(ConfigError, match="'1' cannot be relaxed: its outputs see 4 points ahead, .* by 4 itself"):
        relax(outside, x, causal=True)
    with pytest.raises(ConfigError, match="'0' cannot be relaxed: its outputs see 1 point ahead"):
        relax(nn.Sequential(nn.Conv1d(2, 2, 3, padding=1)), x, causal=True)
    with pytest.raises(ConfigError, match="'1' cannot be relaxed: only convolutions can be causal, not AvgPool1d"):
        relax(nn.Sequential(nn.Conv1d(2, 2, 3, padding=2), nn.AvgPool1d(2)), x, causal=True, kinds=("conv", "pool"))


def test_the_space_has_it_too() -> None:
    signature = Signature("dense", 2, (11,), 2)
    config = from_dict({"backbone": {"name": f"{__name__}:temporal"}})
    space = XDSpace(config, causal=True)
    start = space.start(signature)
    supernet = moved(space.supernet(start, signature))
    found = space.build(space.derive(start, supernet), signature)
    assert not future(found, torch.randn(1, 2, 11)).any()
    assert "conv" in str(eclose.describe(found)[0])


def temporal() -> nn.Module:
    return Temporal()
