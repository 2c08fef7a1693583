"""Real files of other people, from the command line to the page."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.command import eclose

FIELDS = {
    *("format", "task", "space", "strategy", "seed", "metric", "valid", "test", "parameters", "flops", "epochs"),
    *("trials", "seconds", "device", "versions"),
}


@pytest.mark.parametrize(
    ("file", "channels", "classes", "at_least"),
    [
        pytest.param("timeseries/ECG5000.npz", 1, 5, 0.9, marks=pytest.mark.exhaustive),
        ("timeseries/JapaneseVowels.npz", 12, 9, 0.8),
    ],
)
def test_signals(shared: Path, tmp_path: Path, file: str, channels: int, classes: int, at_least: float) -> None:
    arguments = ("search", "--data", shared / file, "--space", "backbone", "--epochs", 5, "--json")
    done = eclose(*arguments, "--set", "run.threads=1", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result.keys() >= FIELDS
    assert result["signature"]["channels"] == channels
    assert result["signature"]["outputs"] == classes
    assert result["test"] > at_least


def test_darcy_in_the_documented_layout(shared: Path, tmp_path: Path) -> None:
    data = np.load(shared / "embedded" / "darcy16_small.npz")
    arrays = {name: data[name] for name in data.files}
    for part in ("train", "val", "test"):
        arrays[f"x_{part}"] = np.unpackbits(arrays[f"x_{part}"], axis=1).reshape(-1, 16, 16)
    np.savez(tmp_path / "darcy.npz", **arrays)
    arguments = ("search", "--data", "darcy.npz", "--space", "backbone", "--epochs", 5, "--json")
    done = eclose(*arguments, "--set", "run.threads=1", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["signature"] == {"kind": "dense", "channels": 1, "sizes": [16, 16], "outputs": 1, "vocabulary": 0}
    assert result["metric"]["name"] == "relative_l2"
    assert result["test"] < 0.5
