"""Random filters against literal loops and refits, on patterns that no linear map sees, and as the winner of a run."""

import copy
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eclose
from eclose.backbones.random_filters import THRESHOLDS, RandomFilters, random_filters
from eclose.engine import driver
from eclose.engine.predictors import Predictor, best_fitted, fit_predictors
from eclose.engine.predictors.random_filters import _left_out, _regression, filters_for, fit_random_filters
from eclose.errors import ConfigError
from eclose.runs import Run
from eclose.signature import Signature
from tests.engine.predictors.tasks import metric_of, normal, task

LABELS = Signature("classification", 1, (9,), 2)
NAME = "random-filter model"


def motifs(count: int = 120, far: float = 0.0) -> tuple[Any, Any]:
    """One of two shapes at a random place of a noisy signal: no linear map tells them apart."""
    rng = np.random.default_rng(0)
    y, x = np.arange(count) % 2, 0.3 * rng.normal(size=(count, 1, 90))
    shapes = np.stack([np.sin(np.arange(18) / 2), np.sign(np.sin(np.arange(18) / 2))]) * [[1.0], [0.5]]
    for signal, label, place in zip(x[:, 0], y, rng.integers(0, 72, count), strict=True):
        signal[place : place + 18] += 2 * shapes[label] * rng.choice([-1, 1])
    return (x + far).astype(np.float64 if far else np.float32), y


def fitted(made: Any) -> Predictor:
    return next(each for each in fit_predictors(made, metric_of(made)) if each.name == NAME)


@pytest.mark.parametrize("sizes", [(5,), (31,), (7, 4), (3, 1, 5)])
def test_shares_are_those_of_a_literal_loop(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    network = random_filters(Signature("classification", 2, sizes, 3), filters=5)
    network.middle += 0.3
    network.spread *= 1.7
    x = torch.randn(2, 2, *sizes)
    features = network.features(x)[:, : 5 * THRESHOLDS]
    scaled = ((x.double() - network.middle) / network.spread).numpy()
    reach = network.filters.shape[-1] // 2
    dilations = [d for d, count in zip(network.dilations, network.counts, strict=True) for _ in range(count)]
    outputs = np.zeros((2, 5, *sizes))
    for sample, number, place in itertools.product(range(2), range(5), np.ndindex(*sizes)):
        for channel, tap in itertools.product(range(2), np.ndindex(*network.filters.shape[2:])):
            at = tuple(p + (t - reach) * d for p, t, d in zip(place, tap, dilations[number], strict=True))
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                weight = float(network.filters[(number, channel, *tap)])
                outputs[(sample, number, *place)] += weight * scaled[(sample, channel, *at)]
    expected = [
        (outputs[:, start : start + count].reshape(2, count, -1) > threshold[start : start + count, None].numpy()).mean(
            2
        )
        for start, count in zip(itertools.accumulate([0, *network.counts[:-1]]), network.counts, strict=True)
        for threshold in network.thresholds
    ]
    np.testing.assert_allclose(features.numpy(), np.concatenate(expected, 1), atol=1e-6)


@pytest.mark.parametrize("features", [4, 30])  # fewer and more than samples
def test_what_is_left_out_is_what_a_fit_without_it_says(features: int) -> None:
    x, y = torch.from_numpy(normal(12, features)), torch.from_numpy(normal(12, 2, seed=1))
    x = x - x.mean(0)
    middle, penalty = y.mean(0), 0.7
    left, size, _ = torch.linalg.svd(x, full_matrices=False)
    factors = size.square() / (size.square() + penalty)
    fit = _left_out(factors, left, left.T @ (y - middle), y - middle, middle, LABELS)
    for out in range(12):
        rest = [n for n in range(12) if n != out]
        mean_x, mean_y = x[rest].mean(0), y[rest].mean(0)
        a = x[rest] - mean_x
        weight = torch.linalg.solve(a.T @ a + penalty * torch.eye(features), a.T @ (y[rest] - mean_y))
        torch.testing.assert_close(fit.left_out[out], mean_y + (x[out] - mean_x) @ weight)


@pytest.mark.parametrize("features", [4, 30])
def test_the_weights_are_those_of_ridge_regression(features: int) -> None:
    x, y = torch.from_numpy(normal(12, features)), torch.from_numpy(normal(12, 2, seed=1))
    x = x - x.mean(0)
    weight, bias = _regression(x, y, Signature("regression", 1, (9,), 2))
    unit = torch.linalg.svdvals(x).square().sum() / min(12, features)
    truths = []
    for penalty in (1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4):
        normal_matrix = x.T @ x + penalty * unit * torch.eye(features)
        truths.append(torch.linalg.solve(normal_matrix, x.T @ (y - y.mean(0))))
    assert min(float((weight - truth).abs().max()) for truth in truths) < 1e-6
    torch.testing.assert_close(bias, y.mean(0))


def test_a_shape_at_any_place_is_seen() -> None:
    for far in (0.0, 1e3):
        made = task(*motifs(far=far), kind="classification")
        found, metric = fit_predictors(made, metric_of(made)), metric_of(made)
        tested = {each.name: each.tested(made, metric).test or 0.0 for each in found}
        assert tested[NAME] >= 0.9
        assert tested["linear model"] <= 0.75
        best = best_fitted(found, made, metric.goal)
        assert best is not None
        assert best.name == NAME


def test_values_are_predicted_too() -> None:
    x, y = motifs()
    width = np.abs(np.diff(x[:, 0])).mean(1)  # roughness, whatever the place
    made = task(x, width)
    assert (fitted(made).tested(made, metric_of(made)).test or 1.0) < 0.4 * width.var()


def test_the_same_filters_every_time_and_for_other_samples() -> None:
    made = task(*motifs(40), kind="classification")
    first = fitted(made)
    torch.manual_seed(5)
    second = fitted(made)
    again = first.fitted_to(made, made, metric_of(made))
    for other in (second, again):
        assert all(map(torch.equal, first.model.state_dict().values(), other.model.state_dict().values()))


def test_flat_parts_of_an_input_are_no_matter_of_rounding() -> None:
    """Filters give zero there, but for rounding, which is another one on another machine."""
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    x = np.zeros((60, 1, 16, 16), np.float32)
    for image, label, (row, column) in zip(x[:, 0], y, rng.integers(1, 10, (60, 2)), strict=True):
        line = image if label else image.T
        line[row : row + 5, column] = rng.uniform(0.5, 1, 5)
    network = fit_random_filters(task(x, y, kind="classification"), 64)
    given = torch.from_numpy(x)
    exact = copy.deepcopy(network).double().features(given.double())
    torch.testing.assert_close(network.features(given).double(), exact, rtol=0, atol=1e-5)


def test_fewer_filters_where_there_is_little_time() -> None:
    made = task(*motifs(), kind="classification")
    counts = [filters_for(made, seconds) for seconds in (60.0, 0.1, 0.02, 1e-6)]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (720, 0)
    assert not filters_for(task(normal(40, 1, 12), normal(40, 1, 12)), 60.0)  # a value at every position
    assert not filters_for(task(np.arange(480).reshape(40, 12) % 5, normal(40), tokens=True), 60.0)


@pytest.mark.parametrize("samples", [2, 3])
def test_few_samples_and_inputs_that_never_change(samples: int) -> None:
    made = task(np.zeros((samples * 10, 1, 3)), np.arange(samples * 10) % 2, kind="classification")
    output = fit_random_filters(made, 64)(torch.zeros(2, 1, 3))
    assert torch.isfinite(output).all()


def test_what_it_is_not_for() -> None:
    with pytest.raises(ConfigError, match="random_filters"):
        random_filters(Signature("dense", 1, (9,), 1))
    with pytest.raises(ConfigError, match="not tokens"):
        random_filters(Signature("classification", 1, (9,), 2, vocabulary=7))
    for cells in ((3,), (0, 2), (3, 6)):
        with pytest.raises(ConfigError, match="backbone.cells is"):
            random_filters(Signature("classification", 1, (4, 5), 2), cells=cells)


def test_it_wins_and_is_used_like_any_network(tmp_path: Path) -> None:
    x, y = motifs()
    quick = {"budget.trials": 1, "train.epochs": 1, "train.batch": 8, "run.threads": 1, "backbone.width": 4}
    result = eclose.search(data={"x": x, "y": y}, backbone="tcn", out=tmp_path / "run", settings=quick, progress=False)
    assert result.metrics["name"] == result.metrics["search"]["fitted"] == NAME
    names = [(row["name"], row["kind"]) for row in result.metrics["baselines"]]
    assert sorted(names) == [("linear model", "fitted"), ("most frequent class", "trivial"), ("tcn", "network")]
    assert [row.role for row in Run.open(result.run).table.all()] == ["fitted", "search", "final"]
    assert f"the {NAME} won: no network was better" in " ".join(str(result).replace("\n", " ").split())
    page = (result.run / "report.html").read_text(encoding="utf-8")
    assert f"The {NAME} won: no network was better" in page
    told = str(eclose.explain(result.run))
    assert "random filters, which nothing has changed" in " ".join(told.split())
    values = torch.from_numpy(x)
    program, _ = eclose.export(result.run, tmp_path / "program", format="pt2")
    torch.testing.assert_close(torch.export.load(program).module()(values), result.model(values))
    assert (eclose.predict(result.run, x, y=y).score or 0.0) > 0.9


def test_few_samples_are_filtered_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs of all filters take far more memory than inputs of one byte."""
    sizes, features = list[int](), RandomFilters.features

    def counted(network: RandomFilters, x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        return features(network, x)

    monkeypatch.setattr(RandomFilters, "features", counted)
    x = np.random.default_rng(0).integers(0, 256, (700, 1, 5, 5)).astype(np.uint8)
    made = task(x, np.arange(700) % 2, kind="classification")
    fit_random_filters(made, 32)
    assert sum(sizes) == len(made.train) > max(sizes) == 128


def test_a_resumed_run_fits_the_model_that_it_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of an earlier version may have chosen another one than this version would."""

    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "trial":
            raise KeyboardInterrupt

    x, y = motifs()
    x[:, :, 0] = 9 * y[:, None]  # which the linear model sees as well
    quick = {"budget.trials": 1, "train.epochs": 1, "train.batch": 64, "run.threads": 1, "backbone.width": 2}
    how: dict[str, Any] = {"data": {"x": x, "y": y}, "progress": False}
    monkeypatch.setattr(driver, "best_fitted", lambda found, *_: next(p for p in found if p.name == "linear model"))
    with pytest.raises(KeyboardInterrupt):
        eclose.search(**how, backbone="tcn", out=tmp_path / "run", settings=quick, listeners=[stop])
    monkeypatch.undo()
    result = eclose.resume(tmp_path / "run", **how)
    assert result.metrics["name"] == "linear model"
    chosen, final = (t for t in Run.open(result.run).table.all() if t.name == "linear model")
    assert (chosen.role, final.role, final.genotype["backbone"]) == ("fitted", "final", "linear")
