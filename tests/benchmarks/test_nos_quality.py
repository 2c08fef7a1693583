"""The experiment on cells: every arm ends with a row at the same number of parameters, and none is made twice."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import nos_quality
from benchmarks.nos_quality import (
    ARMS,
    RANDOM,
    USUAL,
    Plan,
    equal_sizes,
    figures,
    found_cells,
    jobs_of,
    parameters_of,
    run,
    searched,
    shards,
    table,
    train_teacher,
    widened,
    with_epochs,
)
from benchmarks.rows import read_rows
from eclose.config import Config
from eclose.signature import Signature
from eclose.spaces import Genotype, make_space
from eclose.tasks import complete_task, load_task

TINY = (
    *(("task.subset_eval", 32), ("train.batch", 16), ("run.threads", 1)),
    *(("space.search_cells", 3), ("space.search_width", 4), ("space.blocks", 2)),
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("nos-quality")
    sizes = {"subset": 64, "taught": 1, "searched": 1, "epochs": 1, "cells": 3, "parameters": 6000}
    plan = Plan("cpu", str(folder), time.time() + 300, str(folder / "teacher"), "digits", **sizes, settings=TINY)
    train_teacher(plan)
    return plan


def test_arms_end_with_rows_of_equal_size(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECLOSE_DATA", "")
    arms = ["NOS under a teacher", "random cells"]
    found = [figures((arm, 0), plan) for arm in arms]
    assert all(abs(row["parameters"] / 6000 - 1) < 0.15 for row in found)
    assert [row.get("attention") is not None for row in found] == [True, False]
    assert not any(row["cut"] for row in found)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in found))
    run([(arm, 0) for arm in arms], plan, 1, rows)
    assert read_rows([rows]) == found
    assert capsys.readouterr().out == "all there\n"
    monkeypatch.setattr(nos_quality, "searched", None)  # what a search has found is kept
    again = figures((arms[0], 0), plan)
    assert {key: again[key] for key in ("cells", "test", "search_seconds")} == {
        key: found[0][key] for key in ("cells", "test", "search_seconds")
    }
    better, lucky = {"seed": 1, "valid": 0.95, "test": 0.9}, {"seed": 2, "valid": 0.1, "test": 0.99}
    lines = table([*found, {**found[1], **better}, {**found[1], **lucky}])
    assert len(lines) == 2 + 2
    assert lines[-1].startswith("| random cells | ")
    assert "| 0.9000 of 3 |" in lines[-1], "the best on validation samples, not on those of the test"
    assert sum(line == "```" for line in found_cells(found)) == 4


def test_the_teacher_is_trained_once(plan: Plan) -> None:
    before = (Path(plan.teacher) / "result.json").stat().st_mtime_ns
    train_teacher(plan)
    assert (Path(plan.teacher) / "result.json").stat().st_mtime_ns == before


def test_epochs_follow_from_the_time_that_steps_take(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_of(USUAL, range(3), 6)
    untold = replace(plan, searched=0, epochs=0, ends=time.time() + 460)
    monkeypatch.setattr(nos_quality, "_seconds_of_an_epoch", lambda plan, task, own: 1.0 if own is None else 2.0)
    slow = with_epochs(untold, jobs, [])
    assert (slow.searched, slow.epochs) == (6, 9)  # 3.2 times 2 * (9 searches of 2 s) and 3 * (15 trainings of 1 s)
    monkeypatch.setattr(nos_quality, "_seconds_of_an_epoch", lambda plan, task, own: 0.01)
    quick = with_epochs(untold, jobs, [])
    assert (quick.searched, quick.epochs) == nos_quality.MOST
    assert with_epochs(plan, jobs, []) is plan
    again = with_epochs(untold, jobs, [{"planned": [3, 4]}])
    assert (again.searched, again.epochs) == (3, 4)


def test_steps_are_timed(plan: Plan) -> None:
    task = load_task(complete_task(Config().with_values(plan.all()).task), lambda done, total: None)
    assert nos_quality._seconds_of_an_epoch(plan, task, None) > 0


def test_as_many_files_of_images_as_there_are(tmp_path: Path) -> None:
    assert shards(tmp_path) == 5
    (tmp_path / "cifar10").mkdir()
    for number in (1, 2, 4):
        (tmp_path / "cifar10" / f"cifar10_train{number}.npz").touch()
    assert shards(tmp_path) == 2
    assert Plan("cpu", str(tmp_path), 0.0, "").all()["task.shards"] == 2


def test_what_there_is_no_time_for_is_left(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECLOSE_DATA", "")
    assert figures(("NOS alone", 0), Plan("cpu", "", time.time(), plan.teacher)) is None
    assert set(USUAL) < set(ARMS)


def test_so_many_random_cells_as_are_asked_for() -> None:
    jobs = jobs_of(["NOS alone", RANDOM], [0, 5], 30)
    assert jobs[:2] == [("NOS alone", 0), ("NOS alone", 5)]
    assert jobs[2:] == [(RANDOM, seed) for seed in range(30)]
    assert jobs_of(["NOS alone"], [0], 30) == [("NOS alone", 0)]


def test_what_is_checked_is_the_plan_that_is_run() -> None:
    """Its number of parameters, its cells and its data; random cells that cannot have so few are refused."""
    plan = Plan("cpu", "", 0.0, "", cells=3, parameters=30_000, settings=TINY)
    signals = Signature("classification", 1, (46,), 24)
    assert re.fullmatch(r"random cells are within \d\.\d% of 30,000 parameters", equal_sizes(plan, signals))
    with pytest.raises(AssertionError, match="parameters in place of 100"):
        equal_sizes(replace(plan, parameters=100), signals)


def test_a_cell_more_or_less_brings_sizes_nearer() -> None:
    plan = Plan("cpu", "", 0.0, "", cells=5, parameters=30_000, settings=TINY)
    space, signals = make_space(Config().with_values(plan.all())), Signature("classification", 1, (46,), 24)

    def apart(genotype: Genotype, **sizes: int) -> float:
        return abs(parameters_of(space, replace(genotype, choices={**genotype.choices, **sizes}), signals) / 30_000 - 1)

    depths = set()
    for seed in range(4):
        found = widened(searched(RANDOM, seed, plan, 0.0)[0], plan, signals)
        depth, width = (found.choices[size] for size in ("cells", "width"))
        usual = min(apart(found, cells=5, width=other) for other in range(width - 4, width + 5))
        assert apart(found) <= usual
        assert (depth == 5) if usual <= 0.02 else (apart(found) < 0.05)
        depths.add(depth)
    assert {5} < depths, "not all are near with the usual number"


def test_how_far_sizes_are_apart_is_told() -> None:
    plan = Plan("cpu", "", 0.0, "", cells=5, parameters=1000)
    rows = [{"parameters": 990, "depth": 5}, {"parameters": 1020, "depth": 6}]
    assert nos_quality._apart(rows, plan) == " (-1.0% to +2.0%; 1 of 2 have a cell more or less to come so near)"
    assert nos_quality._apart([], plan) == ""


@pytest.mark.parametrize("target", [100_000, 500_000])
def test_widths_follow_from_the_parameters(target: int) -> None:
    plan, signature = Plan("cpu", "", 0.0, "", parameters=target), Signature("classification", 3, (32, 32), 10)
    cells = widened(searched("random cells", 1, plan, 0.0)[0], plan, signature)
    network = make_space(Config().with_values(plan.all())).build(cells, signature)
    assert sum(parameter.numel() for parameter in network.parameters()) == pytest.approx(target, rel=0.05)
