"""Final trainings that are worse than the trial they were chosen for."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import eclose
from eclose.config import Config
from eclose.engine import Search, complete, driver
from eclose.engine.final import behind, final_search
from eclose.runs import Run, Trial
from eclose.tasks import load_task
from eclose.train import load_tensors
from eclose.train.metrics import make_metric
from tests.engine.test_trials import rows, search
from tests.tasks.published.pieces import mnist_folder

KEPT = "these are the searched weights: those trained anew are worse"


def trial(number: int, **fields: Any) -> Trial:
    return Trial(number, "final", "net", "widths", {}, "", 0, **{"state": "done", **fields})


@pytest.mark.parametrize(
    ("metric", "valid", "fit", "worse"),
    [
        ("accuracy", 0.9, 0.9, False),
        ("accuracy", 0.9, 0.895, False),
        ("accuracy", 0.9, 0.88, True),
        ("relative_l2", 0.526, 0.3, False),
        ("relative_l2", 0.526, 0.56, False),
        ("relative_l2", 0.526, 0.912, True),
        ("relative_l2", 0.526, math.nan, True),
        ("relative_l2", 0.526, None, False),
    ],
)
def test_what_is_clearly_worse(metric: str, valid: float, fit: float | None, worse: bool) -> None:
    text = behind(trial(8, fit=fit), trial(3, valid=valid), make_metric(metric))
    assert bool(text) is worse
    if metric == "relative_l2" and fit == 0.912:
        assert text == (
            "this final training is worse than the trial it was chosen for: "
            "relative_l2 0.912 against 0.526 of trial 3 on the validation samples"
        )


def test_a_fit_is_no_training() -> None:
    fitted = replace(trial(8, fit=0.5), genotype={"fitted": True})
    assert behind(fitted, trial(0, valid=0.7), make_metric("accuracy")) == (
        "this fit to all samples is worse than that to training samples alone: "
        "accuracy 0.5 against 0.7 of trial 0 on the validation samples"
    )
    text = behind(replace(fitted, fit=0.99996), trial(0, valid=0.99999), make_metric("auroc"))
    assert "auroc 0.99996 against 0.99999 of trial 0" in text, "not 1 against 1"


def test_one_that_failed_is_worse() -> None:
    text = behind(trial(8, state="failed", reason="too hot"), trial(3, valid=0.5), make_metric("mse"))
    assert text == "its final training failed: too hot"


def test_the_searched_weights_are_kept_where_two_final_trainings_are_worse(tmp_path: Path) -> None:
    told: list[str] = []

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "notice":
            told.append(fields["text"])

    given = {"final.train.epochs": 1, "optimiser.learning_rate": 0.02}
    result = search(tmp_path / "run", epochs=8, trials=4, settings=given, listeners=[listen])
    finals = rows(result.run, "final")
    chosen = max(rows(result.run), key=lambda row: row.valid or 0.0)
    assert len(finals) == 2
    assert finals[0].seed != finals[1].seed
    assert all(row.fit < chosen.valid and "worse than the trial it was chosen for" in row.note for row in finals)
    assert (result.metrics["trial"], result.metrics["note"]) == (chosen.number, KEPT)
    assert result.metrics["valid"] == chosen.valid
    assert result.metrics["test"] is not None
    assert [text.partition(": ")[2] for text in told] == [finals[0].note, finals[1].note, KEPT]
    ours, searched = (
        load_tensors(folder / "weights.safetensors") for folder in (result.run, folder_of(result, chosen))
    )
    assert all(torch.equal(ours[name], searched[name]) for name in searched)
    assert KEPT in (result.run / "report.html").read_text(encoding="utf-8")
    before = Run.open(result.run).table.all()
    (result.run / "result.json").unlink()
    assert eclose.resume(result.run).metrics["trial"] == chosen.number
    assert Run.open(result.run).table.all() == before


def folder_of(result: eclose.Result, trial: Trial) -> Path:
    return result.run / "trials" / str(trial.number)


def test_a_second_one_that_is_good_is_handed_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lags = iter(["worse", ""])
    monkeypatch.setattr(driver, "behind", lambda *_: next(lags))
    result = search(tmp_path / "run", trials=2)
    first, second = rows(result.run, "final")
    assert result.metrics["trial"] == second.number
    assert (first.note, second.note) == ("worse", "")
    assert result.metrics["test"] == second.test


def test_one_that_is_good_is_trained_once(tmp_path: Path) -> None:
    given = {"final.train.epochs": 8, "optimiser.learning_rate": 0.02}
    result = search(tmp_path / "run", epochs=2, trials=4, settings=given)
    (final,) = rows(result.run, "final")
    assert (result.metrics["trial"], result.metrics["note"]) == (final.number, "")
    assert final.fit is not None
    assert final.fit > (final.valid or 0.0)


@pytest.mark.parametrize(("val", "learned"), [(10, 60), (0, 60)])
def test_test_samples_that_validate_are_not_learned_from(tmp_path: Path, val: int, learned: int) -> None:
    mnist_folder(tmp_path, train=60, test=20)
    values = {"task.name": "mnist", "task.val": val, "task.data_dir": str(tmp_path), "final.networks": 1}
    config = Config().with_values({**values, "space.name": "backbone", "backbone.name": "resnet"})
    task = load_task(config.task, lambda done, total: None)
    ending = final_search(Search.of(complete(config, task), task))
    assert len(ending.task.train) == learned
    assert len(ending.task.val) == (0 if val else 20)
