"""Which samples a predictor is fitted to, and which of several candidates is kept."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from eclose.tasks import Split, Task
from eclose.train import Batches, World, evaluate
from eclose.train.metrics import Metric, better

_SAMPLES = 10_000
_VALUES = 2**27  # numbers read at most, about a second
_JUDGES = 2**22  # numbers of the validation samples that choose between candidates


def some(split: Split, most: int = _SAMPLES, values: int = _VALUES) -> Split:
    """Samples spread evenly over a split, few enough to be read in a second."""
    x, y = split.take(torch.arange(1))
    count = min(len(split), most, max(1, values // (x.numel() + y.numel())))
    return split.select(torch.linspace(0, len(split) - 1, count, dtype=torch.float64).long())


class Choice:
    """Chooses by the metric of the task on validation samples."""

    def __init__(self, task: Task, metric: Metric) -> None:
        self.metric = metric
        self.data = Batches(some(task.val, values=_JUDGES), task.signature, torch.device("cpu"))

    def best(self, models: Iterable[nn.Module]) -> nn.Module:
        """The best of the candidates, of equals the first; one alone is not judged."""
        best, value = None, math.nan
        for model in models:
            if best is None:
                best = model
                continue
            value = self._value(best) if math.isnan(value) else value
            rival = self._value(model)
            if better(self.metric.goal, rival, value):
                best, value = model, rival
        assert best is not None
        return best

    def _value(self, model: nn.Module) -> float:
        return evaluate(model, self.data, self.metric, World())
