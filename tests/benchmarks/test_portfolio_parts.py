"""The sets and the networks by hand that the portfolio is measured with."""

import numpy as np
import pytest
import torch

from benchmarks import training_defaults
from benchmarks.portfolio import NETWORKS, load_sets, train_handwritten


def test_sets_without_their_files_are_left_out(tmp_path):
    sets = load_sets(tmp_path)
    assert set(sets) == {"digits"}
    arrays = sets["digits"]()
    assert arrays["x_train"].shape == (1197, 1, 8, 8)
    assert arrays["y_test"].shape == (300,)
    (tmp_path / "timeseries").mkdir()
    x, y = np.zeros((4, 9), np.float32), np.arange(4)
    np.savez(tmp_path / "timeseries" / "Crop.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    sets = load_sets(tmp_path)
    assert set(sets) == {"Crop", "digits"}
    assert sets["Crop"]()["x_train"].shape == (4, 1, 9)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("space", [(20,), (6, 5), (4, 3, 3)])
def test_networks_by_hand_take_one_to_three_axes(name, space):
    model = NETWORKS[name](len(space), 2, 3)
    assert model(torch.randn(2, 2, *space)).shape == (2, 3)


def test_a_network_by_hand_learns():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = np.sin((1 + 3 * y[:, None]) * np.linspace(0, 6, 24) + rng.uniform(0, 6, (120, 1)))[:, None]
    parts = {"train": slice(0, 40), "val": slice(40, 80), "test": slice(80, None)}
    arrays = {f"{kind}_{part}": v[rows] for part, rows in parts.items() for kind, v in (("x", x), ("y", y))}
    assert train_handwritten("resnet", arrays, seconds=3.0, seed=0, device="cpu") > 0.9


def test_candidates_are_configurations(tmp_path, monkeypatch):
    monkeypatch.setenv("ECLOSE_DATA", str(tmp_path))
    assert training_defaults.check(torch.device("cpu")).startswith("1 sets; ")
