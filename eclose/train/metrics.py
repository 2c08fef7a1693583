"""How good a network is: named measures, which way each is better, and which task each can judge."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from eclose.registry import Registry
from eclose.signature import Signature
from eclose.train.losses import LABEL_KINDS, VALUE_KINDS, class_scores, mae, mse, refuse_unfit, relative_l2
from eclose.train.meters import AurocMeter, MeanMeter, Meter

Goal = Literal["max", "min"]

metrics = Registry("metric")  # members make a Metric

_SERVES = {
    **dict.fromkeys(("accuracy", "error", "nll", "perplexity", "auroc"), LABEL_KINDS),
    **dict.fromkeys(("mse", "mae", "relative_l2"), VALUE_KINDS),
}


@dataclass(frozen=True)
class Metric:
    """A measure of success, the direction in which it is better, and how to make a meter for it."""

    name: str
    goal: Goal
    meter: Callable[[], Meter]

    def short_of(self, value: float) -> float:
        """How far a value is from the best one, which is 1 or 0 for every metric there is."""
        return abs((1.0 if self.goal == "max" else 0.0) - value)


@metrics.register("accuracy")
def accuracy() -> Metric:
    """Share of labels, or of positions, that score highest."""
    return Metric("accuracy", "max", lambda: MeanMeter(_hits))


@metrics.register("error")
def error() -> Metric:
    """1 - accuracy."""
    return Metric("error", "min", lambda: MeanMeter(lambda prediction, target: ~_hits(prediction, target)))


@metrics.register("nll")
def nll() -> Metric:
    """Mean negative log-likelihood of the labels, in nats."""
    return Metric("nll", "min", lambda: MeanMeter(_surprises))


@metrics.register("perplexity")
def perplexity() -> Metric:
    """``exp(nll)``."""
    return Metric("perplexity", "min", lambda: MeanMeter(_surprises, torch.exp))


@metrics.register("auroc")
def auroc() -> Metric:
    """Area under the ROC curve; with several classes the mean of each against the rest."""
    return Metric("auroc", "max", AurocMeter)


@metrics.register("mse")
def mean_squared_error() -> Metric:
    """Mean squared error."""
    return Metric("mse", "min", lambda: MeanMeter(_precise(mse)))


@metrics.register("mae")
def mean_absolute_error() -> Metric:
    """Mean absolute error."""
    return Metric("mae", "min", lambda: MeanMeter(_precise(mae)))


@metrics.register("relative_l2")
def mean_relative_l2() -> Metric:
    """Mean over the samples of ``|prediction - target| / |target|``."""
    return Metric("relative_l2", "min", lambda: MeanMeter(_precise(partial(relative_l2, floor=1e-300))))


def make_metric(name: str) -> Metric:
    """The metric ``name``."""
    metric: Metric = metrics[name].make()
    return metric


def default_metric(signature: Signature) -> str:
    """Name of the metric that a kind of task is usually judged by."""
    if signature.labels:
        return "accuracy"
    return "relative_l2" if signature.kind == "dense" else "mse"


def check_metric(name: str, signature: Signature) -> None:
    """Refuse a metric that cannot judge the kind of task."""
    refuse_unfit(metrics, name, _SERVES, signature, "judge")


def better(goal: Goal, a: float, b: float) -> bool:
    """Whether ``a`` is better than ``b``: NaN never is, and any number is better than NaN."""
    if math.isnan(a) or math.isnan(b):
        return not math.isnan(a)
    return a > b if goal == "max" else a < b


def _precise(score: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """In double precision: squares of the user's own units may leave the range of single precision."""
    return lambda prediction, target: score(prediction.double(), target.double())


def _hits(prediction: Tensor, target: Tensor) -> Tensor:
    """Where the label scores highest; nowhere that a score is NaN."""
    # (batch, classes, *space), (batch, *space) -> bool (batch, *space)
    top, label = class_scores(prediction).max(1)
    return (label == target) & ~top.isnan()


def _surprises(prediction: Tensor, target: Tensor) -> Tensor:
    """``-log p(label)``."""
    # (batch, classes, *space), (batch, *space) -> (batch, *space)
    return functional.cross_entropy(class_scores(prediction), target.long(), reduction="none")
