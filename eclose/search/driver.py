"""The driver: takes a run from wherever it stands to its end.

Stages made of trainings that are rows of the trial table: the search, the final trainings of what it chose where
the strategy has some, the baselines; then the figures. A training that has its row done is never repeated; one that
was under way goes on from its checkpoint.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from eclose.backbones.reference import one_line
from eclose.config import Config
from eclose.errors import ConfigError, Diverged, EcloseError, Interrupted
from eclose.events import Events
from eclose.runs import Run, Trial
from eclose.search.final import final_search
from eclose.search.halving import rungs, verdict
from eclose.search.plan import label
from eclose.search.result import describe, finish
from eclose.search.selection import ranked
from eclose.search.strategy import Search, Strategy, plain_training, strategies
from eclose.spaces import Genotype, Space, backbone_genotype, spaces
from eclose.tasks import Task
from eclose.train import (
    Progress,
    Surroundings,
    Training,
    World,
    choose_device,
    generator_for,
    measure_cost,
    save_tensors,
    seed_for,
    torch_settings,
)
from eclose.train.metrics import make_metric

# A drawn network may fail in ways of its own, which must not end the search; any other network was checked before.
_FAILURES: tuple[type[Exception], ...] = (Diverged, torch.OutOfMemoryError)
_FAILURES_OF_DRAWN = (Diverged, ConfigError, RuntimeError, ValueError, MemoryError)


@dataclass
class Driver:
    """One run in the hands of one process (or of several under torchrun, of which the first writes)."""

    run: Run
    task: Task
    world: World
    events: Events
    stop: Callable[[], bool]

    def __post_init__(self) -> None:
        config: Config = self.run.config
        self.config = config
        self.device = choose_device(config.run.device)
        self.metric = make_metric(config.task.metric)
        space: Space = spaces[config.space.name].make(config, **config.space.options)
        saved = (self.run.path / "start.json").exists()
        start = Genotype.load(self.run.path, "start") if saved else space.start(self.task.signature)
        self.search = Search(space, self.task, config, start)
        self.strategy: Strategy = strategies[config.strategy.name].make(**config.strategy.options)
        self.selection = self.strategy.selection
        self.objectives = self.selection.objectives if self.selection else ("error",)
        self.ending = final_search(self.search, self.selection)  # for final trainings and baselines alike

    def go(self) -> dict[str, Any]:
        """Run to the end; the content of ``result.json``."""
        self.events.emit(
            "run",
            path=str(self.run.path),
            task=self.task.name,
            space=self.config.space.name,
            strategy=self.config.strategy.name,
        )
        with torch_settings(self.config.run, self.config.train.precision), torch.random.fork_rng(self._devices):
            best = self._final(self._search())
            for backbone in dict.fromkeys(self.config.compare.baselines):
                self._baseline(backbone)
            result = finish(self.run, self.task, best, self._trials(), self.device, self.world)
        self.events.emit("result", **result)
        return result

    @property
    def _devices(self) -> list[int]:
        return [self.device.index or 0] if self.device.type == "cuda" else []

    def _trials(self) -> list[Trial]:
        return self.world.tell(self.run.table.all() if self.world.rank == 0 else None)

    def _search(self) -> list[Trial]:
        """The trials of the search that succeeded, best first."""
        while True:
            trials = [trial for trial in self._trials() if trial.role == "search"]
            under_way = [trial for trial in trials if trial.state == "running"]
            if under_way:
                trial, genotype = under_way[0], self._asked(under_way[0])
            else:
                generator = generator_for(self.config.run.seed, "ask", len(trials))
                asked = self.strategy.ask(self.search, trials, generator)
                if asked is None:
                    order = ranked(trials, self.metric.goal, self.objectives)
                    if not order:
                        raise EcloseError(f"no training succeeded: {trials[-1].reason} (run kept in {self.run.path})")
                    if self._has_weights(order[0]):
                        return order
                    trial, genotype = order[0], self._asked(order[0])  # somebody deleted them: train again
                else:
                    trial, genotype = self._new_trial("search", label(asked), asked, len(trials)), asked
            self._train(trial, genotype)

    def _final(self, order: list[Trial]) -> Trial:
        """What the run found: the best of the search, trained once more where the strategy asks for it."""
        if self.selection is None or self.ending is self.search:
            return order[0]
        chosen = order[: self.selection.final]
        for index, trial in enumerate(chosen):
            self._once("final", trial.name, self._asked(trial), index, trial.valid)
        finals = [trial for trial in self._trials() if trial.role == "final" and trial.state == "done"]
        return (finals or order)[0]

    def _baseline(self, backbone: str) -> None:
        # The same network with its own options is another one, and must not share its name.
        name = f"{backbone} (default)" if backbone == label(self.search.start) else backbone
        self._once("baseline", name, backbone_genotype(backbone, {}, self.task.signature), 0)

    def _once(self, role: str, name: str, genotype: Genotype, index: int, valid: float | None = None) -> None:
        """A training that is not part of the search, unless the table has it already."""
        known = [t for t in self._trials() if (t.role, t.name, t.hash) == (role, name, genotype.hash)]
        if known and (known[0].state == "failed" or (known[0].state == "done" and self._has_weights(known[0]))):
            return
        self._train(known[0] if known else self._new_trial(role, name, genotype, index, valid), genotype)

    def _asked(self, trial: Trial) -> Genotype:
        return Genotype.load(self.run.trial_folder(trial.number), "asked")

    def _has_weights(self, trial: Trial) -> bool:
        return bool(self.world.agree(self._weights(trial).exists()))

    def _weights(self, trial: Trial) -> Path:
        return self.run.trial_folder(trial.number) / "weights.safetensors"

    def _new_trial(self, role: str, name: str, genotype: Genotype, index: int, valid: float | None = None) -> Trial:
        number = len(self._trials())
        seed = seed_for(self.config.run.seed, role, name if role == "baseline" else index) % 2**31
        trial = Trial(number, role, name, genotype.space, genotype.choices, genotype.hash, seed, valid=valid)
        if self.world.rank == 0:
            genotype.save(self.run.trial_folder(number), "asked")
            self.run.table.put(trial)
        return trial

    def _train(self, trial: Trial, genotype: Genotype) -> None:
        """One training, from its start or its checkpoint to its row."""
        if self.world.agree(self.stop()):
            raise Interrupted
        around = self._around(trial)
        drawn = self.selection is not None and trial.role != "baseline"
        failures = _FAILURES_OF_DRAWN if drawn else _FAILURES
        training: Training | None = None
        torch.manual_seed(trial.seed)
        place = self._place(trial)
        try:
            training, trial = self._begin(trial, genotype, around)
            epochs, steps = training.config.train.epochs, training.steps
            self.events.emit("trial", **place, epochs=epochs, steps=steps, parameters=trial.parameters)
            training.run()
        except failures as error:
            trial = replace(trial, state="failed", reason=_reason(error))
        else:
            trial = self._done(trial, genotype, training)
        self._record(trial, training.progress if training else Progress())

    def _around(self, trial: Trial) -> Surroundings:
        checkpoint = self.run.trial_folder(trial.number) / "checkpoint.safetensors"
        around = Surroundings(trial.number, trial.seed, self.device, self.world, self.events, checkpoint, self.stop)
        halving = self.selection.halving if self.selection and trial.role == "search" else 0
        if not halving:
            return around
        judged_at = rungs(self.config.train.epochs, halving, self.config.train.evaluate_every)

        def hopeless(history: list[dict[str, Any]]) -> str:
            earlier = [t.history for t in self._trials() if t.role == "search" and t.number < trial.number]
            return verdict(history, earlier, self.metric.goal, judged_at, halving)

        return replace(around, hopeless=hopeless)

    def _begin(self, trial: Trial, genotype: Genotype, around: Surroundings) -> tuple[Training, Trial]:
        searched = trial.role == "search"
        prepare = self.strategy.prepare if searched else plain_training
        prepared = prepare(self.search if searched else self.ending, genotype, around)
        cost = measure_cost(prepared.model, self.task.signature, self.device)
        trial = replace(trial, parameters=cost.parameters, flops=cost.flops, test=None)
        return Training(prepared.model, prepared.task, prepared.step, prepared.config, around), trial

    def _done(self, trial: Trial, genotype: Genotype, training: Training) -> Trial:
        """The row of a training that came to its end, once its weights are on disk."""
        model, progress = training.model, training.progress
        if trial.role == "search":
            genotype, model = self.strategy.found(self.search, genotype, model)
        if self.world.rank == 0:
            genotype.save(self.run.trial_folder(trial.number))
            save_tensors(self._weights(trial), dict(model.state_dict()))
        best = training.config.train.keep == "best"
        valid = progress.best_value if best else progress.history[-1].get("valid", trial.valid)
        trial = replace(trial, genotype=genotype.choices, hash=genotype.hash)
        return replace(trial, state="done", valid=valid, reason=progress.reason)

    def _record(self, trial: Trial, progress: Progress) -> None:
        trial = replace(trial, epochs=progress.epoch, seconds=progress.seconds, history=progress.history)
        if self.world.rank == 0:
            self.run.table.put(trial)
            (self.run.trial_folder(trial.number) / "checkpoint.safetensors").unlink(missing_ok=True)
            self._forget()
        self.events.emit("trial_end", **self._place(trial), **describe(trial))

    def _forget(self) -> None:
        """Delete the weights of trials that lost: those of a long search would fill the disk."""
        if self.selection is not None:
            searched = [trial for trial in self.run.table.all() if trial.role == "search"]
            for trial in ranked(searched, self.metric.goal, self.objectives)[max(1, self.selection.final) :]:
                self._weights(trial).unlink(missing_ok=True)

    def _place(self, trial: Trial) -> dict[str, Any]:
        """Which training this is, and how far the search has come."""
        searched = [t for t in self._trials() if t.role == "search"]
        best = ranked(searched, self.metric.goal)
        return {
            "trial": trial.number,
            "role": trial.role,
            "name": trial.name,
            "place": sum(t.number <= trial.number for t in searched) if trial.role == "search" else 1,
            "of": max(1, self.config.budget.trials) if trial.role == "search" else 1,
            "best": best[0].valid if best else None,
        }


def _reason(error: BaseException) -> str:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "out of memory: lower --set train.batch, or choose a smaller network"
    return str(error) if isinstance(error, EcloseError) else one_line(error)
