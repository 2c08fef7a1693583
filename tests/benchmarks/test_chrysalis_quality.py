"""The experiments on K-operations: every arm can be built, and a run that is there is not made again."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chrysalis_quality import SETS, Plan, figures, run, settings_of, table, trainings
from benchmarks.rows import read_rows
from eclose.config import Config
from eclose.engine import Search, complete, make_strategy
from eclose.tasks import load_task
from tests.contracts.cases import images

TINY = {
    **{"task.name": "digits", "task.subset": 64, "task.subset_eval": 32, "train.epochs": 1, "train.batch": 16},
    **{"backbone.name": "lenet", "backbone.widths": (2, 3), "backbone.hidden": (8,)},
}


@pytest.mark.parametrize(("name", "arm"), [(name, arm) for name, (*_, arms) in SETS.items() for arm in arms])
def test_settings_are_those_of_members_that_exist(name: str, arm: str) -> None:
    settings = settings_of((name, arm, 0), Plan("cpu", "", 0.0))
    small = {key: value for key, value in settings.items() if not key.startswith("task.")}
    small |= {"backbone.widths": (2,)} if name == "rotated-sphere" else {"space.name": settings["space.name"]}
    if settings.get("space.begin") == "warm,scratch":
        small["backbone.widths"], small["space.begin"] = (2,), "scratch"
    task = load_task(Config().task, lambda done, total: None, images())
    search = Search.of(complete(Config().with_values(small), task), task)
    assert search.config.final.networks + 1 == trainings(settings)
    assert search.start.choices["backbone"] == settings["backbone.name"]


@pytest.mark.parametrize("space", ["xd", "discrete"])
def test_strategies_move_the_architecture_alike(space: str) -> None:
    _, common, arms = SETS["strategies"]
    task, made = load_task(Config().task, lambda done, total: None, images()), []
    for arm in (arm for arm in arms if arm.startswith(space)):
        settings = {key: value for key, value in {**common, **arms[arm]}.items() if not key.startswith("task.")}
        made.append(make_strategy(complete(Config().with_values(settings), task)))
    assert [strategy.__class__.__name__ for strategy in made] == ["Supernet", "Bilevel", "Bilevel"]
    for name in ("optimiser", "learning_rate", "weight_decay", "scheduled", "options", "warmup_epochs"):
        assert len({str(getattr(strategy, name)) for strategy in made}) == 1


def test_rows_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arms = {"linear": {"space.name": "backbone", "backbone.layers": "linear"}, "scratch": {"space.name": "chrysalis"}}
    monkeypatch.setenv("ECLOSE_DATA", "")  # a run sets it for its process
    monkeypatch.setitem(SETS, "digits", ("Digits", TINY, arms))
    jobs = [("digits", arm, 0) for arm in arms]
    plan = Plan("cpu", str(tmp_path), time.time() + 120)
    found = [figures(job, plan) for job in jobs]
    assert [row["offline"] is None for row in found] == [True, False]
    once = figures(("digits", "scratch", 0), replace(plan, settings=(("final.networks", 0),)))
    assert found[1]["parameters"] == once["parameters"]  # whichever training won
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in found))
    run(jobs, plan, 1, rows)
    assert read_rows([rows]) == found
    assert capsys.readouterr().out == "all there\n"
    linear, scratch = table(found)[-2:]
    assert linear.startswith(f"| linear |  | {found[0]['test']:.4f} |")
    assert scratch.startswith(f"| scratch | {found[1]['supernet']:.4f} | {found[1]['offline']:.4f} |")


def test_what_there_is_no_time_for_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECLOSE_DATA", "")
    assert figures(("permuted-cifar10", "linear", 0), Plan("cpu", str(tmp_path), time.time())) is None
