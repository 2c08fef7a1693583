"""Trials per minute: one after the other, and by two Ray workers."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.runner import Entry
from eclose.events import Listener
from eclose.runs import Run

TRIALS, EPOCHS, ROUNDS, WORKERS = 24, 6, 3, 2


def search(folder: Path, device: torch.device, workers: int, trials: int, listeners: tuple[Listener, ...] = ()) -> Path:
    # One thread a training in both cases; without halving all trials are equally long.
    settings = {"run.threads": workers, "strategy.halving": 0, "final.networks": 0}
    given: dict[str, Any] = {"task": "digits", "space": "einspace", "strategy": "random", "epochs": EPOCHS}
    given |= {"settings": settings, "listeners": listeners, "device": device.type, "workers": workers}
    return eclose.search(**given, trials=trials, out=folder).run


def check(device: torch.device) -> str:
    """Both train the same networks to the same values: random search asks for the same whoever trains."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [search(Path(folder) / str(workers), device, workers, 4) for workers in (1, WORKERS)]
        one, two = ([(trial.hash, trial.valid) for trial in Run.open(run).table.all()] for run in runs)
    if one != two:
        raise AssertionError(f"serial gave {one}, workers {two}")
    return "both train the same networks to the same validation values, bit for bit"


def rate(device: torch.device, workers: int) -> tuple[float, float]:
    """Trials per minute after the first that ended, which had to wait for the workers; seconds until then."""
    ends: list[float] = []

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "trial_end":
            ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        search(Path(folder) / "run", device, workers, TRIALS, (listen,))
    return 60 * (len(ends) - 1) / (ends[-1] - ends[0]), ends[0] - begun


def measure(device: torch.device) -> list[str]:
    """Rounds alternate between the two."""
    lines = [
        f"`eclose search --task digits --space einspace --strategy random --trials {TRIALS} --epochs {EPOCHS}`, one",
        "thread a training. Trials per minute from the end of the first trial to the end of the last; seconds until",
        "the first has ended, the start of Ray included. Other processes that wanted the CPU when a round began",
        "(load average of the last minute) are given: the ratio is what it should be only where there are none.",
        "",
        f"| round | load | serial | --workers {WORKERS} | ratio | first serial | first --workers {WORKERS} |",
        "|---|---|---|---|---|---|---|",
    ]
    for turn in range(ROUNDS):
        load, (one, first), (two, later) = os.getloadavg()[0], rate(device, 1), rate(device, WORKERS)
        rates = f"{load:.1f} | {one:.1f} | {two:.1f} | {two / one:.2f}"
        lines.append(f"| {turn + 1} | {rates} | {first:.1f} s | {later:.1f} s |")
    return [*lines, "", "Goal: at least 1.7 times as many."]


ENTRY = Entry("executors", "Trials per minute with workers", check, measure)
