"""Convolutions that are calls of functions are named, since nothing can take their place."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import conv_transpose2d

import eclose
from eclose.backbones.consent import Consent, consenting
from eclose.config import from_dict
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces.relaxing.functional_convolutions import functional_convolutions
from eclose.spaces.xd import XDSpace


class Called(nn.Module):
    """A convolution without a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv1d(x, self.weight, padding=1)


class Mixed(nn.Module):
    """A layer, and a function beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.block = nn.Conv1d(2, 2, 3, padding=1), nn.Sequential(nn.Tanh(), Called())

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.layer(x))


def test_functions_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.zeros(1, 2, 9)
    relaxed = eclose.relax(Mixed(), x)
    line = "convolutions that are calls of functions stay as they are: F.conv1d in 'block.1'; make them nn.Conv1d"
    assert capsys.readouterr().err == f"eclose: {line}\n"
    assert len(eclose.describe(relaxed)) == 1
    eclose.relax(Mixed(), x, tell=None)
    eclose.relax(nn.Sequential(nn.Conv1d(2, 2, 3), nn.ConvTranspose1d(2, 2, 3)), x)
    assert capsys.readouterr().err == ""
    space = XDSpace(from_dict({"backbone": {"name": f"{__name__}:Mixed"}}))
    with consenting(Consent(everything=True)):
        assert space.notices(Signature("dense", 2, (9,), 2)) == [line]


class Blurred(nn.Module):
    """Filters that nobody learns."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("filters", torch.ones(2, 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv1d(F.conv1d(x, self.filters, padding=1), weight=self.filters, padding=1)


def test_filters_that_are_not_learned_stay_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    relaxed = eclose.relax(nn.Sequential(Blurred(), nn.Conv1d(2, 2, 3)), torch.zeros(1, 2, 9))
    assert len(eclose.describe(relaxed)) == 1
    assert capsys.readouterr().err == ""


def test_a_network_of_functions_alone() -> None:
    with pytest.raises(ConfigError, match=r"nothing to relax: .* F\.conv1d in '0' .*: make them layers, nn\.Conv1d$"):
        eclose.relax(nn.Sequential(Called()), torch.zeros(1, 2, 9))
    with pytest.raises(ConfigError, match=r"F\.conv1d in the network itself cannot be replaced"):
        eclose.relax(Called(), torch.zeros(1, 2, 9))
    with pytest.raises(ConfigError, match=r"'1' \(Conv1d\); F\.conv1d in '0' cannot be replaced"):
        eclose.relax(nn.Sequential(Called(), nn.Conv1d(2, 2, 1)), torch.zeros(1, 2, 9))


class Several(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return conv_transpose2d(torch.conv2d(x, torch.ones(1, 1, 2, 2)), torch.ones(1, 1, 2, 2))


def test_however_they_are_called() -> None:
    found = functional_convolutions(nn.Sequential(Several(), nn.Conv2d(1, 1, 2)), torch.zeros(1, 1, 4, 4))
    assert found == {"0": ["conv2d", "conv_transpose2d"]}
