"""A search over mixtures of operations behaves like any other: it moves, resumes, retrains and exports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
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


def test_retraining_keeps_the_found_mixtures(tmp_path: Path) -> None:
    found = search(tmp_path / "run")
    again = eclose.retrain(found.run, out=tmp_path / "again", data=stripes())
    assert again.genotype == found.genotype
    assert found.metrics["architecture_parameters"] == 4 * 8
    assert again.metrics["parameters"] == found.metrics["parameters"] - 4 * 8, "the mixtures are not trained"
    assert again.metrics["test"] is not None


def test_what_comes_out_is_usable(tmp_path: Path) -> None:
    result = search(tmp_path / "run", epochs=1)
    x = torch.from_numpy(stripes()["x"][:5])
    wanted = result.model(x).detach()
    eclose.export(result.run, tmp_path / "bundle")
    torch.testing.assert_close(eclose.load(tmp_path / "bundle")(x), wanted)
    program, _ = eclose.export(result.run, tmp_path / "program", format="pt2")
    torch.testing.assert_close(torch.export.load(program).module()(x), wanted, rtol=1e-4, atol=1e-5)


def test_an_interrupted_search_ends_with_the_same_bits(tmp_path: Path) -> None:
    settings = {"run.checkpoint_seconds": 0.0, "strategy.warmup_epochs": 1.0}
    whole = search(tmp_path / "whole", settings=settings)

    def trip(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch" and fields["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "run", settings=settings, listeners=[trip])
    resumed = eclose.resume(tmp_path / "run", data=stripes())
    assert resumed.genotype == whole.genotype
    ours, theirs = resumed.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
