"""The driver: takes a run from wherever it stands to its end.

Three stages, each made of trainings that are rows of the trial table: the search, the baselines, and the
final figures. A training that has its row done is never repeated; one that was under way goes on from its
checkpoint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eclose.config import Config
from eclose.errors import Diverged, EcloseError, Interrupted
from eclose.events import Events
from eclose.runs import Run, Trial
from eclose.search.plan import label
from eclose.search.result import describe, finish
from eclose.search.strategy import Prepared, Search, Strategy, plain_training, strategies
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
        with torch_settings(self.config.run, self.config.train.precision), torch.random.fork_rng(self._devices):
            best = self._search()
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

    def _search(self) -> Trial:
        while True:
            trials = [trial for trial in self._trials() if trial.role == "search"]
            under_way = [trial for trial in trials if trial.state == "running"]
            if under_way:
                trial, genotype = under_way[0], self._asked(under_way[0])
            else:
                generator = generator_for(self.config.run.seed, "ask", len(trials))
                asked = self.strategy.ask(self.search, trials, generator)
                if asked is None:
                    best = self._best(trials)
                    if self._has_weights(best):
                        return best
                    trial, genotype = best, self._asked(best)  # somebody deleted them: train again
                else:
                    trial, genotype = self._new_trial("search", label(asked), asked, len(trials)), asked
            self._train(trial, genotype, self.strategy.prepare, self.strategy.found)

    def _baseline(self, backbone: str) -> None:
        # The same network with its own options is another one, and must not share its name.
        name = f"{backbone} (default)" if backbone == label(self.search.start) else backbone
        rows = [t for t in self._trials() if t.role == "baseline" and t.name == name]
        if rows and (rows[0].state == "failed" or (rows[0].state == "done" and self._has_weights(rows[0]))):
            return
        genotype = backbone_genotype(backbone, {}, self.task.signature)
        trial = rows[0] if rows else self._new_trial("baseline", name, genotype, 0)
        self._train(trial, genotype, plain_training, lambda search, genotype, model: (genotype, model))

    def _best(self, trials: Sequence[Trial]) -> Trial:
        done = [trial for trial in trials if trial.state == "done"]
        if not done:
            raise EcloseError(f"no training succeeded: {trials[-1].reason} (run kept in {self.run.path})")
        best = done[0]
        for trial in done[1:]:
            if better(self.metric.goal, _number(trial.valid), _number(best.valid)):
                best = trial
        return best

    def _asked(self, trial: Trial) -> Genotype:
        return Genotype.load(self.run.trial_folder(trial.number), "asked")

    def _has_weights(self, trial: Trial) -> bool:
        path = self.run.trial_folder(trial.number) / "weights.safetensors"
        return bool(self.world.agree(path.exists()))

    def _new_trial(self, role: str, name: str, genotype: Genotype, index: int) -> Trial:
        number = len(self._trials())
        seed = seed_for(self.config.run.seed, role, name if role == "baseline" else index) % 2**31
        trial = Trial(number, role, name, genotype.space, genotype.choices, genotype.hash, seed)
        if self.world.rank == 0:
            genotype.save(self.run.trial_folder(number), "asked")
            self.run.table.put(trial)
        return trial

    def _train(
        self,
        trial: Trial,
        genotype: Genotype,
        prepare: Callable[[Search, Genotype, Surroundings], Prepared],
        found: Callable[[Search, Genotype, nn.Module], tuple[Genotype, nn.Module]],
    ) -> None:
        """One training, from its start or its checkpoint to its row."""
        if self.world.agree(self.stop()):
            raise Interrupted
        checkpoint = self.run.trial_folder(trial.number) / "checkpoint.safetensors"
        around = Surroundings(trial.number, trial.seed, self.device, self.world, self.events, checkpoint, self.stop)
        torch.manual_seed(trial.seed)
        prepared = prepare(self.search, genotype, around)
        cost = measure_cost(prepared.model, self.task.signature, self.device)
        trial = replace(trial, parameters=cost.parameters, flops=cost.flops, test=None)
        training = Training(prepared.model, prepared.task, prepared.step, prepared.config, around)
        self.events.emit(
            "trial",
            trial=trial.number,
            role=trial.role,
            name=trial.name,
            epochs=prepared.config.train.epochs,
            steps=training.steps,
            parameters=cost.parameters,
        )
        try:
            training.run()
        except (Diverged, torch.OutOfMemoryError) as error:
            memory = "out of memory: lower --set train.batch, or choose a smaller network"
            trial = replace(trial, state="failed", reason=str(error) if isinstance(error, Diverged) else memory)
        else:
            genotype, model = found(self.search, genotype, prepared.model)
            if self.world.rank == 0:
                genotype.save(checkpoint.parent)
                save_tensors(checkpoint.parent / "weights.safetensors", dict(model.state_dict()))
            trial = replace(trial, state="done", genotype=genotype.choices, hash=genotype.hash)
        self._record(trial, training.progress, checkpoint)

    def _record(self, trial: Trial, progress: Progress, checkpoint: Path) -> None:
        if trial.state == "done":
            best = self.config.train.keep == "best"
            trial = replace(trial, valid=progress.best_value if best else progress.history[-1]["valid"])
        trial = replace(trial, epochs=progress.epoch, seconds=progress.seconds, history=progress.history)
        if self.world.rank == 0:
            self.run.table.put(trial)
            checkpoint.unlink(missing_ok=True)
        self.events.emit("trial_end", trial=trial.number, role=trial.role, name=trial.name, **describe(trial))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
