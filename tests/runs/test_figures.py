"""Whoever reads the figures of trials reads them from one table."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import eclose
from eclose.config import Config
from eclose.display.terminal.tables import result_table, trials_table
from eclose.engine.saved_networks import saved_network
from eclose.runs import FIGURES, OBJECTIVES, Figure, Run, Trial, TrialTable
from eclose.signature import Signature
from eclose.spaces import Genotype

SIGNATURE = Signature("dense", 1, (8,), 1)
LINE = """    memory: int | None = _figure(
        "count", page="memory", result="memory", listing="bytes", better="less", objective="memory"
    )
"""
READERS = """
import contextlib, json, pathlib, sqlite3, sys
from eclose.display.notebook import as_text
from eclose.display.page import write_page
from eclose.display.dashboards.study_trials import _SIZES
from eclose.display.terminal.tables import result_table, trials_table
from eclose.engine.selection import Selection, front
from eclose.runs import Run

run = Run.open(pathlib.Path("run"))  # written before there was such a figure
first, second = [trial for trial in run.table.all()]
rows = [type(first)(**{**vars(first), "memory": 70123}), type(first)(**{**vars(second), "memory": 30456})]
for row in rows:
    run.table.put(row)
with contextlib.closing(sqlite3.connect("run/trials.sqlite")) as connection:
    stored = [value for (value,) in connection.execute("SELECT memory FROM trials ORDER BY number")]
Selection(("error", "memory")).check()
result = {**run.result, **rows[0].outcome()}
run.write_result(result)
print(json.dumps({
    "stored": stored,
    "outcome": rows[0].outcome()["memory"],
    "front": [trial.number for trial in front(run.table.all(), "min", ("error", "memory"))],
    "study": [figure.name for figure in _SIZES],
    "listed": as_text(trials_table(run.table.all())),
    "ended": as_text(result_table(run.result)),
    "page": write_page(run).read_text(),
}))
"""


def value(figure: Figure) -> float:
    return 71 if figure.column == "INTEGER" else 0.71


def full(number: int = 0) -> Trial:
    figures = {figure.name: value(figure) for figure in FIGURES}
    return Trial(number, "search", "cnn", "backbone", {}, "a", 1, state="done", **figures)


def result(trial: Trial) -> dict:
    names = {"format": 1, "task": "burgers", "space": "backbone", "strategy": "train", "name": trial.name, "seed": 1}
    rest = {"metric": {"name": "mse", "goal": "min"}, "signature": SIGNATURE.as_dict(), "baselines": [], "trials": 2}
    return {**names, **rest, **trial.outcome()}


def cells(table) -> str:
    return " ".join(str(cell) for column in table.columns for cell in column.cells)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
class TestEveryFigure:
    def test_is_a_column_that_older_tables_get(self, figure: Figure, tmp_path: Path) -> None:
        table = TrialTable(tmp_path / "trials.sqlite")
        with closing(sqlite3.connect(table.path)) as connection, connection:
            connection.execute(f"ALTER TABLE trials DROP COLUMN {figure.name}")
        table = TrialTable(table.path)
        table.put(full())
        assert table.all() == [full()]

    def test_is_told_unless_it_is_rare_and_unknown(self, figure: Figure) -> None:
        nobody = Trial(0, "search", "cnn", "backbone", {}, "a", 1)
        assert full().outcome()[figure.name] == value(figure)
        assert (figure.name in nobody.outcome()) is not figure.rare

    def test_is_taken_from_the_trial_not_from_the_run(self, figure: Figure, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "run", Config())
        run.table.put(full())
        folder = run.trial_folder(0)
        Genotype("backbone", {}).save(folder)
        (folder / "weights.safetensors").touch()
        run.write_result({**result(full()), figure.name: 5})
        told = saved_network(run, 0).result
        own = told["trial_seconds"] if figure.name == "seconds" else told[figure.name]
        assert own == value(figure)

    def test_has_its_place_in_terminals(self, figure: Figure) -> None:
        listed = {str(column.header) for column in trials_table([full()]).columns}
        ended = {str(column.header) for column in result_table(result(full())).shapes[0].columns}
        assert not figure.listing or figure.listing in listed
        assert not figure.result or figure.result in ended

    def test_that_is_no_number_costs_one_line(self, figure: Figure, tmp_path: Path) -> None:
        run = Run.create(tmp_path / "run", Config())
        (run.path / "result.json").write_text(json.dumps({**result(full()), figure.name: "much"}))
        with pytest.raises(eclose.errors.RunError, match=figure.name):
            _ = run.result


def test_objectives_are_figures_with_a_direction() -> None:
    assert list(OBJECTIVES) == ["error", "parameters", "flops", "latency"]
    assert all(figure.better for figure in OBJECTIVES.values())


def test_a_new_figure_is_one_line(tmp_path: Path) -> None:
    """With one more line in the table, SQLite, result, objectives, terminal and page have it, and old runs open."""
    run = Run.create(tmp_path / "run", Config().with_values({"task.name": "burgers", "task.metric": "mse"}))
    for number in range(2):
        run.table.put(Trial(number, "search", "cnn", "backbone", {}, "a", 1, state="done", valid=0.5 + number))
    run.write_result(result(run.table.all()[0]))
    package = Path(eclose.__file__).parent
    shutil.copytree(package, tmp_path / "eclose", ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "eclose" / "runs" / "figures.py"
    before, place, after = table.read_text().partition("    seconds: float")
    table.write_text(f"{before}{LINE}{place}{after}")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "120"}
    process = subprocess.run(
        [sys.executable, "-c", READERS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    told = json.loads(process.stdout)
    assert told["stored"] == [70123, 30456]
    assert told["outcome"] == 70123
    assert told["front"] == [0, 1], "the second is worse and smaller"
    assert "memory" in told["study"]
    assert "bytes" in told["listed"]
    assert "30,456" in told["listed"]
    assert "memory" in told["ended"]
    assert "70,123" in told["ended"]
    assert '<th scope="col">memory</th>' in told["page"]
    assert "70.1 k" in told["page"]
