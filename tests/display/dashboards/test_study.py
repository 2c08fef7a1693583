"""The mirror of a search for Optuna's dashboard: what it shows, that it comes back, that it never stops a search."""

import contextlib
import math
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import eclose
from eclose.config import Config
from eclose.display.dashboards.study import dashboard_command, has_study, study_listener, write_study
from eclose.errors import ConfigError, RunError
from eclose.events import Events
from eclose.runs import Run, Trial

SETTINGS = {
    "task.name": "digits",
    "task.metric": "accuracy",
    "space.name": "einspace",
    "strategy.name": "evolution",
    "budget.trials": 9,
}


@pytest.fixture
def optuna() -> Any:
    return pytest.importorskip("optuna")


def row(number: int, valid: float | None = 0.5, state: str = "done", **changes: Any) -> Trial:
    genotype = {"tree": ["seq", "norm", f"linear({2**number})"]}
    values: dict[str, Any] = {
        "parameters": 100 + number,
        "flops": 1000 + number,
        "epochs": 2,
        "seconds": 3.5,
        "history": [{"epoch": 1, "valid": 0.25}, {"epoch": 2}, {"epoch": 3, "valid": valid}],
        "origin": "mutated" if number else "drawn",
        "parents": [number - 1] if number else [],
    }
    named = (number, "search", f"net {number}", "einspace", genotype, f"{number:016x}", 7)
    return Trial(*named, state, valid=valid, **{**values, **changes})


ROWS = [
    row(0, 0.5),
    row(1, 0.25, reason="stopped after epoch 1: not among the best"),
    row(2, None, "failed", reason="too hot", parameters=None, flops=None, history=[]),
    row(3, None),  # trained, but its figure is no number
    row(4, None, "running"),
]


def make(path: Path, rows: list[Trial] = ROWS, **settings: Any) -> Run:
    run = Run.create(path, Config().with_values({**SETTINGS, **settings}))
    for trial in rows:
        run.table.put(trial)
    return run


def study(run: Run, optuna: Any) -> Any:
    return optuna.load_study(study_name="einspace on digits", storage=f"sqlite:///{run.path / 'study.sqlite'}")


def told(run: Run, optuna: Any) -> list[tuple[Any, ...]]:
    """All that the study says, less the numbers that it gives by itself."""
    trials = study(run, optuna).get_trials()
    shown = [(t.state, t.values, t.params, t.user_attrs, t.intermediate_values, t.duration) for t in trials]
    return sorted(shown, key=lambda each: each[3]["trial"])


def test_a_study_shows_what_the_table_says(tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "r")
    write_study(run)
    shown = study(run, optuna)
    assert [direction.name for direction in shown.directions] == ["MAXIMIZE"]
    assert shown.metric_names == ["accuracy (validation)"]
    assert (shown.user_attrs["strategy"], shown.user_attrs["space"]) == ("evolution", "einspace")
    complete, pruned, failed, unjudged = shown.get_trials()
    assert [t.state.name for t in shown.get_trials()] == ["COMPLETE", "PRUNED", "FAIL", "FAIL"]
    assert (complete.values, pruned.values, failed.values, unjudged.values) == ([0.5], [0.25], None, None)
    assert complete.params == {"origin": "drawn", "parameters": 100, "flops": 1000}
    assert pruned.params == {"origin": "mutated", "parameters": 101, "flops": 1001}
    assert failed.params == {"origin": "mutated"}
    assert complete.intermediate_values == {1: 0.25, 3: 0.5}
    assert complete.duration == timedelta(seconds=3.5)
    assert pruned.user_attrs["parents"] == [0]
    assert pruned.user_attrs["network"] == "seq(norm, linear(2))"
    assert failed.user_attrs["reason"] == "too hot"
    assert shown.best_trial.user_attrs["name"] == "net 0"


def test_several_objectives_have_their_directions(tmp_path: Path, optuna: Any) -> None:
    settings = {"strategy.objectives": ["latency", "error", "flops"], "task.metric": "error"}
    run = make(tmp_path / "r", [row(0, 0.5, latency=1.5), row(1, 0.25, latency=None)], **settings)
    write_study(run)
    shown = study(run, optuna)
    assert [direction.name for direction in shown.directions] == ["MINIMIZE"] * 3
    assert shown.metric_names == ["latency (ms)", "error (validation)", "flops"]
    assert [t.values for t in shown.get_trials()] == [[1.5, 0.5, 1000.0], None]


def test_a_network_without_a_text_or_a_search_is_shown_too(tmp_path: Path, optuna: Any) -> None:
    trial = replace(row(0), space="backbone", genotype={"backbone": "lenet", "options": {}}, origin="")
    run = make(tmp_path / "r", [trial], **{"space.name": "backbone", "strategy.name": "train"})
    write_study(run)
    url = f"sqlite:///{run.path / 'study.sqlite'}"
    (shown,) = optuna.load_study(study_name="backbone on digits", storage=url).get_trials()
    assert shown.params["origin"] == "start"
    assert "lenet" in shown.user_attrs["network"]


def test_trials_are_added_as_they_end_in_any_order_and_once(tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "r", [row(0), row(1, None, "running"), row(2)])
    for _ in range(2):
        write_study(run)
        assert [t.user_attrs["trial"] for t in study(run, optuna).get_trials()] == [0, 2]
    run.table.put(row(1, 0.75))
    run.table.put(replace(row(3), role="final"))
    for _ in range(2):
        write_study(run)
        assert [t.user_attrs["trial"] for t in study(run, optuna).get_trials()] == [0, 2, 1]


def duplicated(run: Run, optuna: Any) -> None:
    shown = study(run, optuna)
    shown.add_trial(shown.get_trials()[0])


def foreign(run: Run, optuna: Any) -> None:
    study(run, optuna).add_trial(optuna.trial.create_trial(value=0.99))


def outdated(run: Run, optuna: Any) -> None:
    shown = study(run, optuna)
    trial = shown.get_trials()[0]
    optuna.delete_study(study_name=shown.study_name, storage=shown._storage)
    again = optuna.create_study(study_name=shown.study_name, storage=shown._storage, direction="maximize")
    trial.values = [0.875]
    again.add_trial(trial)


def turned(run: Run, optuna: Any) -> None:
    (run.path / "study.sqlite").unlink()
    url = f"sqlite:///{run.path / 'study.sqlite'}"
    optuna.create_study(study_name="einspace on digits", storage=url, direction="minimize")


def deleted(run: Run, optuna: Any) -> None:
    (run.path / "study.sqlite").unlink()


@pytest.mark.parametrize("damage", [duplicated, foreign, outdated, turned, deleted])
def test_whatever_else_a_study_says_it_follows_the_table_again(damage: Any, tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "r")
    write_study(run)
    before = told(run, optuna)
    with logs_off(optuna):
        damage(run, optuna)
    run.table.put(row(5, 0.625))
    write_study(run)
    after = told(run, optuna)
    assert after[:4] == before
    assert [each[3]["trial"] for each in after] == [0, 1, 2, 3, 5]


def test_written_anew_over_a_broken_file(tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "r")
    (run.path / "study.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(RunError, match=r"study\.sqlite cannot be written .*not a database.*`eclose report"):
        write_study(run)
    write_study(run, anew=True)
    assert len(told(run, optuna)) == 4


def test_folders_with_odd_names(tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "a ?b%20#é")
    write_study(run)
    assert has_study(run.path)
    assert sorted(path.name for path in run.path.iterdir()) == ["config.toml", "study.sqlite", "trials.sqlite"]
    assert dashboard_command(Path("a b")) == "optuna-dashboard 'sqlite:///a b/study.sqlite'"


def told_by_listener(run: Run, *happens: str) -> list[str]:
    notices: list[str] = []
    events = Events([lambda event, fields: notices.append(fields["text"]) if event == "notice" else None])
    listen = study_listener(run, events)
    for event in happens:
        listen(event, {})
    return notices


def test_a_broken_file_is_told_of_once(tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "r")
    (run.path / "study.sqlite").write_bytes(b"not a database" * 100)
    (notice,) = told_by_listener(run, "run", "trial_end", "trial_end", "result")
    assert notice.startswith("no dashboard: ")
    assert notice.endswith("the search goes on")
    assert "\n" not in notice


def test_a_locked_file_is_told_of_and_caught_up_with_later(tmp_path: Path, optuna: Any) -> None:
    run = make(tmp_path / "r", ROWS[:1])
    write_study(run)
    run.table.put(ROWS[1])
    with contextlib.closing(sqlite3.connect(run.path / "study.sqlite")) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        (notice,) = told_by_listener(run, "trial_end")
        assert "locked" in notice
    assert told_by_listener(run, "trial_end") == []
    assert len(told(run, optuna)) == 2


def test_without_optuna_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    run = make(tmp_path / "r")
    needs = "the dashboard needs Optuna: pip install 'eclose[dashboard]'"
    assert told_by_listener(run, "run", "trial_end") == [f"no dashboard: {needs}; the search goes on"]
    with pytest.raises(ConfigError, match="pip install"):
        write_study(run, anew=True)


def search(folder: Path, **arguments: Any) -> eclose.Result:
    small = {"run.threads": 1, "task.subset": 60, "task.subset_eval": 30, "space.nodes": 30, "space.flops": 1e5}
    given = {"task": "digits", "space": "einspace", "epochs": 2, "trials": 4, "out": folder, **arguments}
    return eclose.search(settings={**small, "strategy.start": "scratch", "run.dashboard": True}, **given)


def test_a_search_without_optuna_runs_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    notices: list[str] = []
    listen = lambda event, fields: notices.append(fields["text"]) if event == "notice" else None  # noqa: E731
    result = search(tmp_path / "r", listeners=[listen])
    assert math.isfinite(result.metrics["test"])
    assert sum("dashboard" in text for text in notices) == 1
    assert not has_study(result.run)


def test_a_search_that_is_interrupted_and_loses_its_study(tmp_path: Path, optuna: Any) -> None:
    def trip(event: str, fields: dict[str, Any]) -> None:
        if event == "trial" and fields["trial"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "r", listeners=[trip])
    run = Run.open(tmp_path / "r")
    assert [each[3]["trial"] for each in told(run, optuna)] == [0, 1]
    shutil.copy(run.path / "study.sqlite", tmp_path / "copy")
    (run.path / "study.sqlite").unlink()
    eclose.resume(run.path)
    whole = told(run, optuna)
    assert [each[3]["hash"] for each in whole] == [t.hash for t in run.table.all() if t.role == "search"]
    assert study(run, optuna).user_attrs["test"] == (run.result or {})["test"]
    for back in (None, tmp_path / "copy"):
        (run.path / "study.sqlite").unlink()
        if back:
            shutil.copy(back, run.path / "study.sqlite")
        eclose.resume(run.path)
        assert told(run, optuna) == whole
    eclose.report(run.path, dashboard=True)
    assert told(run, optuna) == whole


@contextlib.contextmanager
def logs_off(optuna: Any) -> Iterator[None]:
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    optuna.logging.set_verbosity(level)
