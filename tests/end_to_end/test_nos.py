"""Cells from the command line: a teacher, a search stopped in every stage, a page that explains, own signals."""

import json
from pathlib import Path

import numpy as np
import pytest

from eclose.events import Events
from eclose.runs import Run
from tests.contracts.cases import assert_same_run
from tests.contracts.cases import signals as some_signals
from tests.end_to_end.command import Call, interrupting
from tests.tasks.published.pieces import cifar10_folder

CELLS = {"blocks": 1, "search_cells": 3, "search_width": 4, "cells": 3, "width": 4}
SMALL = (
    *("--set", "run.threads=1", "--set", "train.batch=16", "--set", "optimiser.learning_rate=0.03"),
    *(word for name, value in CELLS.items() for word in ("--set", f"space.{name}={value}")),
)
TASK = ("--task", "cifar10", "--data-dir", "data", "--set", "task.val=10")


def test_searched_under_a_teacher_cut_trained_stopped_resumed_and_explained(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    cifar10_folder(tmp_path / "data", each=10, test=20)
    teacher = ("--space", "backbone", "--backbone", "resnet", "--set", "backbone.width=4", *SMALL[:6])
    status, _, err = call("search", *TASK, *teacher, "--epochs", 1, "--out", "good")
    assert status == 0, err
    given = ("search", *TASK, "--space", "nos", "--teacher", "good", "--epochs", 2, *SMALL)
    status, out, err = call(*given, "--out", "whole")
    assert status == 0, err
    assert all(word in out for word in ("NOS cells", "whole/report.html"))
    assert "final: epoch 2 of 2" in err
    command: tuple[object, ...] = (*given, "--out", "run")
    for trial in (0, 1):  # the search, the final training
        with monkeypatch.context() as patch:
            patch.setattr(Events, "emit", interrupting(trial))
            status, _, err = call(*command)
        assert status == 130, err
        assert "eclose resume run" in err
        command = ("resume", "run", "--json")
    status, out, err = call(*command)
    assert status == 0, err
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert json.loads(out)["name"].startswith("NOS cells ")
    assert [row.role for row in Run.open(tmp_path / "run").table.all()] == ["search", "final"]
    status, told, _ = call("explain", "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    titles = ("The normal cell", "The reduction cell", "How clear the choices were", "Attention of the teacher")
    assert all(title in told and title in page for title in titles)


def test_signals_of_a_user(call: Call, tmp_path: Path) -> None:
    arrays = some_signals()
    np.savez(tmp_path / "mine.npz", **arrays)
    np.savez(tmp_path / "new.npz", x=arrays["x"][:5])
    status, out, err = call("search", "--data", "mine.npz", "--space", "nos", "--epochs", 1, *SMALL, "--out", "run")
    assert status == 0, err
    assert "NOS cells" in out
    status, _, err = call("predict", "run", "new.npz", "--out", "answers.npz")
    assert status == 0, err
    assert np.load(tmp_path / "answers.npz")["label"].shape == (5,)
    larger = ("--set", "space.cells=4", "--set", "space.width=6")
    status, _, err = call("retrain", "run", "--epochs", 1, *larger, "--out", "larger")
    assert status == 0, err
