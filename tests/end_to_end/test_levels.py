"""Signals whose sizes span six orders of magnitude, from a file to answers."""

from pathlib import Path

import numpy as np
import pytest
import torch

import eclose

N = 240
SMALL = {"backbone.width": 4, "run.threads": 1}


@pytest.fixture(scope="module")
def pulses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pulses up and down, as large as 0.001 to 1000."""
    path = tmp_path_factory.mktemp("levels") / "pulses.npz"
    rng = np.random.default_rng(0)
    y, t = np.arange(N) % 2, np.arange(32)
    x = (1 - 2 * y[:, None]) * np.exp(-(((t - rng.uniform(8, 24, (N, 1))) / 2) ** 2)) + 0.05 * rng.normal(size=(N, 32))
    x = (x * 10 ** rng.uniform(-3, 3, (N, 1)))[:, None]
    np.savez(path, x_train=x[: N // 2], y_train=y[: N // 2], x_test=x[N // 2 :], y_test=y[N // 2 :])
    return path


@pytest.fixture(scope="module")
def found(pulses: Path) -> eclose.Result:
    return eclose.search(data=pulses, space="backbone", epochs=8, out=pulses.parent / "run", settings=SMALL)


def test_they_are_told_apart_whatever_their_size(pulses: Path, found: eclose.Result) -> None:
    settings = {**SMALL, "task.standardise": "channels"}
    plain = eclose.search(data=pulses, space="backbone", epochs=8, out=pulses.parent / "plain", settings=settings)
    linear = [
        next(row["test"] for row in result.metrics["baselines"] if row["name"] == "linear model")
        for result in (found, plain)
    ]
    assert linear[0] > linear[1] + 0.1
    assert found.metrics["test"] > plain.metrics["test"]


def test_the_network_takes_raw_values_wherever_it_goes(pulses: Path, found: eclose.Result) -> None:
    data = np.load(pulses)
    answers = eclose.predict(found.run, data["x_test"])
    assert np.mean(answers["label"] == data["y_test"]) == pytest.approx(found.metrics["test"])
    x = torch.from_numpy(data["x_test"]).float()
    model = eclose.load(found.run)
    with torch.no_grad():
        wanted = model(x)
    eclose.export(found.run, pulses.parent / "bundle")
    eclose.export(found.run, pulses.parent / "program", format="pt2")
    program = torch.export.load(pulses.parent / "program" / "model.pt2").module()
    with torch.no_grad():
        torch.testing.assert_close(eclose.load(pulses.parent / "bundle")(x), wanted, rtol=0, atol=0)
        torch.testing.assert_close(program(x), wanted)


def test_it_is_trained_again(pulses: Path, found: eclose.Result) -> None:
    again = eclose.retrain(found.run, out=pulses.parent / "again", epochs=8)
    assert again.metrics["test"] == pytest.approx(found.metrics["test"], abs=0.2)
    assert "input.power" in eclose.load(again.run).state_dict()
