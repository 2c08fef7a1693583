"""Regularised evolution over einspace: against random search at equal trials, and from four known networks."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.runner import Entry
from eclose.runs import Run, Trial
from eclose.spaces.einspace.seeds import PAPER

TRIALS, RUNS = 100, range(5)
SMALL = (
    "task.subset=2000",
    "task.subset_eval=2000",
    "run.threads=1",
    "final.train.epochs=12",
    f"budget.trials={TRIALS}",
)

TASKS = ("addnist", "language")
ROOM = ("space.parameters=2e7", "space.flops=4e9", "space.activations=8e6")  # the known networks fit in
MIX = ("strategy.start=mix", "strategy.halving=0", "train.precision=tf32", *ROOM)
FOUND = 48


def check(device: torch.device) -> str:
    """Runs that fail are not reported."""
    return "networks and strategies are the tests' business; a run that fails is not reported"


def search(recipe: str, device: torch.device, out: Path, settings: Sequence[str], *more: str) -> dict[str, Any]:
    """The result of ``eclose search`` in a process of its own."""
    command = [sys.executable, "-m", "eclose", "search", "--recipe", recipe, "--json", *more]
    command += ["--device", device.type, "--out", str(out)]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    print(out.name, result["search"], result["test"], file=sys.stderr, flush=True)
    return result


def strategies(device: torch.device) -> list[str]:
    """Evolution and random search with five seeds each."""
    jobs = [(strategy, seed) for seed in RUNS for strategy in ("evolution", "random")]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

        def job(strategy: str, seed: int) -> dict[str, Any]:
            more = ("--strategy", strategy, "--seed", str(seed))
            return search("einspace-language-quick", device, Path(folder) / f"{strategy}-{seed}", SMALL, *more)

        found = dict(zip(jobs, pool.map(lambda one: job(*one), jobs), strict=True))
    settings = " ".join(f"--set {setting}" for setting in SMALL)
    lines = [
        f"`eclose search --recipe einspace-language-quick --strategy ... --seed ... {settings}`.",
        "Accuracy: best and mean of all trials on 2000 validation samples; the best, trained anew, on test samples.",
        "",
        "| seed | evolution: best | mean | test | random: best | mean | test |",
        "|---|---|---|---|---|---|---|",
    ]
    for seed in RUNS:
        cells = [f"{value:.4f}" for strategy in ("evolution", "random") for value in _values(found[strategy, seed])]
        lines.append(f"| {seed} | {' | '.join(cells)} |")
    columns = [[_values(found[strategy, seed]) for seed in RUNS] for strategy in ("evolution", "random")]
    means = [f"{statistics.mean(values):.4f}" for rows in columns for values in zip(*rows, strict=True)]
    wins = sum(one[0] > other[0] for one, other in zip(*columns, strict=True))
    return [
        *lines,
        f"| mean | {' | '.join(means)} |",
        "",
        f"Evolution finds the better network with {wins} of {len(RUNS)} seeds.",
    ]


def _values(result: dict[str, Any]) -> tuple[float, float, float]:
    return result["search"]["best"], result["search"]["mean"], result["test"]


def mix(device: torch.device) -> list[str]:
    """RE(Mix): the known networks alone, and what evolution makes of them."""
    begun = time.perf_counter()
    lines = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(TASKS)) as pool:
        for task, rows in zip(TASKS, pool.map(lambda task: _mix(task, device, Path(folder)), TASKS), strict=True):
            lines += [
                "",
                f"## {task}",
                "",
                "| network | validation, in the search | test | parameters |",
                "|---|---|---|---|",
            ]
            lines += [f"| {' | '.join(row)} |" for row in rows]
    settings = " ".join(f"--set {setting}" for setting in MIX)
    return [
        f"`eclose search --recipe einspace-TASK-quick {settings}`: {FOUND} trials of 4 epochs on 8000 samples, then 12",
        "epochs on training and validation samples. Known networks: the same, all of them finalists.",
        f"Accuracy; {time.perf_counter() - begun:.0f} s, both tasks at a time.",
        *lines,
    ]


def _mix(task: str, device: torch.device, folder: Path) -> list[list[str]]:
    recipe, known, found = f"einspace-{task}-quick", folder / f"{task}-known", folder / f"{task}-found"
    search(recipe, device, known, [*MIX, f"budget.trials={len(PAPER)}", f"final.networks={len(PAPER)}"])
    result = search(recipe, device, found, [*MIX, f"budget.trials={FOUND}"])
    table = Run.open(known).table.all()
    tests = {trial.hash: trial.test for trial in table if trial.role == "final"}
    rows = [_row(trial.name, trial, tests.get(trial.hash)) for trial in table if trial.role == "search"]
    tried = [trial for trial in Run.open(found).table.all() if trial.role == "search"]
    best = max(tried, key=lambda trial: trial.valid or 0.0)
    level = max(trial.valid or 0.0 for trial in tried if trial.origin == "seed")
    better = sum((trial.valid or 0.0) > level for trial in tried)
    return [*rows, _row(f"found (one of {better} better than all of these)", best, result["test"])]


def _row(name: str, trial: Trial, test: float | None) -> list[str]:
    told = [f"{value:.4f}" if value is not None else trial.reason for value in (trial.valid, test)]
    return [name, *told, f"{trial.parameters:,}"]


ENTRIES = (
    Entry("einspace-strategies", "Evolution and random search over einspace at equal trials", check, strategies),
    Entry("einspace-mix", "RE(Mix): evolution from four known networks", check, mix),
)
