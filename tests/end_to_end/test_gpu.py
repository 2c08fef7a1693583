"""Trainings on a GPU: repeatable, resumable, in every precision, with data on the device or streamed."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import eclose
from eclose.errors import ConfigError
from eclose.runs import Run
from eclose.train import GradientStep, Objective, World
from eclose.train import data as train_data
from eclose.train.graph import GraphStep
from eclose.train.losses import make_loss
from eclose.train.optimisers import make_optimiser
from tests.end_to_end.command import environment

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


EXACT = {"run.deterministic": True, "train.precision": "float32"}


def digits(folder: Path, **settings: Any) -> eclose.Result:
    changes = {
        "task.subset": 300,
        "train.batch": 32,
        "backbone.width": 16,
        "backbone.dropout": 0.1,
        "augment.names": ["crop"],
        "augment.crop.padding": 1,
        "run.deterministic": True,
        **{key.replace("__", "."): value for key, value in settings.items()},
    }
    return eclose.search(
        task="digits",
        space="backbone",
        backbone="resnet",
        epochs=12,
        device="cuda",
        out=folder,
        settings=changes,
    )


def test_same_seed_same_numbers(tmp_path: Path) -> None:
    one, two = (digits(tmp_path / name) for name in ("one", "two"))
    assert one.metrics["test"] == two.metrics["test"]
    first, second = one.model.state_dict(), two.model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert one.metrics["test"] > 0.8
    assert one.metrics["device"].startswith("cuda")


def test_fast_unless_told(tmp_path: Path) -> None:
    found = eclose.search(
        task="digits", space="backbone", backbone="resnet", epochs=12, device="cuda", out=tmp_path / "run"
    )
    assert found.metrics["test"] > 0.8
    assert (found.metrics["precision"], found.metrics["deterministic"]) == ("tf32", False)
    config = Run.open(found.run).config
    assert (config.train.precision, config.run.deterministic) == ("tf32", False)
    assert torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize("precision", ["tf32", "bfloat16", "float16"])
def test_precisions(tmp_path: Path, precision: str) -> None:
    assert digits(tmp_path / "run", train__precision=precision).metrics["test"] > 0.8


def test_streamed_data_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resident = digits(tmp_path / "resident")
    monkeypatch.setattr(train_data, "_SHARE_OF_MEMORY", 0.0)
    streamed = digits(tmp_path / "streamed")
    assert resident.metrics["test"] == streamed.metrics["test"]
    assert resident.metrics["valid"] == streamed.metrics["valid"]


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_replayed_graph_gives_the_same_numbers(tmp_path: Path, optimiser: str) -> None:
    settings = {"optimiser__name": optimiser, "optimiser__clip": 1.0, "backbone__dropout": 0.0}
    settings["train__precision"] = "float32"
    eager = digits(tmp_path / "eager", train__graph="off", **settings)
    replayed = digits(tmp_path / "graph", train__graph="on", **settings)
    losses = [[e["train_loss"] for e in Run.open(r.run).table.all()[0].history] for r in (eager, replayed)]
    assert losses[1][:3] == pytest.approx(losses[0][:3], rel=1e-4)
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)  # what rounding begins, a hundred steps enlarge
    dropped = [digits(tmp_path / str(i), train__graph="on", backbone__dropout=0.3) for i in range(2)]
    assert dropped[0].metrics["valid"] == dropped[1].metrics["valid"]


@pytest.mark.parametrize(
    "strategy",
    [
        {"optimiser": "sgd"},
        {"optimiser": "relative_sgd"},
        {"optimiser": "relative_adam"},
        {"optimiser": "adam"},
        {"name": "bilevel"},
        {"name": "bilevel", "order": 2},
    ],
    ids=str,
)
def test_a_replayed_search_gives_the_same_numbers(tmp_path: Path, strategy: dict[str, Any]) -> None:
    def searched(folder: Path, graph: str) -> eclose.Result:
        settings = {
            **{f"strategy.{key}": value for key, value in strategy.items()},
            "strategy.warmup_epochs": 2.5,
            "task.subset": 300,
            "train.batch": 32,
            **EXACT,
        }
        return eclose.search(
            task="digits", space="xd", backbone="lenet", epochs=6, device="cuda", out=folder,
            settings={**settings, "backbone.pool": "average", "train.graph": graph},
        )  # fmt: skip

    eager, replayed = searched(tmp_path / "eager", graph="off"), searched(tmp_path / "graph", graph="on")
    histories = [Run.open(result.run).table.all()[0].history for result in (eager, replayed)]
    for key in ("train_loss", "valid"):
        one, other = ([entry[key] for entry in history] for history in histories)
        assert other == pytest.approx(one, rel=2e-3, abs=2e-2)
    for name, tensor in replayed.genotype.tensors.items():
        torch.testing.assert_close(tensor, eager.genotype.tensors[name], rtol=0.05, atol=0.02)


def test_a_look_ahead_that_draws_numbers_is_not_replayed(tmp_path: Path) -> None:
    settings = {"strategy.order": 2, "task.subset": 300, "backbone.dropout": 0.3, "train.batch": 32}
    given: dict[str, Any] = {"task": "digits", "space": "xd", "strategy": "bilevel", "backbone": "resnet", "epochs": 2}
    assert eclose.search(**given, device="cuda", out=tmp_path / "auto", settings=settings).metrics["valid"] > 0
    with pytest.raises(ConfigError, match="draws the same numbers again"):
        eclose.search(**given, device="cuda", out=tmp_path / "on", settings={**settings, "train.graph": "on"})


def test_a_replayed_retraining_with_found_operations_gives_the_same_numbers(tmp_path: Path) -> None:
    """Matrices of frozen operations are kept; a graph must not read them once a validation has made others."""
    settings = {"task.subset": 300, "train.batch": 32, "backbone.pool": "average", "strategy.learning_rate": 0.01}
    found = eclose.search(
        task="digits", space="xd", backbone="lenet", epochs=2, device="cuda", out=tmp_path / "run", settings=settings
    )
    histories = []
    for graph in ("off", "on"):
        again = eclose.retrain(found.run, out=tmp_path / graph, settings={"train.graph": graph, "train.epochs": 6})
        histories.append(Run.open(again.run).table.all()[0].history)
    eager, replayed = ([entry["train_loss"] for entry in history] for history in histories)
    assert replayed == pytest.approx(eager, rel=2e-3)


def test_networks_that_were_drawn_are_replayed_too(tmp_path: Path) -> None:
    def searched(graph: str) -> list[tuple[str, float]]:
        found = eclose.search(
            task="digits", space="einspace", trials=6, epochs=3, device="cuda", out=tmp_path / graph,
            settings={
                "train.graph": graph, "strategy.halving": 0, "strategy.start": "scratch",
                "space.extras": ["recurrent", "statespace", "xd"], **EXACT
            },
        )  # fmt: skip
        return [(trial.state, trial.history[0]["train_loss"]) for trial in Run.open(found.run).table.all()]

    for eager, replayed in zip(searched("off"), searched("auto"), strict=True):
        assert replayed == (eager[0], pytest.approx(eager[1], rel=1e-2))


def test_a_network_that_cannot_be_captured_is_trained_all_the_same(tmp_path: Path) -> None:
    class Looking(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (2.0 if x.mean().item() > 1e9 else 1.0)

    model = Looking(nn.Flatten(), nn.Linear(4, 2), nn.Dropout(0.1)).cuda()  # which draws numbers after the failure too
    optimisers = [make_optimiser("sgd", [{"params": list(model.parameters()), "lr": 0.1, "weight_decay": 0.0}], {})]
    objective = Objective(make_loss("mse", {}), None)
    step = GradientStep(model, objective, optimisers, 0.0, "float32", torch.device("cuda"), World())
    replayed = GraphStep(step, required=False)
    x, y = torch.randn(8, 4, device="cuda"), torch.randn(8, 2, device="cuda")
    losses = [float(replayed(x, y, 8)) for _ in range(20)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("optimiser", ["sgd", "relative_sgd", "relative_adam", "adam"])
def test_the_state_of_an_ordinary_step_is_replayed_on(optimiser: str) -> None:
    def step(seed: int) -> GradientStep:
        torch.manual_seed(seed)
        model = nn.Linear(4, 2).cuda()
        optimisers = [
            make_optimiser(optimiser, [{"params": list(model.parameters()), "lr": 0.1, "weight_decay": 0}], {})
        ]
        objective = Objective(make_loss("mse", {}), None)
        return GradientStep(model, objective, optimisers, 0.0, "float32", torch.device("cuda"), World())

    x, y, ordinary = torch.randn(8, 4, device="cuda"), torch.randn(8, 2, device="cuda"), step(0)
    ordinary(x, y, 8)
    other = step(1)
    other.model.load_state_dict(ordinary.model.state_dict())
    replayed = GraphStep(other)
    replayed.load_state_dict(copy.deepcopy(ordinary.state_dict()))
    for _ in range(6):
        ordinary.set_rate(0.5, 1.0)
        replayed.set_rate(0.5, 1.0)
        torch.testing.assert_close(replayed(x, y, 8), ordinary(x, y, 8))


def test_cpu_and_gpu_agree(tmp_path: Path) -> None:
    gpu = digits(tmp_path / "gpu", backbone__dropout=0.0)
    cpu = eclose.retrain(gpu.run, seed=0, device="cpu", out=tmp_path / "cpu")
    assert abs(gpu.metrics["test"] - cpu.metrics["test"]) < 0.1
    assert gpu.metrics["parameters"] == cpu.metrics["parameters"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_network_that_breaks_the_gpu_loses_only_itself(tmp_path: Path, workers: int) -> None:
    """A failed assertion in a kernel leaves the process without its GPU: in one of its own."""
    if workers > 1:
        pytest.importorskip("ray")
    command = [sys.executable, "-c", _BREAKS, str(tmp_path / "run"), str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=240)
    trials = Run.open(tmp_path / "run").table.all()
    states = [trial.state for trial in trials]
    assert trials[1].reason.startswith("AcceleratorError: CUDA error")
    if workers == 1:
        assert "cuda:0 does not answer since a training failed: eclose resume" in done.stderr
        assert states == ["done", "failed", "running"]
    else:
        assert done.returncode == 0, done.stderr
        assert states == ["done", "failed", "done", "done"]


_BREAKS = """
import sys
from pathlib import Path
import eclose
from tests.engine.executors.test_executors import arguments
behaviours = ("plain", "breaks the GPU", "plain", "plain")
eclose.search(**arguments(Path(sys.argv[1]), *behaviours), workers=int(sys.argv[2]), device="cuda")
"""


@pytest.mark.parametrize(
    "options", [{}, {"operations": "features", "partial": 2, "edge_norm": True}, {"skips": 1, "flops": 1e7}], ids=str
)
def test_a_replayed_search_for_cells_gives_the_same_numbers(tmp_path: Path, options: dict[str, Any]) -> None:
    """Supernet, cut and final training; towers and drop-path are replayed with their steps."""
    small = {"blocks": 2, "search_cells": 3, "search_width": 4, "cells": 3, "width": 4, **options}
    settings = {"task.subset": 300, "train.batch": 32, **EXACT, **{f"space.{key}": v for key, v in small.items()}}
    histories = []
    for graph in ("off", "on"):
        found = eclose.search(
            task="digits", space="nos", epochs=3, device="cuda", out=tmp_path / graph,
            settings={**settings, "train.graph": graph},
        )  # fmt: skip
        histories.append([entry["train_loss"] for trial in Run.open(found.run).table.all() for entry in trial.history])
    eager, replayed = histories
    assert replayed[:3] == pytest.approx(eager[:3], rel=1e-2), "the search"
    assert len(replayed) == len(eager) == 6


@pytest.mark.parametrize("options", [{"gumbel": True}, {"drop_path": 0.3}], ids=str)
def test_draws_of_a_search_for_cells_are_replayed(tmp_path: Path, options: dict[str, Any]) -> None:
    small = {"blocks": 2, "search_cells": 3, "search_width": 4, "cells": 3, "width": 4, **options}
    settings = {"task.subset": 300, "train.batch": 32, "train.graph": "on", "train.precision": "bfloat16"}
    found = eclose.search(
        task="digits", space="nos", epochs=3, device="cuda", out=tmp_path / "run",
        settings={**settings, **{f"space.{key}": value for key, value in small.items()}},
    )  # fmt: skip
    search, training = ([e["train_loss"] for e in trial.history] for trial in Run.open(found.run).table.all())
    assert training[-1] < training[0]
    assert search[-1] < 1.05 * search[0]  # a few steps, whose draws differ by more than they bring
