"""Penalties against their formulas written out entry by entry, and what they do to a search."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import eclose
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.ops.kaleidoscope import pairs, permutation
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces import Genotype, spaces
from eclose.spaces.architecture import named_architecture, set_architecture
from eclose.spaces.xd_penalties import (
    DistancePenalty,
    PermutationPenalty,
    check_penalties,
    penalise,
    unlike_permutation,
)
from eclose.train.module_hooks import Verbs


def network(depth: tuple[int, int, int] = (1, 1, 1)) -> nn.Module:
    """Sizes 6, 7 x 8 and one operation that starts as pooling."""
    torch.manual_seed(0)
    line = nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular", dtype=torch.float64)
    plane = nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular", dtype=torch.float64)
    return nn.ModuleList(
        [
            XD.from_conv(line, 6, depth=depth),
            XD.from_conv(plane, (7, 8), depth=depth),
            XD.from_avg_pool(nn.AvgPool1d(2), 2, 6).double(),
        ]
    )


def shaken(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in named_architecture(model).values():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def matrices(model: nn.Module, names: str) -> list[np.ndarray]:
    found = []
    for module in model.modules():
        if isinstance(module, XD):
            for name in names:
                for part in getattr(module.architecture, name):
                    found.append(pairs.to_complex(part.dense().detach()).numpy())
    return found


def slow_distance(now: list[np.ndarray], start: list[np.ndarray]) -> float:
    total = 0.0
    for mine, first in zip(now, start, strict=True):
        norm = sum(abs(entry) ** 2 for entry in first.flatten())
        total += sum(abs(a - b) ** 2 for a, b in zip(mine.flatten(), first.flatten(), strict=True)) / (norm or 1.0)
    return total


def slow_unlike(matrix: np.ndarray) -> float:
    size, total = len(matrix), 0.0
    for one in (matrix, matrix.T):
        for row in one:
            moduli = [abs(entry) for entry in row]
            length = math.sqrt(sum(modulus**2 for modulus in moduli))
            total += (sum(moduli) - length + (length - 1) ** 2) / size
    return total


@pytest.mark.parametrize("depth", [(1, 1, 1), (2, 3, 1)])
def test_distance(depth: tuple[int, int, int]) -> None:
    model = network(depth)
    start = matrices(model, "KLM")
    penalty = DistancePenalty(model)
    assert penalty().item() == 0
    shaken(model)
    value = penalty()
    assert value.item() == pytest.approx(slow_distance(matrices(model, "KLM"), start), rel=1e-10)
    assert value.item() > 0.1


@pytest.mark.parametrize("depth", [(1, 1, 1), (1, 1, 3)])
def test_permutation(depth: tuple[int, int, int]) -> None:
    model = network(depth)
    start = matrices(model, "M")
    penalty = PermutationPenalty(model)
    assert penalty().item() == pytest.approx(0, abs=1e-11)
    shaken(model)
    value = penalty()
    products = [np.linalg.solve(first, now) for first, now in zip(start, matrices(model, "M"), strict=True)]
    assert value.item() == pytest.approx(sum(map(slow_unlike, products)), rel=1e-9)
    assert value.item() > 0.1


def permuted(operation: XD, order: Tensor) -> XD:
    (part,) = operation.architecture.M
    first = XD.from_conv(nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular").double(), len(order)).architecture.M[0]
    moved = first.matrix @ permutation(order, radices=part.radices, dtype=torch.float64)
    assert moved.entries.shape == part.entries.shape
    assert moved.orders == part.matrix.orders
    with torch.no_grad():
        part.entries.copy_(moved.entries)
    return operation


@pytest.mark.parametrize("size", [6, 8, 12])
def test_a_convolution_of_permuted_inputs_costs_nothing(size: int) -> None:
    conv = nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular", dtype=torch.float64)
    operation = XD.from_conv(conv, size, depth=(1, 1, 3))
    penalty = PermutationPenalty(operation)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(3))
    permuted(operation, order)
    x = torch.randn(2, 2, size, dtype=torch.float64)
    torch.testing.assert_close(operation(x), conv(x[..., order]))
    assert penalty().item() == pytest.approx(0, abs=1e-10)


def test_zero_at_permutations_and_nowhere_else() -> None:
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(5, generator=generator)
    phases = torch.polar(torch.ones(5, dtype=torch.float64), torch.arange(5.0).double())
    matrix = torch.eye(5, dtype=torch.complex128)[order] * phases
    assert unlike_permutation(pairs.from_complex(matrix)[None]).item() == pytest.approx(0, abs=1e-14)
    for other in (2 * matrix, 0 * matrix, matrix.roll(1, 0) + matrix, torch.ones_like(matrix) / 5):
        assert unlike_permutation(pairs.from_complex(other)[None]).item() > 0.1
    doubled = matrix.clone()
    doubled[0] = doubled[1]  # rows alone would not tell
    assert unlike_permutation(pairs.from_complex(doubled)[None]).item() > 0.1


@pytest.mark.parametrize("kind", [DistancePenalty, PermutationPenalty])
def test_gradients_are_finite_everywhere_and_lead_downhill(kind: Any) -> None:
    model = network()
    penalty = kind(model)
    own = list(named_architecture(model).values())
    penalty().backward()  # at the start most entries of P are zero, where a modulus has no derivative
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in own)
    shaken(model)
    before = penalty().item()
    optimiser = torch.optim.Adam(own, lr=0.003)
    for _ in range(40):
        optimiser.zero_grad()
        penalty().backward()
        optimiser.step()
    assert penalty().item() < 0.6 * before


def test_added_to_every_sample() -> None:
    model = shaken(network())[0]
    names = list(model.state_dict())
    fresh = [kind(model) for kind in (DistancePenalty, PermutationPenalty)]
    penalise(model, {"distance_penalty": 0.5, "permutation_penalty": 2.0})
    assert list(model.state_dict()) == names
    with torch.no_grad():
        for parameter in named_architecture(model).values():
            parameter.mul_(1.1)
    losses = torch.randn(3, dtype=torch.float64)
    wanted = losses + 0.5 * fresh[0]() + 2.0 * fresh[1]()
    torch.testing.assert_close(Verbs(model).extended(losses, losses, torch.sub), wanted)
    torch.testing.assert_close(Verbs(copy.deepcopy(model)).extended(losses, losses, torch.sub), wanted)
    for parameter in named_architecture(model).values():
        parameter.requires_grad_(False)
    assert torch.equal(Verbs(model).extended(losses, losses, torch.sub), losses)


def test_a_copy_has_penalties_of_its_own() -> None:
    model = network()
    penalise(model, {"distance_penalty": 1.0})
    twin = copy.deepcopy(model)
    shaken(model)
    assert Verbs(model).extra_losses[0]().item() > 0.1
    assert Verbs(twin).extra_losses[0]().item() == 0


def test_refused() -> None:
    check_penalties({"distance_penalty": 1.0, "permutation_penalty": 0.0})
    with pytest.raises(ConfigError, match=r"space.permutation_penalty is -1.0, but must be at least 0 and finite"):
        check_penalties({"permutation_penalty": -1.0})


def search(folder: Path, **settings: Any) -> eclose.Result:
    x = np.random.default_rng(0).normal(size=(60, 1, 12)).astype(np.float32)
    data = {"x": x, "y": np.roll(x, 6, axis=-1)}
    given = {"run.threads": 1, "train.batch": 8, "train.keep": "last", "backbone.width": 4, "backbone.modes": 2}
    settings = {f"{'space' if 'penalty' in key else 'strategy'}.{key}": value for key, value in settings.items()}
    return eclose.search(
        data=data,
        space="xd",
        backbone="cnn",
        epochs=4,
        out=folder,
        settings={**given, "strategy.learning_rate": 0.02, **settings},
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("distance_penalty", DistancePenalty), ("permutation_penalty", PermutationPenalty)]
)
def test_a_search_with_a_penalty_ends_nearer(tmp_path: Path, name: str, kind: Any) -> None:
    values = {}
    for weight in (0.0, 1.0):
        result = search(tmp_path / str(weight), **{name: weight})
        space = spaces["xd"].make(Config())
        supernet = space.supernet(Genotype("xd", result.genotype.choices), Signature("dense", 1, (12,), 1))
        penalty = kind(supernet)
        set_architecture(supernet, result.genotype.tensors)
        values[weight] = penalty().item()
    assert values[1.0] < 0.5 * values[0.0]


def test_a_search_says_no_before_it_begins(tmp_path: Path) -> None:
    for settings, says in (
        ({"optimiser": "adm"}, "unknown optimiser 'adm'; did you mean 'adam'"),
        ({"optimiser": "sgd", "momentum": 1.5}, "momentum is 1.5"),
        ({"learning_rate": -1.0}, "strategy.learning_rate is -1.0, but must be at least 0"),
        ({"warmup_epochs": -1.0}, r"strategy.warmup_epochs is -1.0, but must be at least 0"),
        (
            {"warmup_epochs": 99.0},
            r"strategy.warmup_epochs is 99.0, but a training has \d+ epochs?: nothing would be searched",
        ),
        ({"distance_penalty": math.nan}, "distance_penalty is nan"),
    ):
        with pytest.raises(ConfigError, match=says):
            search(tmp_path / "run", **settings)
    with pytest.raises(ConfigError, match="the strategy 'supernet' moves an architecture"):
        eclose.search(task="digits", space="backbone", strategy="supernet", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
