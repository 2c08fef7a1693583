"""What contracts are tried on: data that is learned in no time, and quick searches in it."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import eclose
from eclose.config import Config
from eclose.engine import Search, complete
from eclose.errors import Interrupted
from eclose.events import Events
from eclose.registry import Registry
from eclose.runs import FIGURES, Run, Trial
from eclose.signature import Signature
from eclose.tasks import load_task
from eclose.train import Surroundings, World

Arrays = dict[str, np.ndarray]
QUICK = {
    "run.threads": 1,
    "run.checkpoint_seconds": 0.0,
    "train.batch": 8,
    "train.epochs": 2,
    "optimiser.learning_rate": 0.03,
}
AROUND = Surroundings(0, 5, torch.device("cpu"), World(), Events())


class Case(NamedTuple):
    """Data, and all that is set besides: names of members, small sizes."""

    data: Callable[[], Arrays]
    settings: dict[str, Any]

    def __str__(self) -> str:
        return self.data.__name__

    def search(self, **more: Any) -> Search:
        """Everything a strategy may look at when a run begins; ``more``: names of members, such as ``space="xd"``."""
        named = {f"{section}.name": name for section, name in more.items()}
        config = Config().with_values({**QUICK, **named, **self.settings})
        task = load_task(config.task, lambda done, total: None, self.data())
        return Search.of(complete(config, task), task)

    def run(self, folder: Path, space: str, **arguments: Any) -> eclose.Result:
        """A whole search."""
        settings = {**QUICK, **self.settings, **arguments.pop("settings", {})}
        return eclose.search(data=self.data(), space=space, out=folder, settings=settings, progress=False, **arguments)

    def interrupted(self, folder: Path, space: str, *moments: tuple[int, int], **arguments: Any) -> eclose.Result:
        """The same search, stopped one step after each of these ``(trial, epoch)`` and resumed."""
        left = list(moments)

        def stop(event: str, fields: dict[str, Any]) -> None:
            if event == "epoch" and (fields["trial"], fields["epoch"]) in left:
                left.remove((fields["trial"], fields["epoch"]))
                signal.raise_signal(signal.SIGINT)

        with pytest.raises(Interrupted):
            self.run(folder, space, listeners=[stop], **arguments)
        while left:
            with pytest.raises(Interrupted):
                eclose.resume(folder, data=self.data(), listeners=[stop], progress=False)
        return eclose.resume(folder, data=self.data(), progress=False)


def signals() -> Arrays:
    """Short signals of two channels in three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(48) % 3
    x = rng.normal(size=(48, 2, 8)) + (y - 1)[:, None, None]
    return {"x": x.astype(np.float32), "y": y}


def images() -> Arrays:
    """Images with stripes that lie or stand."""
    rng = np.random.default_rng(0)
    y = np.arange(48) % 2
    lines = np.cos(np.pi * np.arange(8)) * np.ones((8, 1))
    x = np.where(y[:, None, None] == 0, lines, lines.T) + 0.5 * rng.normal(size=(48, 8, 8))
    return {"x": x.astype(np.float32)[:, None], "y": y}


def fields() -> Arrays:
    """Each value is that of the point half a domain away: out of a small kernel's sight."""
    x = np.random.default_rng(0).normal(size=(40, 1, 12)).astype(np.float32)
    return {"x": x, "y": np.roll(x, 6, axis=-1)}


def words() -> Arrays:
    """Letters, and whether one of them is among the first; set ``task.tokens``."""
    x = np.random.default_rng(0).integers(0, 7, size=(48, 9))
    return {"x": x, "y": (x[:, :4] == 3).any(1).astype(np.int64)}


_LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}
_CELLS = {"space.blocks": 1, "space.search_cells": 3, "space.search_width": 2, "space.cells": 3}
CONTINUOUS = {
    "xd": Case(images, _LENET),
    "discrete": Case(images, _LENET),
    "chrysalis": Case(images, _LENET),
    "dnarch": Case(signals, {"backbone.width": 6, "backbone.blocks": 2, "backbone.hidden": 8}),
    "nos": Case(signals, _CELLS),
}
"""Every continuous space, kept small."""


def inputs(signature: Signature, batch: int = 3) -> torch.Tensor:
    """Samples that no training saw."""
    generator = torch.Generator().manual_seed(1)
    if signature.tokens:
        return torch.randint(signature.vocabulary, signature.input_shape(batch), generator=generator)
    return torch.randn(signature.input_shape(batch), generator=generator)


def rows(run: Path, role: str = "search") -> list[Trial]:
    return [trial for trial in Run.open(run).table.all() if trial.role == role]


def timeless(trial: Trial) -> dict[str, Any]:
    """A row without what the clock says."""
    history = [{k: v for k, v in entry.items() if k != "seconds"} for entry in trial.history]
    times = {figure.name for figure in FIGURES if figure.unit == "seconds"}
    return {**{name: value for name, value in vars(trial).items() if name not in times}, "history": history}


def assert_same_run(run: Path, whole: Path) -> None:
    """All rows of the table, all genotypes and all weights, bit for bit."""
    ours, theirs = Run.open(run).table.all(), Run.open(whole).table.all()
    assert [timeless(trial) for trial in ours] == [timeless(trial) for trial in theirs]
    kept = sorted(path.relative_to(whole) for path in whole.rglob("*.safetensors"))
    assert sorted(path.relative_to(run) for path in run.rglob("*.safetensors")) == kept
    for path in kept:
        weights, others = load_file(run / path), load_file(whole / path)
        assert weights.keys() == others.keys(), path
        assert all(torch.equal(weights[name], others[name]) for name in others), path


def own_members(registry: Registry) -> set[str]:
    """The members that come with the library: tests register some of their own."""
    return {name for name, member in registry.items() if member.make.__module__.startswith("eclose.")}


def under_contract(contract: type) -> set[str]:
    """The names of all members that have a class."""
    below = contract.__subclasses__()
    return {str(vars(one)["name"]) for one in below if "name" in vars(one)}.union(*map(under_contract, below))


@contextlib.contextmanager
def registered(registry: Registry, **members: Callable[..., Any]) -> Iterator[None]:
    """Members for a while, as if their files had been imported."""
    for name, make in members.items():
        registry.register(name)(make)
    try:
        yield
    finally:
        for name in members:
            del registry._members[name]
