"""The driver: takes a run from wherever it stands to its end.

Three stages, each made of trainings that are rows of the trial table: the search, the baselines, and the
final figures. A training that has its row done is never repeated; one that was under way goes on from its
checkpoint.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from eclose.config import Config
from eclose.errors import Diverged, EcloseError, Interrupted
from eclose.events import Events
from eclose.runs import Run, Trial
from eclose.search.plan import label
from eclose.search.result import describe, finish
from eclose.search.strategy import Search, Strategy, plain_training, strategies
from eclose.spaces import Genotype, Space, backbone_genotype, spaces
from eclose.tasks import Task
from eclose.train import (
    Step,
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
from eclose.train.metrics import better, make_metric


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

    def go(self) -> dict[str, Any]:
        """Run to the end; the content of ``result.json``."""
        self.events.emit(
            "run",
            path=str(self.run.path),
            task=self.task.name,
            space=self.config.space.name,
            strategy=self.config.strategy.name,
        )
        with torch_settings(self.config.run, self.config.train.precision), torch.random.fork_rng():
            best = self._search()
            for backbone in dict.fromkeys(self.config.compare.baselines):
                self._baseline(backbone)
            result = finish(self.run, self.task, best, self._trials(), self.device, self.world)
        self.events.emit("result", **result)
        return result

    def _trials(self) -> list[Trial]:
        return self.world.tell(self.run.table.all() if self.world.rank == 0 else None)

    def _search(self) -> Trial:
        while True:
            trials = [trial for trial in self._trials() if trial.role == "search"]
            under_way = [trial for trial in trials if trial.state == "running"]
            if under_way:
                trial, genotype = under_way[0], self._genotype(under_way[0])
            else:
                generator = generator_for(self.config.run.seed, "ask", len(trials))
                asked = self.strategy.ask(self.search, trials, generator)
                if asked is None:
                    return self._best(trials)
                trial, genotype = self._new_trial("search", label(asked), asked, len(trials)), asked
            self._train(trial, genotype, self.strategy.prepare, self.strategy.found)

    def _baseline(self, backbone: str) -> None:
        # The same network with its own options is another one, and must not share its name.
        name = f"{backbone} (default)" if backbone == label(self.search.start) else backbone
        rows = [t for t in self._trials() if t.role == "baseline" and t.name == name]
        if rows and rows[0].state != "running":
            return
        genotype = backbone_genotype(backbone, {}, self.task.signature)
        trial = rows[0] if rows else self._new_trial("baseline", name, genotype, 0)
        self._train(trial, genotype, plain_training, lambda search, genotype, model: genotype)

    def _best(self, trials: Sequence[Trial]) -> Trial:
        done = [trial for trial in trials if trial.state == "done"]
        if not done:
            raise EcloseError(f"no training succeeded: {trials[-1].reason} (run kept in {self.run.path})")
        best = done[0]
        for trial in done[1:]:
            if better(self.metric.goal, _number(trial.valid), _number(best.valid)):
                best = trial
        return best

    def _genotype(self, trial: Trial) -> Genotype:
        folder = self.run.trial_folder(trial.number)
        return Genotype.load(folder)

    def _new_trial(self, role: str, name: str, genotype: Genotype, index: int) -> Trial:
        number = len(self._trials())
        seed = seed_for(self.config.run.seed, role, name if role == "baseline" else index) % 2**31
        trial = Trial(number, role, name, genotype.space, genotype.choices, genotype.hash, seed)
        if self.world.rank == 0:
            genotype.save(self.run.trial_folder(number))
            self.run.table.put(trial)
        return trial

    def _train(
        self,
        trial: Trial,
        genotype: Genotype,
        prepare: Callable[[Search, Genotype, Surroundings], tuple[nn.Module, Step]],
        found: Callable[[Search, Genotype, nn.Module], Genotype],
    ) -> None:
        if self.stop():
            raise Interrupted
        folder = self.run.trial_folder(trial.number)
        checkpoint = folder / "checkpoint.safetensors"
        around = Surroundings(trial.number, trial.seed, self.device, self.world, self.events, checkpoint, self.stop)
        torch.manual_seed(trial.seed)
        model, step = prepare(self.search, genotype, around)
        cost = measure_cost(model, self.task.signature, self.device)
        trial = replace(trial, parameters=cost.parameters, flops=cost.flops)
        training = Training(model, self.task, step, self.config, around)
        self.events.emit(
            "trial",
            trial=trial.number,
            role=trial.role,
            name=trial.name,
            epochs=self.config.train.epochs,
            steps=training.steps,
            parameters=cost.parameters,
        )
        try:
            progress = training.run()
        except Diverged as error:
            progress = training.progress
            trial = replace(trial, state="failed", reason=str(error))
        else:
            keep_best = self.config.train.keep == "best"
            valid = progress.best_value if keep_best else progress.history[-1].get("valid")
            genotype = found(self.search, genotype, model)
            trial = replace(trial, state="done", valid=valid, genotype=genotype.choices, hash=genotype.hash)
            if self.world.rank == 0:
                genotype.save(folder)
                save_tensors(folder / "weights.safetensors", dict(model.state_dict()))
        trial = replace(trial, epochs=progress.epoch, seconds=progress.seconds, history=progress.history)
        if self.world.rank == 0:
            self.run.table.put(trial)
            with contextlib.suppress(FileNotFoundError):
                checkpoint.unlink()
        self.events.emit("trial_end", trial=trial.number, role=trial.role, name=trial.name, **describe(trial))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
