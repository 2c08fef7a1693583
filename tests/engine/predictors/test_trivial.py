"""Predictors that learn nothing, against numpy on the same samples."""

import numpy as np
import pytest
import torch

from eclose.engine.predictors import Predictor, fit_predictors
from eclose.tasks import Task
from eclose.train.metrics import make_metric
from tests.engine.predictors.tasks import metric_of, normal, task


def fitted(made: Task, metric: str = "") -> dict[str, Predictor]:
    judge = make_metric(metric) if metric else metric_of(made)
    return {each.name: each.tested(made, judge) for each in fit_predictors(made, judge)}


def test_most_frequent_class() -> None:
    made = task(normal(100, 1, 5), np.arange(100) % 10 // 4)  # shares 0.4, 0.4, 0.2
    labels = made.test.y[made.test.rows]
    predictor = fitted(made)["most frequent class"]
    assert predictor.kind == "trivial"
    assert predictor.test == pytest.approx(
        float((labels == predictor.model(torch.zeros(1, 1, 5)).argmax()).float().mean())
    )
    surprise = fitted(made, "nll")["most frequent class"].valid
    assert surprise == pytest.approx(-(0.4 * np.log(0.4) * 2 + 0.2 * np.log(0.2)), rel=0.05), "scores are frequencies"


def test_a_class_that_never_stood_at_a_position_costs_no_infinite_surprise() -> None:
    y = np.arange(6) % 2 * np.ones((40, 1), np.int64)
    y[-20:, 0] = 1  # zero in all others
    made = task(normal(40, 1, 6), y.astype(np.int64))
    predictor = fitted(made, "nll")["most frequent class"]
    assert predictor.model.value.isfinite().all()
    assert predictor.test is not None


def test_mean_of_the_targets() -> None:
    made = task(normal(100, 1, 5), normal(100, 2) + [1e3, 0])
    train, test = (split.y[split.rows] for split in (made.train, made.test))
    assert fitted(made)["mean of the targets"].test == pytest.approx(
        float((test - train.mean(0)).square().mean()), rel=1e-4
    )


@pytest.mark.parametrize("kind", ["dense", "segmentation"])
def test_constants_are_those_of_the_position_where_positions_differ(kind: str) -> None:
    place = np.arange(12) % 3
    x = normal(60, 1, 12)
    y = place + 0.01 * normal(60, 12) if kind == "dense" else np.repeat(place[None], 60, 0)
    name = "mean of the targets" if kind == "dense" else "most frequent class"
    predictor = fitted(task(x, y))[name]
    assert predictor.test == pytest.approx(0.0, abs=0.02) if kind == "dense" else predictor.test == 1.0
    mixed = task(x[:20], normal(20, 12) if kind == "dense" else (normal(20, 12) < 0.8).astype(int))
    assert len(fitted(mixed)[name].model.value[0].unique()) == 1, "few samples: one answer for all positions"


def test_mean_and_copy_of_the_input_in_their_units() -> None:
    x = normal(60, 1, 16) + 5
    flat = fitted(task(x, np.broadcast_to(x.mean(2, keepdims=True), x.shape)))
    assert flat["mean of the input"].test == pytest.approx(0, abs=1e-6)
    assert flat["copy of the input"].test > 0.1
    same = fitted(task(x, x))
    assert same["copy of the input"].test == 0
    assert same["copy of the input"].row()["parameters"] == 0
    scaled = fitted(task(x, 2 * x))
    assert scaled["copy of the input"].test == pytest.approx(0.5)


def test_each_output_takes_the_channel_that_is_closest() -> None:
    x = normal(60, 3, 8) + np.array([0.0, 10, 20])[:, None]
    rows = fitted(task(x, x[:, [2, 0]]))
    assert rows["copy of the input"].test == 0
    assert rows["copy of the input"].model.channels.tolist() == [2, 0]
    means = x.mean(2, keepdims=True)[:, [1, 1, 0]] * np.ones(8)
    assert rows["mean of the input"].test < 0.2
    assert fitted(task(x, means))["mean of the input"].test == pytest.approx(0, abs=1e-6)


def test_tokens_have_no_mean() -> None:
    x = np.random.default_rng(0).integers(0, 7, (60, 9))
    assert fitted(task(x, x * 0.5, tokens=True)).keys() == {"mean of the targets", "linear model"}
