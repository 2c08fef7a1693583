"""One training, from its start or its checkpoint to its row, and the place of that row in the trial table."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from eclose.backbones.reference import one_line
from eclose.engine.halving import rungs, verdict
from eclose.engine.selection import front, ranked
from eclose.engine.strategy import Role, Search, Strategy, plain_training
from eclose.engine.teaching import teacher_search
from eclose.errors import Diverged, EcloseError, Interrupted, is_fault_of_network, is_out_of_memory
from eclose.events import Events
from eclose.runs import STAGES, Run, Trial
from eclose.spaces import Genotype
from eclose.spaces.architecture import architecture_size
from eclose.tasks.splits import spread
from eclose.tasks.task import Split
from eclose.train import (
    Batches,
    Progress,
    Surroundings,
    Training,
    World,
    device_answers,
    evaluate,
    load_tensors,
    measure_cost,
    measure_latency,
    save_tensors,
)
from eclose.train.evaluation import is_constant
from eclose.train.metrics import Goal, better, make_metric

OUT_OF_MEMORY = "out of memory: lower --set train.batch, or choose a smaller network"
_LOWER = 0.1  # rate of a second training
_SHORTEST = 0.5  # of the time of the first: a second training that has less would not be as good

_CHOSEN = ("search", "final")  # roles of networks that come from the strategy

Attempt = tuple[Trial, Training | None]


@dataclass(frozen=True)
class TrialRunner:
    """What a training needs to know of its run."""

    run: Run
    search: Search
    ending: Search  # for trainings that are not part of the search
    strategy: Strategy
    device: torch.device
    world: World
    events: Events
    stop: Callable[[], bool]

    def trials(self) -> list[Trial]:
        """The table, the same for every process."""
        return self.world.tell(self.run.table.all() if self.world.rank == 0 else None)

    def weights(self, trial: Trial) -> Path:
        """Where the weights of a trial are kept."""
        return self._weights_of(trial.number)

    def _weights_of(self, number: int) -> Path:
        return self.run.trial_folder(number) / "weights.safetensors"

    def train(self, trial: Trial, genotype: Genotype) -> Trial:
        """Train the network of a genotype; the row of whatever becomes of it."""
        if self.world.agree(self.stop()):
            raise Interrupted
        if not device_answers(self.device):
            raise EcloseError(f"{self.device} does not answer since a training failed: eclose resume {self.run.path}")
        around = self._around(trial)
        row, training = self._attempt(trial, genotype, around)
        if row.collapsed and training and self._tries_again(trial):
            row, training = self._lower(row, training, trial, genotype, around)
        return self._done(row, genotype, training) if training and row.state != "failed" else row

    def _attempt(self, trial: Trial, genotype: Genotype, around: Surroundings) -> Attempt:
        training: Training | None = None
        torch.manual_seed(trial.seed)
        place = self._place(trial)
        try:
            training, trial = self._begin(trial, genotype, around)
            epochs, steps = training.config.train.epochs, training.steps
            self.events.emit("trial", **place, epochs=epochs, steps=steps, parameters=trial.parameters)
            training.run()
            trial = self._judged(self._timed(trial, training), training)
        except Exception as error:
            if not self._is_failure(trial, error):
                raise
            trial = replace(trial, state="failed", reason=_reason(error))
        progress = training.progress if training else Progress()
        row = replace(trial, epochs=progress.epoch, seconds=progress.seconds, history=progress.history)
        return row, training

    def _judged(self, trial: Trial, training: Training) -> Trial:
        """With what validation samples say of a training that came to its end."""
        progress, section = training.progress, training.config.train
        valid = progress.best_value if section.keep == "best" else progress.history[-1].get("valid", trial.valid)
        fit, loss, begun = None, None, time.perf_counter()
        if trial.role == "final":
            fit = self._fit(training, self.search.task.val)
        elif self.strategy.selection is not None and training.task.signature.labels:
            loss = evaluate(training.model, training.val_data, make_metric("nll"), self.world, section.precision)
        judging = training.judging if fit is None and loss is None else time.perf_counter() - begun
        if self.strategy.asks_fit(self.search, trial):
            train = training.task.train
            fit = self._fit(training, train.select(spread(len(train), len(self.search.task.val))))
        if trial.allowed is not None and math.isfinite(judging):  # on a clock
            trial = replace(trial, judging=judging)
        collapsed = bool(self.world.agree(is_constant(training.model, training.task, self.device)))
        near = [entry for entry in progress.history if "attention" in entry]
        if section.keep == "best":
            near = [entry for entry in near if entry["epoch"] <= progress.best_epoch]
        apart = near[-1]["attention"] if near else None
        return replace(trial, valid=valid, valid_loss=loss, fit=fit, collapsed=collapsed, attention=apart)

    def _fit(self, training: Training, seen: Split) -> float:
        """The metric on samples that a network was trained on."""
        batches = Batches(seen, self.search.task.signature, self.device)
        metric = make_metric(training.config.task.metric)
        return evaluate(training.model, batches, metric, self.world, training.config.train.precision)

    def _tries_again(self, trial: Trial) -> bool:
        """Of many networks that are compared one may end at a constant: the others go on."""
        return self.strategy.selection is None or trial.role != "search"

    def _lower(self, first: Trial, ended: Training, trial: Trial, genotype: Genotype, around: Surroundings) -> Attempt:
        """A training that ended at a constant, once more at a lower rate; what is better on validation.

        On a clock both have the time of one: the second takes what the first has left, if that is worth its while.
        """
        constant = f"{trial.name} answers the same whatever it is shown"
        left = 0.0 if trial.allowed is None else trial.allowed - (first.seconds or 0.0)
        if trial.allowed is not None and left < _SHORTEST * (first.seconds or 0.0):
            self._notice(f"{constant}: give it more --minutes, a smaller network or a lower optimiser.learning_rate")
            return replace(first, note="ended at a constant; no time was left for a second training"), ended
        ended.save()  # a resumed run comes here without training again
        self._notice(f"{constant}: trained once more at a tenth of the rate")
        path = self.run.trial_folder(trial.number) / "checkpoint-lower.safetensors"
        row, training = self._attempt(trial, genotype, replace(around, rate=_LOWER, checkpoint=path, limit=left))
        seconds = (first.seconds or 0.0) + (row.seconds or 0.0)
        if row.state != "failed" and training is not None and (not row.collapsed or self._is_better(row, first)):
            first, ended = row, training
        note = "so did a second training" if first.collapsed else "this is a second training"
        return replace(first, seconds=seconds, note=f"ended at a constant; {note} at a tenth of the rate"), ended

    def _is_better(self, row: Trial, other: Trial) -> bool:
        ours, theirs = (math.nan if t.valid is None else t.valid for t in (row, other))
        return better(self._goal, ours, theirs)

    def _notice(self, text: str) -> None:
        self.events.emit("notice", text=text)

    def record(self, trial: Trial) -> None:
        """Put the row of a training that has ended into the table, and delete what is not needed any more."""
        if self.world.rank == 0:
            self.run.table.put(trial)
            folder = self.run.trial_folder(trial.number)
            for left in (*folder.glob("checkpoint*.safetensors"), *folder.glob(".*.part")):  # of a killed process
                left.unlink(missing_ok=True)
            self._forget()
        self.events.emit("trial_end", **{**self._place(trial), **trial.outcome()})

    def announce(self, trial: Trial) -> None:
        """Tell that a trial begins beside others."""
        self.events.emit("begin", **self._place(trial))

    @property
    def _goal(self) -> Goal:
        return make_metric(self.search.config.task.metric).goal

    def _around(self, trial: Trial) -> Surroundings:
        checkpoint = self.run.trial_folder(trial.number) / "checkpoint.safetensors"
        around = Surroundings(trial.number, trial.seed, self.device, self.world, self.events, checkpoint, self.stop)
        around = replace(around, limit=trial.allowed or 0.0)
        halving = self.strategy.selection.halving if self.strategy.selection and trial.role == "search" else 0
        if not halving:
            return around
        judged_at = rungs(self.search.config.train.epochs, halving, self.search.config.train.evaluate_every)

        def hopeless(history: list[dict[str, Any]]) -> str:
            if history[-1]["epoch"] not in judged_at:
                return ""
            earlier = [t.history for t in self.trials() if t.role == "search" and t.number < trial.number]
            return verdict(history, earlier, self._goal, halving)

        return replace(around, hopeless=hopeless)

    def _begin(self, trial: Trial, genotype: Genotype, around: Surroundings) -> tuple[Training, Trial]:
        search = self.search if trial.role == "search" else self.ending
        if genotype.augment:
            search = replace(search, config=search.config.with_augmentation(genotype.augment))
        if trial.role == "teacher":
            prepared = plain_training(teacher_search(self.search), genotype, around)
        elif trial.role == "baseline":
            prepared = plain_training(replace(search, teacher=None), genotype, around)
        else:
            prepared = self.strategy.prepare(search, genotype, around, cast(Role, trial.role))
        trial = self._costed(replace(trial, test=None, goes_on=self._begun_with(trial, prepared.model)), prepared.model)
        model, task, step, config = prepared.model, prepared.task, prepared.step, prepared.config
        return Training(model, task, step, config, around, prepared.phases, prepared.lesson), trial

    def _begun_with(self, trial: Trial, model: nn.Module) -> int | None:
        """The number of the trial whose weights the model now has; None if they are gone or fit another network."""
        if trial.goes_on is None:
            return None
        earlier = self._weights_of(trial.goes_on)
        there = self.world.agree(earlier.exists())
        return trial.goes_on if there and begin_with(load_tensors(earlier), model) else None

    def _costed(self, trial: Trial, model: nn.Module) -> Trial:
        """With what a network costs."""
        cost = measure_cost(model, self.search.task.signature, self.device)
        size = architecture_size(model)
        return replace(trial, parameters=cost.parameters, architecture_parameters=size, flops=cost.flops)

    def _timed(self, trial: Trial, training: Training) -> Trial:
        """With the latency, where it is an objective; one that was recorded stays, as later trials followed from it."""
        selection = self.strategy.selection
        if selection is None or "latency" not in selection.objectives or trial.latency is not None:
            return trial
        samples, section = training.task.train, training.config.train
        x, _ = samples.take(torch.arange(section.batch) % len(samples))
        return replace(trial, latency=measure_latency(training.model, x.to(self.device), section.precision))

    def _is_failure(self, trial: Trial, error: Exception) -> bool:
        """Whether an error ends a training but not its run.

        A drawn network may fail in ways of its own; any other network was checked before.
        """
        if self.strategy.selection is not None and trial.role in _CHOSEN:
            return is_fault_of_network(error)
        return isinstance(error, Diverged) or is_out_of_memory(error)

    def _done(self, trial: Trial, genotype: Genotype, training: Training) -> Trial:
        """The row of a training that came to its end, once its weights are on disk."""
        model: nn.Module | None = training.model
        name, valid = trial.name, trial.valid
        if self.strategy.selection is not None and trial.role == "search" and (valid is None or math.isnan(valid)):
            metric = training.config.task.metric
            reason = (
                f"{metric} of the validation samples is not a number: choose another --set task.metric if it cannot "
                "judge them, or lower --set optimiser.learning_rate"
            )
            return replace(trial, state="failed", reason=reason)
        if trial.role in _CHOSEN:
            search = self.search if trial.role == "search" else self.ending
            asked = genotype.label
            augment = genotype.augment
            genotype, model = self.strategy.found(search, genotype, training.model)
            genotype = replace(genotype, augment=augment)
            name = name if genotype.label == asked else genotype.label  # of another network than was asked for
            trial = self._remarked(trial, name, genotype)
        if model is not None:  # it may have changed while it was trained, and what is derived is another one
            trial = self._costed(trial, model.to(self.device))
        if self.world.rank == 0:
            genotype.save(self.run.trial_folder(trial.number))
            if model is not None:
                save_tensors(self.weights(trial), dict(model.state_dict()))
        choices, key = genotype.choices, genotype.hash
        trial = replace(trial, name=name, state="done", reason=training.progress.reason)
        return replace(trial, genotype=choices, hash=key)

    def _remarked(self, trial: Trial, name: str, genotype: Genotype) -> Trial:
        """With what its space has to say of a network that was found."""
        remark = self.search.space_of(genotype).remark(genotype) if trial.role == "search" else ""
        if not remark:
            return trial
        self._notice(f"{name}: {remark}")
        return replace(trial, note=f"{trial.note}; {remark}" if trial.note else remark)

    def _forget(self) -> None:
        """Delete the weights of trials that lost: those of a long search would fill the disk."""
        selection = self.strategy.selection
        if selection is not None:
            searched = [trial for trial in self.run.table.all() if trial.role == "search"]
            best = self.strategy.standing(self.search, searched)[: max(1, self.search.config.final.networks)]
            chosen = front(searched, self._goal, selection.objectives)  # whoever left it does not come back
            shown = self.strategy.shown(self.search, searched)
            later = [trial for trial in searched if trial.origin in STAGES[1:]]  # they may yet come to count
            kept = {trial.number for trial in [*best, *chosen, *shown, *later]}
            for trial in searched:
                if trial.state != "running" and trial.number not in kept:
                    self.weights(trial).unlink(missing_ok=True)

    def _place(self, trial: Trial) -> dict[str, Any]:
        """Which training this is, and how far the search has come."""
        searched = [t for t in self.trials() if t.role == "search"]
        best = ranked(searched, self._goal)
        return {
            "trial": trial.number,
            "role": trial.role,
            "name": trial.name,
            "origin": trial.origin,
            "allowed": trial.allowed,
            "place": sum(t.number <= trial.number for t in searched) if trial.role == "search" else 1,
            "of": max(1, self.search.config.budget.trials) if trial.role == "search" else 1,
            "best": best[0].valid if best else None,
            "ended": sum(t.state != "running" for t in searched),
            "running": sum(t.state == "running" and t.number != trial.number for t in searched),
        }


def begin_with(weights: dict[str, Tensor], model: nn.Module) -> bool:
    """Give a model the weights of an earlier training, if they fit: what a supernet has left may be smaller."""
    own = model.state_dict()
    fits = weights.keys() == own.keys() and all(weights[name].shape == own[name].shape for name in own)
    if fits:
        model.load_state_dict(weights)
    return fits


def _reason(error: BaseException) -> str:
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    return str(error) if isinstance(error, EcloseError) else one_line(error)
