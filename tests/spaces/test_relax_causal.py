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
from eclose.spaces.relax import relax
from eclose.spaces.xd import XDSpace
from tests.spaces.networks import moved


class Temporal(nn.Module):
    """Convolutions that pad both sides and cut off the end, with growing dilation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(2, 2, 3, padding=2 * d, dilation=d) for d in (1, 2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x)[..., : x.shape[-1]])
        return x


def future(model: nn.Module, x: Tensor) -> Tensor:  # (1, channels, size)
    """What outputs see of later inputs."""
    jacobian = torch.autograd.functional.jacobian(model, x)[0, :, :, 0].transpose(1, 2)  # (.., out, size)
    return jacobian[..., torch.ones(x.shape[-1], x.shape[-1]).triu(1).bool()]


@pytest.mark.parametrize("options", [{}, {"max_kernel": 6}, {"depth": (2, 2, 2), "gates": "complex"}, {"bias": False}])
def test_no_output_sees_the_future(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model, x = Temporal().double(), torch.randn(1, 2, 11, dtype=torch.float64)
    relaxed = relax(model, x, causal=True, **options)
    torch.testing.assert_close(relaxed(x), model(x))
    assert not future(moved(relaxed, by=0.1), x).any()
    assert future(moved(relax(model, x, **options), by=0.1), x).all(), "they would"


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
    config = from_dict({"backbone": {"name": f"{__name__}:Temporal"}})
    space = XDSpace(config, causal=True)
    start = space.start(signature)
    supernet = moved(space.supernet(start, signature), by=0.1)
    found = space.build(space.derive(start, supernet), signature)
    assert not future(found, torch.randn(1, 2, 11)).any()
    assert "conv" in str(eclose.describe(found)[0])
