"""Networks of single trials: loaded, asked, exported and trained again, or refused in one line."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import eclose
from eclose.cli import main
from eclose.engine.selection import front
from eclose.errors import RunError
from eclose.runs import Run, Trial
from eclose.tasks import load_task
from tests.engine.test_trials import rows, search


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, objectives = tmp_path_factory.mktemp("taken") / "run", ["error", "parameters"]
    settings = {"strategy.objectives": objectives, "strategy.start": "scratch"}
    return search(folder, strategy="evolution", epochs=4, trials=16, settings=settings).run


def on_front(run: Path) -> list[Trial]:
    return front(rows(run), "max", ("error", "parameters"))


def lost(run: Path) -> Trial:
    kept = {trial.number for trial in on_front(run)}
    return next(trial for trial in rows(run) if trial.state == "done" and trial.number not in kept)


def failed(run: Path) -> Trial:
    return next(trial for trial in rows(run) if trial.state == "failed")


def test_every_network_on_the_front_can_be_loaded(run: Path) -> None:
    task = load_task(Run.open(run).config.task, lambda done, total: None)
    x, y = task.val.all()
    assert len(on_front(run)) > 1
    for trial in on_front(run):
        model = eclose.load(run, trial=trial.number)
        hits = (model(x).argmax(1) == y).float().mean()
        assert float(hits) == pytest.approx(trial.valid)
        assert eclose.predict(run, x, trial=trial.number)["label"].tolist() == model(x).argmax(1).tolist()


def test_a_trial_is_exported_with_its_own_figures(run: Path, tmp_path: Path) -> None:
    trial = on_front(run)[-1]
    eclose.export(run, tmp_path / "bundle", trial=trial.number)
    bundle = Run.open(tmp_path / "bundle")
    assert bundle.result is not None
    assert (bundle.result["valid"], bundle.result["parameters"]) == (trial.valid, trial.parameters)
    assert "unbeaten" not in bundle.result, "that was said of another network"
    x = torch.rand(3, 1, 8, 8)
    assert torch.equal(eclose.load(bundle.path)(x), eclose.load(run, trial=trial.number)(x))
    with pytest.raises(RunError, match=r"bundle has no trials: it holds one network, leave out --trial 0"):
        eclose.load(bundle.path, trial=0)
    assert not (bundle.path / "trials.sqlite").exists()


def test_a_trial_whose_weights_are_gone_can_be_trained_again(run: Path, tmp_path: Path) -> None:
    trial = lost(run)
    wanted = rf"the weights of trial {trial.number} were not kept: `eclose retrain .*run --trial {trial.number}`"
    with pytest.raises(RunError, match=wanted):
        eclose.load(run, trial=trial.number)
    again = eclose.retrain(run, trial=trial.number, out=tmp_path / "again")
    assert again.genotype.choices == trial.genotype
    assert again.metrics["parameters"] == trial.parameters


def test_any_trial_is_explained(run: Path) -> None:
    """The toy networks of this run have nothing to say; those of other trials are not built from lost weights."""
    assert list(eclose.explain(run, trial=lost(run).number)) == []
    with pytest.raises(RunError, match="failed"):
        eclose.explain(run, trial=failed(run).number)


def test_what_cannot_be_taken(run: Path) -> None:
    with pytest.raises(RunError, match=r"has no trial 99, but 0 to 1\d: `eclose show .*` lists them"):
        eclose.load(run, trial=99)
    trial = failed(run)
    for take in (eclose.load, eclose.retrain):
        with pytest.raises(RunError, match=rf"trial {trial.number} failed \(.+\): choose another, `eclose show"):
            take(run, trial=trial.number)


def test_a_trial_under_way(run: Path, tmp_path: Path) -> None:
    trial = on_front(run)[0]
    table = Run.open(run).table
    table.put(dataclasses.replace(trial, state="running"))
    with pytest.raises(RunError, match=rf"trial {trial.number} has not finished: `eclose resume"):
        eclose.load(run, trial=trial.number)
    table.put(trial)


def test_from_the_command_line(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def status(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["eclose", *map(str, arguments)])
        return main()

    number = on_front(run)[-1].number
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 1, 8, 8), np.float32))
    assert status("predict", run, tmp_path / "x.npz", "--out", tmp_path / "y.npz", "--trial", number) == 0
    assert status("export", run, "--to", tmp_path / "bundle", "--trial", number) == 0
    assert status("retrain", run, "--out", tmp_path / "again", "--trial", lost(run).number) == 0
    capsys.readouterr()
    for verb in (("predict", run, tmp_path / "x.npz", "--out", tmp_path / "z.npz"), ("retrain", run)):
        assert status(*verb, "--trial", 99) == 2
        error = capsys.readouterr().err
        assert "has no trial 99" in error
        assert error.count("\n") == 1
