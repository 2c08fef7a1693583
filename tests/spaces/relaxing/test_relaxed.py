"""What torch does with networks, it does with relaxed ones: copies, files, compilation, export, several processes."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.parametrizations import weight_norm

from eclose.backbones.spectral import SpectralConv
from eclose.ops.xd import Gates
from eclose.spaces.architecture import named_architecture
from eclose.spaces.relaxing.relax import relax
from eclose.train.parallel import World
from tests.spaces.networks import moved
from tests.train.test_parallel import in_two_processes

KINDS = ("conv", "fno", "pool", "skip")
GATES: tuple[Gates, ...] = ("real", "complex")


def network() -> nn.Module:
    """A layer of every kind."""
    return nn.Sequential(
        weight_norm(nn.Conv1d(2, 4, 3, padding=1)),
        nn.ReLU(),
        nn.AvgPool1d(2),
        SpectralConv(4, 4, 2, 1),
        nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1),
        nn.Identity(),
    ).double()


def signal(batch: int) -> torch.Tensor:
    return torch.randn(batch, 2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def relaxed(seed: int = 0, kinds: tuple[str, ...] = KINDS, gates: Gates = True) -> nn.Module:
    """The network with an architecture away from its start."""
    torch.manual_seed(seed)
    return moved(relax(network(), signal(1), kinds=kinds, gates=gates))


def slopes(model: nn.Module, x: torch.Tensor, owner: nn.Module | None = None) -> dict[str, torch.Tensor]:
    parameters = dict((owner or model).named_parameters())
    found = torch.autograd.grad(model(x).square().sum(), list(parameters.values()))
    return dict(zip(parameters, found, strict=True))


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traced() -> None:
    model = relaxed()
    program = torch.jit.trace(model, signal(2))  # type: ignore[no-untyped-call]
    for batch in (2, 5):
        torch.testing.assert_close(program(-signal(batch)), model(-signal(batch)))


def test_copied() -> None:
    model = relaxed()
    model(signal(2)).sum().backward()
    twin = copy.deepcopy(model)
    torch.testing.assert_close(twin(signal(2)), model(signal(2)))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert model(signal(2)).abs().sum() > 0
    assert len(named_architecture(twin)) == len(named_architecture(model)) == 5 * 5


@pytest.mark.parametrize("gates", GATES)
def test_saved_and_loaded(gates: Gates, tmp_path: Path) -> None:
    model, other = relaxed(gates=gates), relaxed(seed=1, gates=gates)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    assert not torch.allclose(other(signal(2)), model(signal(2)))
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(other(signal(2)), model(signal(2)))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")  # torch about itself
@pytest.mark.parametrize("gates", ["complex", pytest.param("real", marks=pytest.mark.exhaustive)])
def test_compiled_as_one_graph(gates: Gates) -> None:
    model = relaxed(kinds=("conv",), gates=gates)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = signal(3)
    torch.testing.assert_close(compiled(x), model(x))
    ours = slopes(compiled, x, model)  # type: ignore[arg-type]
    for name, slope in slopes(model, x).items():
        torch.testing.assert_close(ours[name], slope)


@pytest.mark.parametrize("gates", GATES)
def test_exported_for_every_batch(gates: Gates) -> None:
    model = relaxed(gates=gates).eval()
    program = torch.export.export(model, (signal(2),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    for batch in (1, 5):
        torch.testing.assert_close(program.module()(signal(batch)), model(signal(batch)))


def _two_shares(world: World) -> None:
    torch.manual_seed(0)
    model = relaxed()
    x = signal(4)
    expected = slopes(model, x)
    shared = DistributedDataParallel(model)
    shared(x[world.rank :: 2]).square().sum().mul(2).backward()  # it takes the mean
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, expected[name])


def test_two_processes_have_the_gradients_of_one() -> None:
    in_two_processes(_two_shares)


@pytest.mark.parametrize("kind", KINDS)
def test_training_moves_everything(kind: str) -> None:
    torch.manual_seed(0)
    model = relax(network(), signal(1), kinds=(kind,))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):  # what starts as zero passes no gradient before it has moved
        loss = (model(signal(4)) - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]
    assert not [name for name, parameter in model.named_parameters() if torch.equal(before[name], parameter)]
