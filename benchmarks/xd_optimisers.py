"""One optimiser of the architecture for all: XD-operations on nine tasks, several trainings side by side on one device.

``python -m benchmarks.xd_optimisers --help`` has the options. Each training ends as a line of the file ``--rows`` and
is not made again; ``--summarise`` makes the dated table of such files.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eclose
from benchmarks.portfolio.sets import load_sets
from benchmarks.rates import poisson
from benchmarks.rows import Row, facts_of, make_rows, read_rows, spread, words
from benchmarks.runner import RESULTS

OPTIMISERS = ("relative_adam", "relative_sgd", "adam", "sgd")
BEFORE_THE_END = 60.0  # seconds: so long before its limit nothing is begun

Arrays = dict[str, np.ndarray]
Job = tuple[str, str, int]  # task, optimiser, seed


def searches(folder: Path, small: bool) -> dict[str, Callable[[], dict[str, Any]]]:
    """What to search, by name; data is made when it is asked for. ``small``: fewer samples, points and channels."""
    sets = load_sets(folder)

    def some(name: str, backbone: str, epochs: int, count: int = 10**9, few: int = 0) -> Callable[[], dict[str, Any]]:
        width = {"settings": {"backbone.width": 16}} if small else {}
        kept = few if small and few else count
        return lambda: {"data": _cut(sets[name](), kept), "backbone": backbone, "epochs": epochs, **width}

    def fields(task: str, points: int, few: int) -> Callable[[], dict[str, Any]]:
        size = {"task.points": points, "task.train": few, "backbone.width": 16, "train.batch": 20}
        return lambda: {"task": task, "backbone": "cnn", "epochs": 40, "settings": size}

    physics = {
        "plucked string": lambda: {
            "task": "plucked-string",
            "backbone": "cnn",
            "epochs": 34,
            "settings": {"backbone.width": 32, "train.batch": 20},
        },
        "Burgers": some("Burgers", "cnn", 40, 500),
        "Poisson": lambda: {"data": poisson(384, 32), "backbone": "cnn", "epochs": 40},
        "Darcy": some("Darcy", "cnn", 40, 300),
    }
    small_physics = {
        "plucked string": fields("plucked-string", 64, 300),
        "Burgers": fields("burgers", 64, 300),
        "Poisson": lambda: {
            "data": poisson(256, 22),
            "backbone": "cnn",
            "epochs": 40,
            "settings": {"backbone.width": 16},
        },
        "Darcy": fields("darcy", 22, 150),
    }
    return {
        **(small_physics if small else physics),
        "digits permuted": lambda: {
            "data": _permuted(sets["digits"]()),
            "backbone": "lenet",
            "epochs": 30,
            "settings": {"backbone.pool": "average"},
        },
        "ECG5000": some("ECG5000", "resnet", 40, few=400),
        "JapaneseVowels": some("JapaneseVowels", "resnet", 40, few=270),
        "Crop": some("Crop", "inception", 25, 3000, few=600),
        "Language": some("Language", "resnet", 15, 3000, few=800),
    }


def _cut(arrays: Arrays, count: int) -> Arrays:
    rows = np.random.default_rng(0).permutation(len(arrays["y_train"]))[:count]
    return {key: value[rows] if key.endswith("_train") else value for key, value in arrays.items()}


def _permuted(arrays: Arrays) -> Arrays:
    order = np.random.default_rng(0).permutation(8)
    return {key: value[..., order, :][..., order] if key[0] == "x" else value for key, value in arrays.items()}


def train(job: Job, folder: str, device: str, small: bool, ends: float) -> Row | None:
    """The test figure of one training; None if there is no time for it."""
    task, optimiser, seed = job
    if time.time() + BEFORE_THE_END > ends:
        return None
    given = searches(Path(folder), small)[task]()
    settings = {**given.pop("settings", {}), "strategy.optimiser": optimiser}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as run:
        found = eclose.search(
            **given,
            space="xd",
            baselines=(),
            seed=seed,
            device=device,
            out=Path(run) / "run",
            progress=False,
            settings=settings,
        ).metrics
    told = {"task": task, "optimiser": optimiser, "seed": seed, "metric": found["metric"]["name"]}
    return {**told, "test": found["test"], "valid": found["valid"], "seconds": time.perf_counter() - begun}


def summary(rows: list[Row]) -> str:
    """The page: means over the seeds with their deviations, and how often each optimiser is the best."""
    optimisers = [name for name in OPTIMISERS if any(row["optimiser"] == name for row in rows)]
    lines = ["# One optimiser of the architecture for all tasks", ""]
    lines += [*dict.fromkeys(line for row in rows for line in row["machine"]), ""]
    lines.append(
        "XD-operations from a plain network; each optimiser with its own default rate and decay. Test figures,"
    )
    lines += ["means over the seeds with their standard deviation.", ""]
    lines += [f"| task | metric | {' | '.join(optimisers)} |", "|---" * (len(optimisers) + 2) + "|"]
    first = dict.fromkeys(optimisers, 0)
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        values = {name: [row["test"] for row in mine if row["optimiser"] == name] for name in optimisers}
        metric = mine[0]["metric"]
        best = (max if metric == "accuracy" else min)(statistics.mean(v) for v in values.values() if v)
        for name, some in values.items():
            first[name] += bool(some) and statistics.mean(some) == best
        lines.append(f"| {task} | {metric} | {' | '.join(map(spread, values.values()))} |")
    return "\n".join([*lines, f"| best | | {' | '.join(map(str, first.values()))} |", ""])


def main() -> None:
    """From the command line."""

    parser = argparse.ArgumentParser(prog="python -m benchmarks.xd_optimisers", description=__doc__)
    parser.add_argument("--tasks", type=words, default=[], help="by name; default: all whose files are there")
    parser.add_argument("--optimisers", type=words, default=list(OPTIMISERS))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in words(text)], default=[0, 1, 2])
    parser.add_argument("--side", type=int, default=8, help="processes at a time")
    parser.add_argument("--limit", type=float, default=9.0, help="minutes: what cannot end by then is not begun")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ECLOSE_DATA", "../shared/data")))
    parser.add_argument("--small", action="store_true", help="few samples, coarse grids, thin networks: for a CPU")
    parser.add_argument("--rows", type=Path, default=Path("xd-optimisers.jsonl"), help="the file of the figures")
    parser.add_argument("--summarise", type=Path, nargs="+", metavar="ROWS", help="make the table of these files")
    options = parser.parse_args()
    if options.summarise:
        rows = read_rows(options.summarise)
        device = "cuda" if "CUDA" in str(rows[-1]["machine"]) else "cpu"
        path = RESULTS / f"{date.today().isoformat()}-xd-optimisers-{device}.md"
        path.write_text(summary(rows))
        print(path.read_text())
        return
    ends = time.time() + 60 * options.limit
    tasks = options.tasks or list(searches(options.data, options.small))
    for name in ("Burgers", "Darcy"):
        if name in tasks and not options.small:
            load_sets(options.data)[name]()  # generated once, for all processes
    known = {(row["task"], row["optimiser"], row["seed"]) for row in read_rows([options.rows])}
    jobs = [(task, name, seed) for seed in options.seeds for task in tasks for name in options.optimisers]
    make_rows(
        [job for job in jobs if job not in known],
        partial(train, folder=str(options.data), device=options.device, small=options.small, ends=ends),
        lambda row: f"{row['task']}, {row['optimiser']}, seed {row['seed']}: {row['test']:.4f}, {row['seconds']:.0f} s",
        side=options.side,
        rows=options.rows,
        facts=facts_of("benchmarks.xd_optimisers", options.device),
    )


if __name__ == "__main__":
    main()
