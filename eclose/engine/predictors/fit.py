"""From a task to its fitted predictors, and their rows in tables.

Everything is computed on the CPU from samples spread evenly over the training split. Random numbers, where there are
any, are always the same. So the figures are the same on every device, and again after an interruption.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from eclose.backbones.linear import LinearNetwork
from eclose.engine.predictors.linear import linear_model, linear_models
from eclose.engine.predictors.random_filters import filters_for, fit_random_filters
from eclose.engine.predictors.trivial import trivial_models
from eclose.engine.strategy import Search
from eclose.runs import Run, Trial
from eclose.signature import Signature
from eclose.spaces import Genotype, assemble, unit_scale
from eclose.tasks import Scale, Split, Task
from eclose.tasks.levels import levelled
from eclose.tasks.splits import some
from eclose.train import Batches, World, evaluate, measure_cost, save_tensors
from eclose.train.metrics import Goal, Metric, better, make_metric

LINEAR, RANDOM = "linear model", "random-filter model"  # their names in tables
_SECONDS = 4.0  # that random filters may take, where nothing else limits them
_SHARE, _MOST = 0.04, 24.0  # of a run on a clock, and in seconds
_JUDGES = 2**22  # numbers of the validation samples that choose between candidates


class _Choice:
    """Chooses by the metric of the task on validation samples."""

    def __init__(self, task: Task, metric: Metric) -> None:
        self.metric = metric
        self.data = Batches(some(task.val, values=_JUDGES), task.signature, torch.device("cpu"))

    def best(self, models: Iterable[nn.Module]) -> tuple[nn.Module, int]:
        """The best of the candidates and its place, of equals the first; one alone is not judged."""
        best, at, value = None, 0, math.nan
        for place, model in enumerate(models):
            if best is None:
                best = model
                continue
            value = self._value(best) if math.isnan(value) else value
            rival = self._value(model)
            if better(self.metric.goal, rival, value):
                best, at, value = model, place, rival
        assert best is not None
        return best, at

    def _value(self, model: nn.Module) -> float:
        return evaluate(model, self.data, self.metric, World())


Fit = Callable[[Task], nn.Module]


@dataclass(frozen=True)
class Predictor:
    """One that needs no training; it takes raw inputs and gives outputs, as a network does."""

    name: str
    kind: str  # trivial, or fitted: in closed form
    signature: Signature
    core: nn.Module  # the model behind the levels of its inputs
    levels: Scale | None  # what brings samples of very different size nearer, if that made it better
    valid: float | None
    seconds: float
    fit: Fit | None = None  # as it was made, to other samples
    judging: float = 0.0  # seconds of a pass over the validation samples
    test: float | None = None

    @cached_property
    def model(self) -> nn.Module:
        """All of it."""
        return self.core if self.levels is None else assemble(self.core, self.signature, self.levels)

    @property
    def genotype(self) -> Genotype:
        """A fitted model as data; others are none."""
        assert isinstance(self.core, LinearNetwork)
        choices = {"backbone": self.core.backbone, "options": self.core.options, "fitted": True}
        return Genotype("backbone", choices, description=self.name)

    def fitted_to(self, task: Task, seen: Task, metric: Metric) -> "Predictor":
        """The model fitted in the same way to other samples; judged by those of ``seen``."""
        assert self.fit is not None
        begun = time.perf_counter()
        core, levels = (self.fit(levelled(task)), _levels(task)) if self.levels else (self.fit(task), None)
        anew = replace(self, core=core, levels=levels)
        valid = _value(anew.model, seen.val, seen, metric)
        return replace(anew, valid=valid, seconds=time.perf_counter() - begun)

    def loss(self, task: Task) -> float | None:
        """Of validation samples that have classes: by it networks that are equally good are compared."""
        return _value(self.model, task.val, task, make_metric("nll")) if task.signature.labels else None

    def tested(self, task: Task, metric: Metric) -> "Predictor":
        """With its figure on the test samples, where there are some."""
        return self if task.test is None else replace(self, test=_value(self.model, task.test, task, metric))

    def row(self) -> dict[str, Any]:
        """Its figures, those that a trained baseline has."""
        return {
            "name": self.name,
            "kind": self.kind,
            "state": "done",
            "valid": self.valid,
            "test": self.test,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "architecture_parameters": 0,
            "seconds": self.seconds,
            "reason": "",
        }


def fit_predictors(task: Task, metric: Metric, minutes: float = 0.0) -> list[Predictor]:
    """The trivial predictors that the kind of task allows, the linear one and, where they suit, random filters.

    ``minutes``: those of the run, of which random filters have a small share; 0: nobody says. Where samples are
    levelled, models are fitted to them as they are, too: their sizes may be what tells them apart.
    """
    begun = time.perf_counter()

    def judged(name: str, core: nn.Module, levels: Scale | None = None, fit: Fit | None = None) -> Predictor:
        nonlocal begun
        made = Predictor(name, "fitted" if fit else "trivial", task.signature, core, levels, None, 0.0, fit)
        before = time.perf_counter()
        valid, now = _value(made.model, task.val, task, metric), time.perf_counter()
        made, begun = replace(made, valid=valid, seconds=now - begun, judging=now - before), now
        return made

    choice = _Choice(task, metric)
    found = [judged(name, choice.best(models)[0]) for name, models in trivial_models(task).items()]
    filters = filters_for(task, min(_MOST, 60 * _SHARE * minutes) if minutes else _SECONDS)
    views: list[tuple[Task, Scale | None]] = [(task, None)]
    if scale := _levels(task):
        views.insert(0, (levelled(task), scale))
    linear, random = list[Predictor](), list[Predictor]()
    for seen, levels in views:
        model, place = _Choice(seen, metric).best(linear_models(seen))
        linear.append(judged(LINEAR, model, levels, partial(linear_model, place=place)))
        if filters:
            fit = partial(fit_random_filters, filters=filters)
            random.append(judged(RANDOM, fit(seen), levels, fit))
    best = (best_fitted(rivals, task, metric.goal) for rivals in (linear, random))
    return [*found, *filter(None, best)]


def _levels(task: Task) -> Scale | None:
    """What a fitted model has before it: nothing but the levels of samples, where these differ much in size."""
    if (scale := task.scale) is None or scale.levels is None:
        return None
    return replace(scale, y_mean=torch.zeros_like(scale.y_mean), y_std=torch.ones_like(scale.y_std))


def best_fitted(predictors: Sequence[Predictor], task: Task, goal: Goal) -> Predictor | None:
    """The best on validation samples of those that were fitted; of equals that with the lower loss, then the first."""
    known = [each for each in predictors if each.kind == "fitted" and each.valid is not None]
    if not known:
        return next((each for each in predictors if each.kind == "fitted"), None)
    best = (max if goal == "max" else min)(each.valid for each in known if each.valid is not None)
    equals = [each for each in known if each.valid == best]
    return equals[0] if len(equals) == 1 else min(equals, key=lambda each: _or_infinite(each.loss(task)))


def _or_infinite(loss: float | None) -> float:
    return math.inf if loss is None else loss


def _value(model: nn.Module, split: Split, task: Task, metric: Metric) -> float | None:
    """The metric over a split; None where it is no number."""
    value = evaluate(model, Batches(split, task.signature, torch.device("cpu")), metric, World())
    return value if math.isfinite(value) else None


def unbeaten(test: float | None, valid: float | None, rows: Sequence[Mapping[str, Any]], goal: Goal) -> list[str]:
    """Names of the predictors that a network is no better than, best first; on test samples where there are some."""
    split = "test" if any(row["test"] is not None for row in rows) else "valid"
    value = test if split == "test" else valid
    mine = math.nan if value is None else value
    ahead = [row for row in rows if row[split] is not None and not better(goal, mine, row[split])]
    ahead.sort(key=lambda row: row[split], reverse=goal == "max")
    return [row["name"] for row in ahead]


def record_fitted(
    run: Run, search: Search, predictor: Predictor, number: int, role: str, seed: int, **figures: Any
) -> Trial:
    """The fitted model as a trial: its files, as those of a trained network, then its row with what is known of it."""
    genotype = predictor.genotype
    signature, setting = search.task.signature, search.config.task.standardise
    # It takes raw values as they are: what a network is assembled with changes nothing of them but their levels.
    model = assemble(predictor.core, signature, predictor.levels or unit_scale(signature, setting))
    folder = run.trial_folder(number)
    genotype.save(folder)
    save_tensors(folder / "weights.safetensors", dict(model.state_dict()))
    named = (predictor.name, genotype.space, genotype.choices, genotype.hash)
    flops = measure_cost(model, signature, torch.device("cpu")).flops
    costs = {"parameters": predictor.row()["parameters"], "architecture_parameters": 0, "flops": flops}
    told = {"description": genotype.description, "seconds": predictor.seconds, **costs, **figures}
    row = Trial(number, role, *named, seed, state="done", **told)
    run.table.put(row)
    return row
