"""A small data set, and a run that has ended on it."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.plain import PLAIN, small
from tests.end_to_end.command import Call


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    """Sines of two frequencies, which any network tells apart."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    t = np.linspace(0, 1, 32)
    x = np.sin(2 * np.pi * (t * (2 + 3 * y[:, None]) + rng.random((60, 1)))).astype(np.float32)
    np.savez(tmp_path / "signals.npz", x=x, y=y)
    return tmp_path / "signals.npz"


@pytest.fixture
def finished(call: Call, signals: Path, tmp_path: Path) -> Path:
    status, _, err = call(*PLAIN, "--data", signals, "--epochs", 2, "--out", "run", "--json", *small())
    assert status == 0, err
    return tmp_path / "run"
