"""Trainings that end at a constant: recognised, tried once more at a lower rate, marked; defaults do not get there."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import eclose
from benchmarks.rates import poisson
from eclose.backbones import backbones
from eclose.display.terminal.tables import result_table, trials_table
from eclose.engine import runner
from eclose.events import Listener
from eclose.runs import Run, Trial
from eclose.signature import Signature
from eclose.train import load_tensors
from tests.engine import widths  # noqa: F401  (registers its space)

DEADLY = 0.5
AGAIN = "ended at a constant; this is a second training at a tenth of the rate"
IN_VAIN = "ended at a constant; so did a second training at a tenth of the rate"
NO_TIME = "ended at a constant; no time was left for a second training"


class Mortal(nn.Module):
    """A linear map that answers zero for ever once a weight is too large, as a layer of dead units does."""

    def __init__(self, inputs: int, limit: float) -> None:
        super().__init__()
        self.map = nn.Linear(inputs, 1, bias=False)
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        alive = self.map.weight.detach().abs().max() < self.limit
        return self.map(x.flatten(1)) * alive


def mortal(signature: Signature, *, limit: float = 0.4) -> nn.Module:
    return Mortal(math.prod(signature.sizes), limit)


@pytest.fixture(scope="module", autouse=True)
def _mortal() -> Iterator[None]:
    """A backbone of these tests only: others count the registered ones."""
    backbones.register("mortal")(mortal)
    yield
    del backbones._members["mortal"]


@pytest.fixture(scope="module")
def signals() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 1, 6, 6)).astype(np.float32)
    return {"x": x, "y": x[:, 0, :2].mean((1, 2)) - x[:, 0, 3:].mean((1, 2))}


def search(data: dict[str, np.ndarray], folder: Path, rate: float, **arguments: Any) -> eclose.Result:
    own = {"run.threads": 1, "train.batch": 16, "optimiser.name": "adam", "optimiser.learning_rate": rate}
    settings = {**own, "schedule.name": "constant", **arguments.pop("settings", {})}
    given = {"backbone": "mortal", "epochs": 3, **arguments}
    return eclose.search(data=data, out=folder, settings=settings, **{"space": "backbone", **given})


def rows(run: Path) -> list[Trial]:
    return Run.open(run).table.all()


def notices(told: list[str]) -> Listener:
    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "notice":
            told.append(fields["text"])

    return listen


def test_defaults_do_not_die(tmp_path: Path) -> None:
    """At the usual rate, without what comes with it, this network ends at a constant: relative error 0.99."""
    settings = {"run.threads": 1, "backbone.width": 16, "backbone.layers": 6, "train.batch": 8}
    result = eclose.search(
        data=poisson(80, 12), space="backbone", backbone="cnn", epochs=4, out=tmp_path / "run", settings=settings
    )
    assert result.metrics["valid"] < 0.7
    assert [(trial.collapsed, trial.note) for trial in rows(result.run)] == [(False, "")]


@pytest.fixture(scope="module")
def again(signals: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> tuple[eclose.Result, list[str]]:
    told: list[str] = []
    folder = tmp_path_factory.mktemp("again") / "run"
    result = search(signals, folder, DEADLY, baselines=["mortal"], listeners=[notices(told)])
    return result, told


def test_once_more_at_a_lower_rate(again: tuple[eclose.Result, list[str]], signals: dict[str, np.ndarray]) -> None:
    result, told = again
    said = "answers the same whatever it is shown: trained once more at a tenth of the rate"
    assert told == [f"mortal {said}", f"mortal (default) {said}"]
    found, baseline = rows(result.run)
    for trial in (found, baseline):
        assert (trial.state, trial.collapsed, trial.note) == ("done", False, AGAIN)
        assert [entry["rate"] for entry in trial.history] == pytest.approx([0.1] * 3)
    assert result.metrics["note"] == AGAIN
    assert result.metrics["valid"] < float(np.var(signals["y"]))
    assert AGAIN in (result.run / "report.html").read_text(encoding="utf-8")
    assert not list(result.run.glob("trials/*/checkpoint*"))


@pytest.mark.parametrize("when", [1, 2, 4, 5])
def test_a_run_that_is_stopped_in_either_training_goes_on(
    again: tuple[eclose.Result, list[str]], signals: dict[str, np.ndarray], tmp_path: Path, when: int
) -> None:
    ended: list[int] = []

    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch" and len(ended) < when:
            ended.append(fields["epoch"])
            if len(ended) == when:
                raise KeyboardInterrupt

    folder, settings = tmp_path / "run", {"run.checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        search(signals, folder, DEADLY, baselines=["mortal"], listeners=[stop], settings=settings)
    epochs: list[str] = []

    def count(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch" and fields["trial"] == 0:
            epochs.append(event)

    eclose.resume(folder, data=signals, listeners=[count])
    # The epoch that was stopped at its end is not in its last checkpoint.
    assert len(epochs) == 6 - when + 1
    for mine, other in zip(rows(folder), rows(again[0].run), strict=True):
        assert (mine.valid, mine.test, mine.note, mine.collapsed) == (other.valid, other.test, other.note, False)
        weights, wanted = (
            load_tensors(run / "trials" / str(mine.number) / "weights.safetensors") for run in (folder, again[0].run)
        )
        assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


def test_a_second_constant_is_marked_everywhere(signals: dict[str, np.ndarray], tmp_path: Path) -> None:
    result = search(signals, tmp_path / "run", DEADLY, epochs=2, settings={"backbone.limit": 0.0})
    (trial,) = rows(result.run)
    assert (trial.collapsed, trial.note) == (True, IN_VAIN)
    assert result.metrics["collapsed"]
    assert IN_VAIN in result.metrics["note"]
    page = (result.run / "report.html").read_text(encoding="utf-8")
    assert ">collapsed</span>" in page
    table = "\n".join(str(cell) for column in result_table(result.metrics).shapes[0].columns for cell in column.cells)
    assert "mortal (collapsed)" in table
    assert "collapsed" in "".join(str(cell) for column in trials_table([trial]).columns for cell in column.cells)


def test_of_many_networks_those_at_a_constant_are_marked_only(
    signals: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "is_constant", lambda *_: True)
    settings = {"strategy.halving": 0, "final.networks": 0, "space.widest": 2}
    result = search(signals, tmp_path / "run", 0.001, backbone="", space="widths", trials=2, settings=settings)
    assert [(t.collapsed, t.note, len(t.history)) for t in rows(result.run)] == [(True, "", 3)] * 2


def test_where_a_constant_is_right_nothing_is_tried_again(signals: dict[str, np.ndarray], tmp_path: Path) -> None:
    told: list[str] = []
    data = {"x": signals["x"], "y": np.ones(len(signals["x"]), np.float32)}
    result = search(data, tmp_path / "run", DEADLY, epochs=1, listeners=[notices(told)])
    assert told == []
    assert not result.metrics["collapsed"]


def test_a_second_training_takes_no_more_than_the_time_of_one(signals: dict[str, np.ndarray], tmp_path: Path) -> None:
    told: list[str] = []
    given: dict[str, Any] = {"minutes": 0.03, "epochs": 100_000, "listeners": [notices(told)]}
    result = search(signals, tmp_path / "run", DEADLY, settings={"backbone.limit": 0.0}, **given)
    (trial,) = rows(result.run)
    assert (trial.collapsed, trial.note) == (True, NO_TIME)
    assert trial.seconds < 1.5 * trial.allowed
    assert told[0].startswith("mortal answers the same whatever it is shown: give it more --minutes, a smaller network")
    early = search(signals, tmp_path / "early", DEADLY, minutes=0.5)
    assert [(each.collapsed, each.note) for each in rows(early.run)] == [(False, AGAIN)]
