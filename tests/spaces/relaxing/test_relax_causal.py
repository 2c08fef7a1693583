"""Networks that see no future stay so, wherever their operations go."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eclose
from eclose.backbones.consent import Consent, consenting
from eclose.config import from_dict
from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.causality import KEPT, causality_of
from eclose.spaces.discrete import DiscreteSpace
from eclose.spaces.relaxing.mix import mix
from eclose.spaces.relaxing.relax import relax
from eclose.spaces.xd import XDSpace
from tests.spaces.networks import moved


class Temporal(nn.Module):
    """Convolutions with growing dilation, each padded by its whole reach in its own way."""

    def __init__(self, way: str = "cut", channels: int = 2) -> None:
        super().__init__()
        own = {"cut": 2, "late": 3}.get(way, 0)
        dilations = (1, 2)
        self.way = way
        self.layers = nn.ModuleList(nn.Conv1d(channels, channels, 3, padding=own * d, dilation=d) for d in dilations)
        self.pads = nn.ModuleList(nn.ConstantPad1d((2 * d, 0), 0.5) for d in dilations)

    def forward(self, x: Tensor) -> Tensor:
        for layer, pad in zip(self.layers, self.pads, strict=True):
            before = x
            if self.way == "function":
                x = F.pad(x, (2 * layer.dilation[0], 0))
            elif self.way == "module":
                x = pad(x)
            elif self.way == "copies":
                x = F.pad(x, (2 * layer.dilation[0], 0), mode="replicate")
            x = before + torch.tanh(layer(x)[..., : before.shape[-1]])
        return x


class Pooled(nn.Module):
    """One answer for the whole signal."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).mean(-1)


class TimeFirst(nn.Module):
    """Signals (batch, time, channels)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Temporal()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.mT).mT


class Words(nn.Module):
    """Tokens in, a signal out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.body = nn.Embedding(5, 2), Temporal()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.embedding(x).mT)


class Rows(nn.Module):
    """Time is the first of two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, (3, 3), padding=(2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)[:, :, : x.shape[2]]


def future(model: nn.Module, x: Tensor) -> Tensor:  # (1, channels, size)
    """What outputs see of later inputs."""
    jacobian = torch.autograd.functional.jacobian(model, x)[0, :, :, 0].transpose(1, 2)  # (.., out, size)
    return jacobian[..., torch.ones(x.shape[-1], x.shape[-1]).triu(1).bool()]


def operations(model: nn.Module) -> list[XD]:
    return [module for module in model.modules() if isinstance(module, XD)]


@pytest.mark.parametrize(
    "options", [{}, {"max_kernel": 6, "causal": True}, {"depth": (2, 2, 2), "gates": "complex"}, {"bias": False}]
)
@pytest.mark.parametrize("way", ["cut", "function", "module", "copies"])
def test_no_output_sees_the_future(way: str, options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model, x = Temporal(way).double(), torch.randn(1, 2, 11, dtype=torch.float64)
    relaxed = relax(model, x, **options)
    assert capsys.readouterr().err == ("" if "causal" in options else f"eclose: {KEPT}\n")
    torch.testing.assert_close(relaxed(x), model(x))
    ours = torch.autograd.grad(relaxed(x).square().sum(), [layer.bias for layer in operations(relaxed)])
    theirs = torch.autograd.grad(model(x).square().sum(), [layer.bias for layer in model.layers])
    torch.testing.assert_close(ours, theirs)
    assert not future(moved(relaxed, by=0.1), x).any()
    free = relax(model, x, **{**options, "causal": False})
    assert future(moved(free, by=0.1), x).any(), "they would"


@pytest.mark.parametrize("way", ["cut", "module"])
def test_a_moved_causal_network_learns(way: str) -> None:
    """Every weight and every part of the architecture has a gradient, and a step along it leaves the future unseen."""
    torch.manual_seed(0)
    x = torch.randn(1, 2, 11, dtype=torch.float64)
    relaxed = moved(relax(Temporal(way).double(), x), by=0.1)
    optimiser = torch.optim.SGD(relaxed.parameters(), lr=0.01)
    for _ in range(2):
        optimiser.zero_grad()
        relaxed(x).square().sum().backward()
        assert all(parameter.grad is not None and parameter.grad.any() for parameter in relaxed.parameters())
        optimiser.step()
    assert not future(relaxed, x).any()


def test_what_does_not_see_the_present_will_not() -> None:
    """Taps that end one place before: a forecast of each place from those before it."""
    torch.manual_seed(0)
    layer, x = nn.Conv1d(1, 1, 2, padding=2).double(), torch.randn(1, 1, 8, dtype=torch.float64)

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)[..., : x.shape[-1]]

    jacobian = torch.autograd.functional.jacobian(moved(relax(Shifted(), x), by=0.1), x).flatten(0, 2).flatten(1)
    assert not jacobian.triu().any()
    assert jacobian.tril(-1).any()


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (Temporal(), torch.zeros(1, 2, 11)),
        (Temporal("late"), torch.zeros(3, 2, 10)),
        (Pooled(Temporal()), torch.zeros(1, 2, 11)),
        (Pooled(Temporal("module")), torch.zeros(1, 2, 11)),
        (Pooled(nn.Sequential(Temporal("function"), nn.AvgPool1d(2), Temporal())), torch.zeros(1, 2, 12)),
        (TimeFirst(), torch.zeros(1, 11, 2)),
        (Words(), torch.zeros(1, 9, dtype=torch.long)),
        (nn.Sequential(Temporal(), nn.Conv1d(2, 2, 1)).half(), torch.zeros(1, 2, 11).half()),
    ],
)
def test_causal_networks_are_recognised(model: nn.Module, x: Tensor) -> None:
    torch.manual_seed(0)
    told: list[str] = []
    assert all(operation.causal for operation in operations(relax(model, x, tell=told.append)))
    assert told == [KEPT]
    assert not any(operation.causal for operation in operations(relax(model, x, causal=False, tell=told.append)))
    assert told == [KEPT]


def test_weights_of_zero_hide_nothing() -> None:
    model = Temporal()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert not causality_of(model, torch.zeros(1, 2, 11), dict(model.named_modules())).future
    assert not any(parameter.any() for parameter in model.parameters())


class Backwards(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(-1)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Sequential(nn.Conv1d(2, 2, 3, padding=1)), "'0' looks 1 point ahead: pad its input by 2 on the left"),
        (nn.Sequential(nn.Conv1d(2, 2, 3, dilation=2)), "'0' looks 4 points ahead: pad its input by 4"),
        (Pooled(nn.Conv1d(2, 2, 3, padding=1)), "'body' looks 1 point ahead"),
        (Pooled(nn.Sequential(Temporal(), Backwards(), Temporal())), "signal in another order"),
        (nn.Sequential(Temporal(), Backwards()), "its output sees|output of the network sees the future"),
        (nn.Sequential(Temporal(), nn.InstanceNorm1d(2)), "output of the network sees the future"),
        (nn.Sequential(Temporal(), nn.Conv1d(2, 2, 3, padding=1)), "'1' looks 1 point ahead"),
        (nn.Sequential(nn.Conv1d(2, 2, 1)), "no convolution that sees the past alone"),
    ],
)
def test_networks_that_see_the_future(model: nn.Module, reason: str) -> None:
    torch.manual_seed(0)
    x, told = torch.zeros(1, 2, 12), list[str]()
    select = None if len(list(model.modules())) > 2 else "*"
    assert not any(operation.causal for operation in operations(relax(model, x, select=select, tell=told.append)))
    assert not told
    with pytest.raises(ConfigError, match=f"causal=True, but .*({reason}).*causal=False lets it see the future"):
        relax(model, x, causal=True, select=select)


def test_what_cannot_be_kept_is_refused() -> None:
    x = torch.zeros(1, 2, 11)
    network = nn.Sequential(Temporal(), nn.Identity())
    with pytest.raises(ConfigError, match="'1' cannot be relaxed: .* only convolutions can be kept .*, not Identity"):
        relax(network, x, kinds=("conv", "skip"))
    relax(network, x, kinds=("conv", "skip"), causal=False)
    with pytest.raises(
        ConfigError, match="would see the future along dimension 2 of its input: .* last axis of a conv"
    ):
        relax(Rows(), torch.zeros(1, 1, 6, 7))
    with pytest.raises(ConfigError, match="causal is 'no', but must be True, False or 'auto'"):
        relax(network, x, causal="no")  # type: ignore[arg-type]


def test_kernels_grow_into_the_past() -> None:
    x = torch.randn(1, 2, 11)
    relaxed = relax(Temporal(), x, max_kernel=6)
    weight = operations(relaxed)[0].weight
    assert weight.shape == (2, 2, 6)
    assert not weight[..., :3].any()
    assert weight[..., 3:].all()
    (gradient,) = torch.autograd.grad(relaxed(x).square().sum(), weight)
    assert gradient.all()


SIGNATURE = Signature("dense", 2, (11,), 2)
CONFIG = from_dict({"backbone": {"name": f"{__name__}:Temporal"}})


@pytest.fixture
def trusting() -> Iterator[None]:
    """The user has typed the names of the networks below."""
    with consenting(Consent(everything=True)):
        yield


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize(("causal", "kept"), [("auto", True), (True, True), (False, False)])
def test_the_space_keeps_it(causal: Any, kept: bool) -> None:
    space = XDSpace(CONFIG, causal=causal)
    start = space.start(SIGNATURE)
    assert start.choices["relaxation"]["causal"] is kept
    assert space.effective(SIGNATURE) == {"causal": kept}
    assert space.notices(SIGNATURE) == [KEPT] * kept
    supernet = moved(space.supernet(start, SIGNATURE), by=0.1)
    found = space.build(space.derive(start, supernet)[0], SIGNATURE)
    assert future(found, torch.randn(1, 2, 11)).any().item() is not kept
    assert "conv" in str(eclose.describe(found)[0])


def test_a_search_says_so_and_writes_it_down(tmp_path: Path) -> None:
    told: list[str] = []

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "notice":
            told.append(fields["text"])

    torch.manual_seed(0)
    data = {"x": torch.randn(20, 2, 11).numpy(), "y": torch.randn(20, 2, 11).numpy()}
    result = eclose.search(
        data=data, space="xd", backbone=Temporal(), epochs=1, out=tmp_path / "run", baselines=(), listeners=[listen]
    )
    assert KEPT in told
    assert "causal = true" in (tmp_path / "run" / "config.toml").read_text()
    assert not future(result.model, torch.randn(1, 2, 11)).any()


@pytest.mark.usefixtures("trusting")
def test_mixtures_are_refused() -> None:
    """They look around the places of a layer, so that one that pads before would come to see the future."""
    with pytest.raises(ConfigError, match=r"sees no future, but operations of a mixture .* with causal=False"):
        mix(Temporal("module"), torch.zeros(1, 2, 11))
    config = from_dict({"backbone": {"name": f"{__name__}:Padded"}})
    with pytest.raises(ConfigError, match="use the space xd"):
        DiscreteSpace(config).start(SIGNATURE)
    free = DiscreteSpace(config, causal=False)
    assert future(free.supernet(free.start(SIGNATURE), SIGNATURE).double(), torch.randn(1, 2, 11).double()).any()


class Padded(Temporal):
    def __init__(self) -> None:
        super().__init__("module")
