"""Running values over the batches of an evaluation, which several processes can share and then combine.

A meter gathers on the device of the predictions and waits for it only when its value is asked for.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from eclose.train.losses import class_scores


class Meter(ABC):
    """One metric over any number of batches, or over the parts that several processes saw."""

    @abstractmethod
    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Take in a batch, without waiting for the device."""

    @abstractmethod
    def state(self) -> list[Tensor]:
        """All that was gathered, for :meth:`merge` elsewhere."""

    @abstractmethod
    def merge(self, state: list[Tensor]) -> None:
        """Take in what another meter of the same metric gathered."""

    @abstractmethod
    def value(self) -> float:
        """The metric of everything taken in; NaN if that was nothing."""


class MeanMeter(Meter):
    """``finish(sum of scores / number of scores)``, every score weighing the same.

    The state is one tensor, (sum, count) in float64. That of a meter that saw nothing lies on the CPU.
    """

    def __init__(
        self, score: Callable[[Tensor, Tensor], Tensor], finish: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        """``score`` maps (prediction, target) to one value a sample or a position."""
        self._score = score
        self._finish = finish
        self._totals: Tensor | None = None  # (sum, count), on the device of the first batch

    @torch.no_grad()
    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add the scores of a batch."""
        scores = self._score(prediction, target)  # (batch,) or (batch, *space)
        total = scores.sum(dtype=torch.float64)
        self.merge([torch.stack((total, torch.full_like(total, scores.numel())))])

    def state(self) -> list[Tensor]:
        """``[(sum, count)]``, which may be added to another's, also in place."""
        return [torch.zeros(2, dtype=torch.float64) if self._totals is None else self._totals.clone()]

    def merge(self, state: list[Tensor]) -> None:
        """Add sum and count."""
        (totals,) = state
        self._totals = totals if self._totals is None else self._totals + totals.to(self._totals.device)

    def value(self) -> float:
        """Mean of the scores, finished."""
        total, count = self.state()[0]
        mean = total / count
        return float(mean if self._finish is None else self._finish(mean))


class AurocMeter(Meter):
    """Area under the ROC curve: the chance that a sample of the class scores above one outside it, ties half.

    ``(R - p (p + 1) / 2) / (p n)`` with ``R`` the sum of the (tie-averaged) ranks of the ``p`` samples in the
    class among all ``p + n``. More than two classes: mean over the classes, each against the rest, that have
    samples on both sides. NaN if there is no such class or if any score is NaN.

    The state is ``[scores (samples, columns), targets (samples,)]``, to be concatenated, and empty at first.
    """

    def __init__(self) -> None:
        """Nothing gathered yet."""
        self._scores: list[Tensor] = []
        self._targets: list[Tensor] = []

    @torch.no_grad()
    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Keep the scores of a batch; each position counts as a sample."""
        scores = class_scores(prediction).double().movedim(1, -1).flatten(0, -2)  # (samples, classes)
        # log-odds and log-probabilities order samples as probabilities do, but do not saturate at 1 or 0
        binary = scores.shape[1] == 2
        scores = scores[:, 1:] - scores[:, :1] if binary else scores.log_softmax(1)
        # single precision restores the ties that rounding in the double log-softmax broke
        self._scores.append(scores.float())
        self._targets.append(target.long().flatten())

    def state(self) -> list[Tensor]:
        """``[scores, targets]``, each one tensor; ``[]`` before the first update."""
        return [torch.cat(self._scores), torch.cat(self._targets)] if self._scores else []

    def merge(self, state: list[Tensor]) -> None:
        """Append scores and targets."""
        if state:
            scores, targets = state
            device = self._scores[0].device if self._scores else scores.device
            self._scores.append(scores.to(device))
            self._targets.append(targets.to(device))

    def value(self) -> float:
        """Binary area, or the mean of the areas of the classes."""
        if not self._scores:
            return math.nan
        scores, targets = self.state()
        first = 1 if scores.shape[1] == 1 else 0  # the single column of two classes belongs to class 1
        columns = scores.t().contiguous()
        areas = [_area(column, targets == label) for label, column in enumerate(columns, start=first)]
        area = torch.stack(areas).nanmean()
        return float(area.masked_fill(scores.isnan().any(), math.nan))


def _area(scores: Tensor, inside: Tensor) -> Tensor:
    """Area under the ROC curve of one class; NaN if no sample is inside or none outside."""
    # both (samples,)
    ordered = scores.sort().values
    below = torch.searchsorted(ordered, scores)
    not_above = torch.searchsorted(ordered, scores, right=True)
    ranks = (below + not_above + 1).double() / 2
    positive = inside.sum(dtype=torch.float64)
    negative = inside.numel() - positive
    return ((ranks * inside).sum() - positive * (positive + 1) / 2) / (positive * negative)
