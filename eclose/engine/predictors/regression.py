"""What linear models of classes and of tokens are made of: frequent tokens, logistic regression."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from eclose.ops.least_squares import mean_or_one
from eclose.tasks import Task
from eclose.tasks.splits import blocks, some


def columns_of(task: Task, most: int, words: Callable[[Tensor], Tensor] = Tensor.long, known: int = 0) -> Tensor:
    """For every token of the vocabulary its column: the most frequent have their own, others share the last.

    ``words``: what is counted, if not tokens; ``known``: how many such words there are.
    """
    part = some(task.train)
    known = known or task.signature.vocabulary
    counts = torch.zeros(known, dtype=torch.long)
    for index in blocks(part):
        counts += torch.bincount(words(part.take(index)[0]).flatten(), minlength=known)
    order = counts.argsort(descending=True, stable=True)
    columns = torch.empty_like(order)
    columns[order] = torch.arange(known)
    return columns.clamp_max(most - 1)


# In units of the mean eigenvalue of the features' covariance.
LOGISTIC_PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_STEPS = 20  # of the logistic regression, for each penalty
_FLOPS = 2e10  # of all those steps together, about a second on one core


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
