"""What linear models are made of: a bounded number of features of an input, ridge and logistic regression."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from eclose.signature import Signature
from eclose.tasks import Task
from eclose.tasks.splits import blocks, some

FEATURES = 1024

_POOL: dict[int, Callable[..., Tensor]] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}


class Pooled(nn.Module):
    """The input, averaged over cells of a coarser grid where it has more than ``FEATURES`` values."""

    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.channels = min(signature.channels, FEATURES)
        self.space = _coarser(signature.sizes, FEATURES // self.channels)
        self.count = self.channels * math.prod(self.space)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, count)``, double."""
        values = fewer_channels(x.double(), self.channels)
        if values.shape[2:] != self.space:
            values = _POOL[len(self.space)](values, self.space)
        return values.flatten(1)

    def spread(self, centred: Tensor) -> Tensor:  # (samples, count)
        """Of each feature ``(count,)``: that of its channel, so that pixels which hardly change stay small."""
        by_channel = centred.view(len(centred), self.channels, -1).square().mean((0, 2)).sqrt()
        return not_zero(by_channel).repeat_interleave(self.count // self.channels)


class TokenShares(nn.Module):
    """How often each token occurs in a sequence, as a share; tokens beyond the most frequent ones count together."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.column = columns_of(task, FEATURES)
        self.count = int(self.column.max()) + 1

    def forward(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, count)``, double."""
        columns = self.column[x.long()]
        ones = torch.ones(columns.shape, dtype=torch.float64)
        return ones.new_zeros(len(x), self.count).scatter_add_(1, columns, ones) / x.shape[1]

    def spread(self, centred: Tensor) -> Tensor:  # (samples, count)
        """Of each token ``(count,)``."""
        return not_zero(centred.square().mean(0).sqrt())


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


def fewer_channels(values: Tensor, count: int) -> Tensor:
    """Neighbouring channels averaged, where there are more than ``count``."""
    if values.shape[1] == count:
        return values
    flat = values.flatten(2).transpose(1, 2)  # (batch, positions, channels)
    return functional.adaptive_avg_pool1d(flat, count).transpose(1, 2).reshape(len(values), count, *values.shape[2:])


def not_zero(spread: Tensor) -> Tensor:
    """1 where nothing varies."""
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def _coarser(space: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The sizes of a grid of at most ``most`` cells, of about the same shape."""
    shrink = max(1.0, (math.prod(space) / most) ** (1 / len(space)))
    sizes = [min(size, math.ceil(size / shrink)) for size in space]
    while math.prod(sizes) > most:
        sizes[sizes.index(max(sizes))] -= 1
    return tuple(sizes)


# In units of the mean eigenvalue of the features' covariance.
RIDGE_PENALTIES = (1e2, 1.0, 1e-2, 1e-4, 1e-6, 1e-8)
LOGISTIC_PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_STEPS = 20  # of the logistic regression, for each penalty
_FLOPS = 2e10  # of all those steps together, about a second on one core


def ridge(x: Tensor, y: Tensor) -> Iterator[Tensor]:  # (n, features), (n, outputs), both float64 and centred
    """For every penalty the weights ``(features, outputs)``."""
    dual = len(x) < x.shape[1]
    values, vectors = torch.linalg.eigh(x @ x.T if dual else x.T @ x)
    target = vectors.T @ (y if dual else x.T @ y)
    unit = _unit(values)
    for penalty in RIDGE_PENALTIES:
        weights = vectors @ (target / (values.clamp_min(0) + penalty * unit)[:, None])
        yield x.T @ weights if dual else weights


def logistic(x: Tensor, labels: Tensor, classes: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For every penalty the weights ``(features, classes)`` and biases ``(classes,)``.

    Steps of Newton's method with Böhning's bound on the curvature, ``(X^T X / n) / 2``, which is inverted once, with
    Nesterov's momentum; each penalty starts from what the larger one before it found.
    """
    # x (n, features) float64 and centred, labels (n,)
    z, count = x.float(), len(x)
    values, vectors = torch.linalg.eigh((z.T @ z).double() / count)
    values, vectors, unit = values.clamp_min(0).float(), vectors.float(), float(_unit(values))
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


def _unit(eigenvalues: Tensor) -> Tensor:
    """The mean eigenvalue; 1 for features that never change."""
    mean = eigenvalues.clamp_min(0).mean()
    return mean if mean > 0 else torch.ones_like(mean)
