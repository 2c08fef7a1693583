"""Sizes that are learned, from the command line: a search stopped and resumed, a page that explains, other lengths."""

import json
from pathlib import Path

import numpy as np
import pytest

from eclose.events import Events
from eclose.runs import Run
from tests.contracts.cases import assert_same_run, signals
from tests.end_to_end.command import Call, interrupting

SIZES = {"backbone.width": 6, "backbone.blocks": 2, "backbone.hidden": 8, "space.target": 0.5}
SMALL = (
    *("--set", "run.threads=1", "--set", "train.batch=16"),
    *(word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")),
)


def test_searched_stopped_resumed_explained_and_asked(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = signals()
    np.savez(tmp_path / "mine.npz", **arrays)
    np.savez(tmp_path / "longer.npz", x=arrays["x"][:5].repeat(2, axis=-1))
    given = ("search", "--data", "mine.npz", "--space", "dnarch", "--epochs", 2, *SMALL)
    status, out, err = call(*given, "--out", "whole")
    assert status == 0, err
    assert "ccnn with learned sizes" in out
    assert "by the operations of its blocks it costs 0.5 times one with 6 channels and 2 blocks" in err
    with monkeypatch.context() as patch:
        patch.setattr(Events, "emit", interrupting(trial=0))
        status, _, err = call(*given, "--out", "run")
    assert status == 130, err
    assert "eclose resume run" in err
    status, out, err = call("resume", "run", "--json")
    assert status == 0, err
    assert json.loads(out)["name"] == "ccnn with learned sizes"
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    (trial,) = Run.open(tmp_path / "run").table.all()
    assert trial.genotype["complexity"] == pytest.approx(0.5, rel=0.05)
    status, told, _ = call("explain", "run")
    assert status == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for words in ("How large its parts are", "the target was 0.5.", "convolved"):
        assert words in " ".join(told.split())
        assert words in page
    status, _, err = call("predict", "run", "longer.npz", "--out", "answers.npz")
    assert status == 0, err
    assert np.load(tmp_path / "answers.npz")["label"].shape == (5,)
