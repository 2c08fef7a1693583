"""K-operations from the command line: progress, Ctrl-C and resume, both figures, a page that explains, a transfer."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eclose
from eclose.events import Events
from eclose.runs import Run
from eclose.spaces import Genotype
from eclose.tasks.published import images
from tests.contracts.cases import assert_same_run
from tests.end_to_end.command import Call

SEARCH = ("search", "--space", "chrysalis", "--task", "permuted-mnist", "--data-dir", "data")
SMALL = (
    *("--set", "task.val=16", "--set", "backbone.widths=[2,3]", "--set", "backbone.hidden=[8]"),
    *("--set", "train.batch=16", "--set", "run.threads=1", "--set", "run.checkpoint_seconds=0"),
)


@pytest.fixture
def _digits(tmp_path: Path) -> None:
    """Few digits, small ones, in the file that MNIST is read from."""
    found = np.load(Path(images.__file__).with_name("digits8x8.npz"), allow_pickle=False)
    parts = {"train": slice(0, 64), "test": slice(64, 96)}
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    arrays = {f"{name}_{part}": found[name][rows] for part, rows in parts.items() for name in ("x", "y")}
    np.savez(tmp_path / "data" / "mnist" / "mnist.npz", **arrays)


@pytest.mark.usefixtures("_digits")
@pytest.mark.parametrize(
    ("options", "epochs", "stopped_in"),
    [
        ((), 2, 1),
        (("--strategy", "bilevel"), 2, 1),
        (("--set", "strategy.restarts=4"), 4, 3),  # two restarts are over
    ],
    ids=("supernet", "bilevel", "restarts"),
)
def test_it_is_searched_stopped_resumed_explained_and_carried_over(
    options: tuple[str, ...], epochs: int, stopped_in: int, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = (*SEARCH, *options, "--epochs", epochs, *SMALL)
    status, out, err = call(*given, "--out", "whole")
    assert status == 0, err
    assert f"epoch {epochs} of {epochs}" in err
    assert all(word in out for word in ("K-operations", "supernet", "offline", "whole/report.html"))
    with monkeypatch.context() as patch:
        patch.setattr(Events, "emit", _interrupting(stopped_in))
        status, _, err = call(*given, "--out", "run")
    assert status == 130, err
    assert "eclose resume run" in err
    status, out, err = call("resume", "run", "--json")
    assert status == 0, err
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    result = json.loads(out)
    assert [row.role for row in Run.open(tmp_path / "run").table.all()] == ["search", "final"]
    assert result["supernet"] == pytest.approx(result["test"]) or result["offline"] == pytest.approx(result["test"])
    assert all(0 <= result[name] <= 1 for name in ("supernet", "offline"))
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    status, told, _ = call("explain", "run")
    for text in (page, " ".join(told.split())):
        assert "2 layers" in text
        assert "random operation" in text
        assert "K1 and K2 were unitary at the start." in text
    assert page.count("filters at random places") >= 2
    few = ("--set", "task.subset=64", "--set", "task.subset_eval=32")
    status, _, err = call("retrain", "run", "--task", "digits", "--epochs", 1, *few, "--out", "other")
    assert status == 0, err
    theirs = eclose.load(tmp_path / "other").state_dict()
    for name, entries in Genotype.load(tmp_path / "run").tensors.items():
        assert torch.equal(theirs[f"network.{name}"], entries), "the operation is frozen"


def _interrupting(epoch: int) -> Any:
    """Ctrl-C after an epoch of the search."""
    emit = Events.emit

    def told(self: Events, event: str, **fields: Any) -> None:
        emit(self, event, **fields)
        if event == "epoch" and (fields["trial"], fields["epoch"]) == (0, epoch):
            signal.raise_signal(signal.SIGINT)

    return told
