"""The other side of an executor: a long-lived process that reads the data once and trains trial after trial."""

import dataclasses
import platform
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from eclose.backbones.consent import Consent, consent_now, consenting
from eclose.config import Config
from eclose.engine.runner import TrialRunner
from eclose.engine.strategy import Search, Strategy
from eclose.engine.teaching import load_teacher
from eclose.errors import Interrupted, RunError
from eclose.events import Events
from eclose.runs import Run, Trial
from eclose.spaces import Genotype, Space
from eclose.tasks import Task, load_task
from eclose.tasks.same_data import check_same_data
from eclose.train import World, choose_device, device_answers, torch_settings

Told = list[tuple[str, dict[str, Any]]]  # events


@dataclass(frozen=True)
class Orders:
    """What a worker needs to know of its run."""

    path: Path
    config: Config  # threads and device are the worker's own
    space: Space
    strategy: Strategy
    start: Genotype
    task: Task | None  # None: read as the configuration says
    teacher: Trial | None  # the row of one that the run has trained
    consent: Consent  # the code that may be called


@dataclass(frozen=True)
class Outcome:
    """What became of a trial."""

    row: Trial | None  # None: asked to stop, and a checkpoint is on disk
    told: Told  # what happened meanwhile
    usable: bool  # whether the worker can train others


class Worker:
    """Trains one trial at a time; ``prepare`` and ``stop`` may be called from another thread."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.told: Told = []
        self.asked_to_stop = threading.Event()
        self.reading = threading.Lock()

    def prepare(self) -> None:
        """Read the data."""
        with self.reading:
            _ = self._runner

    def train(self, trial: Trial, genotype: Genotype) -> Outcome:
        """Train the network of a genotype."""
        self.told.clear()
        self.prepare()
        config = self.orders.config
        with consenting(self.orders.consent), torch_settings(config.run, config.train.precision):
            try:
                row = self._runner.train(trial, genotype)
            except Interrupted:
                row = None
        usable = device_answers(self._runner.device)
        if usable:
            torch.cuda.empty_cache()  # other workers may share the GPU
        return Outcome(row, self.told, usable)

    def stop(self) -> None:
        """Stop the training after the step under way."""
        self.asked_to_stop.set()

    @cached_property
    def _runner(self) -> TrialRunner:
        orders, device = self.orders, choose_device(self.orders.config.run.device)
        run = Run(orders.path, orders.config)
        if not (run.path / "config.toml").is_file():
            raise RunError(f"{run.path} is not on {platform.node()}: choose an --out that all machines share")
        task = orders.task or load_task(orders.config.task, lambda done, total: None)
        check_same_data(run, task)
        search = Search(orders.space, task, orders.config, orders.start)
        with consenting(orders.consent):
            search = dataclasses.replace(search, teacher=load_teacher(run, search, orders.teacher, device))
        events = Events([self._tell])
        return TrialRunner(run, search, search, orders.strategy, device, World(), events, self.asked_to_stop.is_set)

    def _tell(self, event: str, fields: dict[str, Any]) -> None:
        if event != "step":
            self.told.append((event, fields))


def orders_for(runner: TrialRunner, threads: int) -> Orders:
    """The orders of the workers of a run, each with ``threads`` threads and the first GPU that it sees."""
    search = runner.search
    section = dataclasses.replace(search.config.run, threads=threads)
    config = dataclasses.replace(search.config, run=section)
    named = config.task.name or config.task.data  # whatever else was handed in as an object
    task = None if named else search.task
    consent = dataclasses.replace(consent_now(), objects={})  # objects stay in the process that has them
    teacher = next((trial for trial in runner.trials() if trial.role == "teacher"), None)
    path = runner.run.path.absolute()
    return Orders(path, config, search.space, runner.strategy, search.start, task, teacher, consent)
