"""Searches over einspace on handwritten digits: what 40 trials find, against their first generation and chance."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.runner import Entry
from eclose.engine.evolution import Evolution
from eclose.runs import Run

TRIALS, SEEDS = 40, (0, 1, 2)
FIRST, _ = Evolution(start="scratch").sizes(TRIALS)


def search(folder: Path, device: torch.device, **arguments: Any) -> eclose.Result:
    # Small networks are faster on one thread, and do not suffer from what else the machine does.
    settings = {"run.threads": 1, **arguments.pop("settings", {})}
    given = {"task": "digits", "space": "einspace", "device": device.type, "out": folder, "settings": settings}
    return eclose.search(**{**given, **arguments})


def check(device: torch.device) -> str:
    """A small search repeats itself."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [search(Path(folder) / name, device, trials=4, epochs=2).run for name in ("one", "two")]
        one, two = ([(trial.hash, trial.valid) for trial in Run.open(run).table.all()] for run in runs)
    if one != two:
        raise AssertionError(f"the same seed gave {one} and {two}")
    return "two searches with the same seed are the same, trial by trial"


def measure(device: torch.device) -> list[str]:
    """One row a strategy and seed."""
    lines = [
        f"`eclose search --space einspace --task digits --trials {TRIALS} --strategy ... --seed ...`, one thread.",
        "Evolution from scratch (`--set strategy.start=scratch`).",
        "Accuracy on validation samples: best of the first generation, best of all, mean of all; on test samples after",
        "the final training; epochs of all trials together.",
        "",
        "| strategy | seed | first | best | mean | test | parameters | epochs | stopped | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for strategy in ("evolution", "random"):
        lines += [_row(strategy, seed, device) for seed in SEEDS]
    return lines


def _row(strategy: str, seed: int, device: torch.device) -> str:
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        scratch = {"strategy.start": "scratch"} if strategy == "evolution" else {}
        result = search(Path(folder) / "run", device, strategy=strategy, trials=TRIALS, seed=seed, settings=scratch)
        seconds = time.perf_counter() - begun
        trials = [trial for trial in Run.open(result.run).table.all() if trial.role == "search"]
    first = max(trial.valid or 0.0 for trial in trials[:FIRST])
    found, told = result.metrics["search"], result.metrics
    values = [first, found["best"], found["mean"], told["test"]]
    epochs = sum(trial.epochs or 0 for trial in trials)
    cells = [strategy, seed, *(f"{value:.4f}" for value in values), told["parameters"], epochs, found["stopped"]]
    return f"| {' | '.join(map(str, cells))} | {seconds:.0f} |"


ENTRY = Entry("einspace-search", "Searches over einspace on digits", check, measure)
