"""A search over mixtures of operations: what moves, and from when on."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

import eclose

SETTINGS: dict[str, Any] = {"run.threads": 1, "train.batch": 16, "backbone.widths": [4, 6], "backbone.hidden": [12]}


def stripes() -> dict[str, np.ndarray]:
    """Images with stripes two points wide or one: a matter of the operation, not of the place."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    columns = np.arange(12)[None, :] + rng.integers(4, size=(120, 1))
    lines = np.where(y[:, None] == 0, columns % 2, columns // 2 % 2).astype(np.float32)
    x = np.repeat(lines[:, None, None, :], 12, axis=2) + 0.5 * rng.normal(size=(120, 1, 12, 12)).astype(np.float32)
    return {"x": x.astype(np.float32), "y": y}


def search(folder: Path, **arguments: Any) -> eclose.Result:
    settings = {**SETTINGS, **arguments.pop("settings", {})}
    given = {"data": stripes(), "space": "discrete", "backbone": "lenet", "epochs": 3, "out": folder, **arguments}
    return eclose.search(settings=settings, **given)


def test_architecture_and_weights_move(tmp_path: Path) -> None:
    result = search(tmp_path / "run", settings={"strategy.learning_rate": 0.1})
    assert (result.metrics["space"], result.metrics["strategy"]) == ("discrete", "supernet")
    assert result.metrics["name"] == "lenet with mixed operations"
    shares = {name: alpha.softmax(0) for name, alpha in result.genotype.tensors.items()}
    assert list(shares) == ["0.alpha", "2.alpha", "3.alpha", "5.alpha"]
    assert result.metrics["architecture_parameters"] == 4 * 8
    told = eclose.explain(result.run)
    assert told.as_dict() == result.metrics["explanation"]
    assert told[0].sentences[0] == "It is lenet with mixed operations in place of 4 layers."
    start = torch.full((8,), 0.1 / 7)
    for name, place in {"0.alpha": 5, "2.alpha": 2, "3.alpha": 5, "5.alpha": 2}.items():
        wanted = start.clone()
        wanted[place] = 0.9
        moved = (shares[name] - wanted).abs()
        assert 1e-3 < moved.max() < 0.5, "away from its start, yet not by much after a few steps"


def test_warm_up_keeps_the_mixtures(tmp_path: Path) -> None:
    frozen = search(tmp_path / "frozen", settings={"strategy.warmup_epochs": 2.99, "space.perturb": 0.875})
    for alpha in frozen.genotype.tensors.values():
        torch.testing.assert_close(alpha.softmax(0), torch.full((8,), 1 / 8))
