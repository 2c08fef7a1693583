"""What the fit of linear models is made of: frequent tokens, ridge and logistic regression."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from eclose.tasks import Task
from eclose.tasks.splits import blocks, some


def columns_of(task: Task, most: int) -> Tensor:
    """For every token of the vocabulary its column: the most frequent have their own, others share the last."""
    part = some(task.train)
    vocabulary = task.signature.vocabulary
    counts = torch.zeros(vocabulary, dtype=torch.long)
    for index in blocks(part):
        counts += torch.bincount(part.take(index)[0].long().flatten(), minlength=vocabulary)
    order = counts.argsort(descending=True, stable=True)
    columns = torch.empty_like(order)
    columns[order] = torch.arange(vocabulary)
    return columns.clamp_max(most - 1)


def not_zero(spread: Tensor) -> Tensor:
    """1 where nothing varies."""
    return torch.where(spread > 0, spread, torch.ones_like(spread))


# In units of the mean eigenvalue of the features' covariance.
RIDGE_PENALTIES = (1e2, 1.0, 1e-2, 1e-4, 1e-6, 1e-8)
LOGISTIC_PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_STEPS = 20  # of the logistic regression, for each penalty
_FLOPS = 2e10  # of all those steps together, about a second on one core


def spectrum(x: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Eigenvalues and vectors of the smaller one of ``x x^T`` and ``x^T x``, and whether it is the first."""
    dual = len(x) < x.shape[1]
    values, vectors = torch.linalg.eigh(x @ x.T if dual else x.T @ x)
    return values.clamp_min(0), vectors, dual


def mean_or_one(eigenvalues: Tensor) -> Tensor:
    """The mean of eigenvalues that are not below zero; 1 for features that never change."""
    mean = eigenvalues.mean()
    return mean if mean > 0 else torch.ones_like(mean)


def ridge(x: Tensor, y: Tensor) -> Iterator[Tensor]:  # (n, features), (n, outputs), both float64 and centred
    """For every penalty the weights ``(features, outputs)``."""
    values, vectors, dual = spectrum(x)
    target = vectors.T @ (y if dual else x.T @ y)
    unit = mean_or_one(values)
    for penalty in RIDGE_PENALTIES:
        weights = vectors @ (target / (values + penalty * unit)[:, None])
        yield x.T @ weights if dual else weights


def logistic(x: Tensor, labels: Tensor, classes: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For every penalty the weights ``(features, classes)`` and biases ``(classes,)``.

    Steps of Newton's method with Böhning's bound on the curvature, ``(X^T X / n) / 2``, which is inverted once, with
    Nesterov's momentum; each penalty starts from what the larger one before it found.
    """
    # x (n, features) float64 and centred, labels (n,)
    z, count = x.float(), len(x)
    values, vectors = torch.linalg.eigh((z.T @ z).double() / count)
    values = values.clamp_min(0)
    values, vectors, unit = values.float(), vectors.float(), float(mean_or_one(values))
    z = z @ vectors
    truth = functional.one_hot(labels, classes).float()
    bias = ((truth.sum(0) + 1) / (count + classes)).log()
    weights = torch.zeros(z.shape[1], classes)
    steps = int(_FLOPS / (4 * z.numel() * classes * len(LOGISTIC_PENALTIES)))
    for penalty in LOGISTIC_PENALTIES:
        curvature = (values / 2 + penalty * unit)[:, None]
        before = weights, bias
        for step in range(max(3, min(_STEPS, steps))):
            ahead = step / (step + 3)
            w, b = (new + ahead * (new - old) for new, old in zip((weights, bias), before, strict=True))
            before = weights, bias
            excess = (torch.softmax(z @ w + b, 1) - truth) / count
            slope = (excess.T @ z).T + penalty * unit * w  # in this order the product is four times as fast
            weights, bias = w - slope / curvature, b - 2 * excess.sum(0)
        yield (vectors @ weights).double(), bias
