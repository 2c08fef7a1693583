"""A search over XD-operations: both kinds of parameters move, and find what convolutions cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eclose
from eclose.errors import ConfigError
from eclose.runs import Run

SETTINGS: dict[str, Any] = {"run.threads": 1, "train.batch": 8, "backbone.width": 6, "backbone.modes": 3}


def shifted(points: int = 24) -> dict[str, np.ndarray]:
    """Each value is that of the point half a domain away: out of a small kernel's sight."""
    x = np.random.default_rng(0).normal(size=(60, 1, points)).astype(np.float32)
    return {"x": x, "y": np.roll(x, points // 2, axis=-1)}


def search(folder: Path, **arguments: Any) -> eclose.Result:
    settings = {**SETTINGS, **arguments.pop("settings", {})}
    given = {"data": shifted(), "space": "xd", "backbone": "cnn", "epochs": 2, "out": folder, **arguments}
    return eclose.search(settings=settings, **given)


def test_architecture_and_weights_move(tmp_path: Path) -> None:
    result = search(tmp_path / "run", baselines=["cnn"])
    assert result.metrics["space"] == "xd"
    assert result.metrics["strategy"] == "supernet"
    baselines = [row for row in result.metrics["baselines"] if row["kind"] == "network"]
    assert [row["name"] for row in baselines] == ["cnn"]
    assert result.metrics["name"] == "cnn with XD-operations"
    own = sum(tensor.numel() for tensor in result.genotype.tensors.values())
    assert result.metrics["architecture_parameters"] == own
    assert [row["architecture_parameters"] for row in baselines] == [0]
    start = Run.open(result.run)
    assert start.config.strategy.options["learning_rate"] == 0.005
    tensors = result.genotype.tensors
    assert tensors
    from eclose.signature import Signature
    from eclose.spaces import spaces

    space = spaces["xd"].make(start.config, **start.config.space.options)
    signature = Signature.from_dict(result.metrics["signature"])
    fresh, _ = space.derive(space.start(signature), space.supernet(space.start(signature), signature))
    distances = [float((tensors[name] - fresh.tensors[name]).norm()) for name in tensors]
    assert min(distances) > 0
    told = eclose.explain(result.run)
    assert told.as_dict() == result.metrics["explanation"]
    assert told[0].sentences[0] == "It is cnn with XD-operations in place of 4 layers."
    assert told[0].table is not None
    assert all(row[2] > 0 for row in told[0].table.rows)
    assert "What the operations became" in (result.run / "report.html").read_text()
    assert list(eclose.explain(result.run, trial=0)) == list(told), "made anew from the saved network"
    assert "nothing about it was searched" in str(eclose.explain(result.run, trial=1))
    assert result.genotype.hash != fresh.hash


class Diverging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(torch.nan))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * x


def test_a_baseline_that_fails_is_not_told_of_settings_of_the_search(tmp_path: Path) -> None:
    result = search(tmp_path / "run", epochs=1, baselines=[f"{__name__}:Diverging"])
    (row,) = (row for row in result.metrics["baselines"] if row["state"] == "failed")
    assert row["reason"].endswith("epoch 1: lower --set optimiser.learning_rate (it is 0.002)")


def test_it_finds_what_a_convolution_cannot_see(tmp_path: Path) -> None:
    # 150 steps for a way of half a domain: Adam, which moves all entries equally far, comes along soonest.
    both = {"name": "adam", "learning_rate": 0.01}
    settings = {f"optimiser.{key}": value for key, value in both.items()}
    settings |= {"strategy.optimiser": "adam", "strategy.learning_rate": 0.01}
    result = search(tmp_path / "run", epochs=25, baselines=["cnn"], settings={**settings, "backbone.width": 12})
    assert result.metrics["test"] < 0.5 * result.metrics["baselines"][0]["test"]


def test_warm_up_keeps_the_operations_and_equals_the_backbone(tmp_path: Path) -> None:
    settings = {"train.keep": "last", "optimiser.weight_decay": 0.0}
    frozen = search(tmp_path / "frozen", settings={**settings, "strategy.warmup_epochs": 1.99})
    plain = search(tmp_path / "plain", space="backbone", settings=settings)
    assert frozen.metrics["test"] == pytest.approx(plain.metrics["test"], rel=1e-4)
    late = search(tmp_path / "late", settings={**settings, "strategy.warmup_epochs": 1.0})
    assert late.metrics["test"] != frozen.metrics["test"]


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'xd' has no option 'dept'; did you mean 'depth'"):
        search(tmp_path / "run", settings={"space.dept": [1, 1, 1]})
    with pytest.raises(ConfigError, match="cannot be relaxed: the depth is one number of blocks"):
        search(tmp_path / "run", settings={"space.depth": [1, 0, 1]})
    with pytest.raises(ConfigError, match="space.gates is 'both', but must be true or false, or one of: real, complex"):
        search(tmp_path / "run", settings={"space.gates": "both"})
    assert not (tmp_path / "run").exists()
