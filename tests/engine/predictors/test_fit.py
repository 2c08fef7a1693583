"""What a run says of predictors that need no training."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import eclose
from eclose.engine.predictors import fit_predictors, unbeaten
from eclose.runs import Run
from eclose.tasks import Split
from eclose.tasks.splits import some
from tests.engine.predictors.tasks import metric_of, normal, task

FAST: dict[str, Any] = {"run.threads": 1, "train.batch": 8, "backbone.width": 4}


def row(name: str, test: float | None, valid: float | None = 0.5) -> dict[str, Any]:
    return {"name": name, "test": test, "valid": valid}


def test_who_is_not_beaten() -> None:
    rows = [row("mean", 0.3), row("copy", 0.1), row("linear", 0.2)]
    assert unbeaten(0.05, None, rows, "min") == []
    assert unbeaten(0.2, None, rows, "min") == ["copy", "linear"], "a draw is no victory; the best stands first"
    assert unbeaten(None, None, rows, "min") == ["copy", "linear", "mean"], "no figure beats nobody"
    assert unbeaten(0.2, None, rows, "max") == ["mean", "linear"]
    assert unbeaten(None, 0.6, [row("mean", None), row("linear", None, 0.7)], "max") == ["linear"]
    assert unbeaten(0.2, 0.2, [row("mean", None, None)], "max") == []


def test_large_sets_are_sampled_from_end_to_end() -> None:
    values = torch.arange(50_000.0)[:, None, None]
    part = some(Split(values, values[:, 0, 0]))
    assert len(part) == 10_000
    x, _ = part.take(torch.tensor([0, 9_999]))
    assert x.flatten().tolist() == [0, 49_999]
    wide = torch.zeros(1, 1, 2**20).expand(300, 1, 2**20)
    assert len(some(Split(wide, wide[:, 0, 0]))) == 127


def test_the_same_figures_every_time() -> None:
    made = task(normal(80, 2, 9), np.arange(80) % 3)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, second = (fit_predictors(made, metric_of(made)) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before), "no random numbers are drawn"
    for one, other in zip(first, second, strict=True):
        assert one.valid == other.valid
        assert all(map(torch.equal, one.model.state_dict().values(), other.model.state_dict().values()))


@pytest.mark.parametrize("by", ["size", "shape"])
def test_samples_of_very_different_size_as_they_are_and_levelled(by: str) -> None:
    """What is better on validation samples stays, also where it is fitted to more of them."""
    rng = np.random.default_rng(0)
    y, t = np.arange(300) % 2, np.arange(16)
    if by == "size":  # nearly all of it is what levels bring nearer
        x = rng.normal(size=(300, 1, 16)) * 10.0 ** (3 * (np.arange(300) % 3) + 0.15 * y)[:, None, None]
    else:
        x = np.sin((1 + y[:, None]) * t + rng.uniform(0, 6, (300, 1)))[:, None]
        x = x * 10.0 ** rng.uniform(-3, 3, (300, 1, 1))
    made = task(x, y, kind="classification")
    assert made.scale is not None
    assert made.scale.levels is not None
    metric = metric_of(made)
    random = next(each for each in fit_predictors(made, metric) if each.name == "random-filter model")
    assert (random.levels is None) == (by == "size")
    again = random.fitted_to(made, made, metric)
    assert (again.levels is None) == (by == "size")
    assert again.valid == random.valid
    plain = replace(random, levels=None).fitted_to(made, made, metric)
    other = replace(random, levels=made.scale).fitted_to(made, made, metric)
    assert random.valid == max(plain.valid or 0, other.valid or 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
    """A network that cannot beat a copy of its input."""
    x = normal(40, 1, 12).astype(np.float32)
    out = tmp_path_factory.mktemp("run") / "run"
    return eclose.search(data={"x": x, "y": x}, space="backbone", baselines=["cnn"], epochs=1, out=out, settings=FAST)


def test_a_run_evaluates_them(run: eclose.Result) -> None:
    metrics = json.loads((run.run / "result.json").read_text())
    kinds = {row["name"]: row["kind"] for row in metrics["baselines"]}
    assert kinds == {
        "cnn": "network",
        "mean of the targets": "trivial",
        "mean of the input": "trivial",
        "copy of the input": "trivial",
        "linear model": "fitted",
    }
    fields = {"name", "valid", "test", "parameters", "seconds"}
    assert all(row.keys() >= fields and row["test"] is not None for row in metrics["baselines"])
    assert metrics["unbeaten"][0] == "copy of the input"
    assert not any(trial.role in ("trivial", "fitted") for trial in Run.open(run.run).table.all())


def test_the_page_says_who_was_not_beaten(run: eclose.Result) -> None:
    page = (run.run / "report.html").read_text()
    assert "It is worse than the copy of the input, which needs no training (0)." in page
    assert 'class="untrained"' in page


def test_a_resumed_run_ends_with_the_same_rows(run: eclose.Result) -> None:
    before = json.loads((run.run / "result.json").read_text())
    (run.run / "result.json").unlink()
    x = normal(40, 1, 12).astype(np.float32)
    after = eclose.resume(run.run, data={"x": x, "y": x}).metrics
    figures = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in each["baselines"]] for each in (before, after)
    ]
    assert figures[0] == figures[1]
    assert before["unbeaten"] == after["unbeaten"]
