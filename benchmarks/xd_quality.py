"""What searches over XD-operations find, beside their starts and the usual choices: quick recipes, three seeds."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.runner import Entry
from eclose.recipes import recipe_names

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Experiment:
    """Recipes run with every seed; a run brings its baselines along."""

    name: str
    title: str
    recipes: dict[str, str]  # a heading for each
    settings: tuple[str, ...] = ()
    solves: bool = False  # the first run makes the data that the others find
    seeds: tuple[int, ...] = SEEDS

    @property
    def entry(self) -> Entry:
        """For the list of benchmarks."""
        return Entry(self.name, self.title, self.check, self.measure)

    def check(self, device: torch.device) -> str:
        """The recipes are there; runs that fail are not reported."""
        missing = set(self.recipes) - set(recipe_names())
        assert not missing, f"no recipes {missing}"
        return "exactness is the tests' business; a run that fails is not reported"

    def measure(self, device: torch.device) -> list[str]:
        """All runs, a few at a time; one table a recipe."""
        begun = time.perf_counter()
        jobs = [(recipe, seed) for recipe in self.recipes for seed in self.seeds]
        first = [job for job in jobs if self.solves and job[1] == self.seeds[0]]
        found: dict[tuple[str, int], dict[str, Any]] = {}
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(3 if device.type == "cuda" else 1) as pool:
            for turn in (first, [job for job in jobs if job not in first]):
                results = pool.map(lambda job: self._run(*job, device, Path(folder)), turn)
                found |= dict(zip(turn, results, strict=True))
        lines = []
        for recipe, heading in self.recipes.items():
            lines += ["", f"## {heading}", "", *_table(recipe, [found[recipe, seed] for seed in self.seeds])]
        options = "".join(f" --set {setting}" for setting in self.settings)
        others = f" ({', '.join(map(str, self.seeds[1:]))})" if self.seeds[1:] else ""
        command = f"`eclose search --recipe NAME --seed {self.seeds[0]}{others}{options}`"
        return [f"{command}, {time.perf_counter() - begun:.0f} s in all.", *lines]

    def _run(self, recipe: str, seed: int, device: torch.device, folder: Path) -> dict[str, Any]:
        out = folder / f"{recipe}-{seed}"
        command = [sys.executable, "-m", "eclose", "search", "--recipe", recipe, "--seed", str(seed), "--json"]
        command += ["--device", device.type, "--out", str(out)]
        for setting in self.settings:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(done.stdout)
        print(recipe, seed, {row["name"]: round(row["test"], 5) for row in _rows(result)}, file=sys.stderr, flush=True)
        return result


def _rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [*result["baselines"], result]


def _table(recipe: str, results: list[dict[str, Any]]) -> list[str]:
    metric = results[0]["metric"]["name"]
    lines = [
        f"Recipe `{recipe}`, {results[0]['epochs']} epochs; {metric} on the test set{_spread_told(results)}.",
        "",
        f"| network | {metric} | each seed | parameters | seconds of training |",
        "|---|---|---|---|---|",
    ]
    for rows in zip(*(_rows(result) for result in results), strict=True):
        values = [row["test"] for row in rows]
        each = ", ".join(f"{value:.4f}" for value in values)
        seconds = statistics.mean(row.get("trial_seconds", row["seconds"]) for row in rows)  # a run's are those of all
        spread = f"{statistics.mean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if values[1:] else "")
        lines.append(f"| {rows[0]['name']} | {spread} | {each} | {rows[0]['parameters']:,} | {seconds:.0f} |")
    return lines


def _spread_told(results: list[dict[str, Any]]) -> str:
    return ", mean ± standard deviation" if results[1:] else ", one seed"


EXPERIMENTS = (
    Experiment(
        "xd-burgers",
        "XD-operations on Burgers' equation",
        {"xd-burgers-quick": "256 points, viscosity 0.1"},
        solves=True,
    ),
    Experiment(
        "xd-darcy",
        "XD-operations on Darcy flow",
        {"xd-darcy-quick": "85 x 85 points"},
        ("train.precision=tf32",),
        solves=True,
    ),
    Experiment(
        "xd-darcy-paper",
        "XD-operations on Darcy flow, as many functions and epochs as in the paper",
        {"xd-darcy": "85 x 85 points"},
        ("train.precision=tf32", 'compare.baselines=["fno"]'),
        seeds=(0,),
    ),
    Experiment(
        "xd-lenet",
        "XD-operations in LeNet on CIFAR-10, plain and permuted",
        {
            "xd-lenet-permuted-quick": "rows and columns permuted: XD",
            "discrete-lenet-permuted-quick": "rows and columns permuted: mixtures of DARTS operations",
            "xd-lenet-quick": "as it is: XD",
        },
        ("task.shards=2", "train.epochs=40", "schedule.milestones=[20.0, 30.0]"),  # 15,000 images to train with
    ),
    Experiment(
        "xd-lenet-permuted",
        "XD-operations in LeNet on permuted CIFAR-10, all images",
        {"xd-lenet-permuted-quick": "rows and columns permuted"},
        ("train.epochs=50", "schedule.milestones=[25.0, 38.0]"),
    ),
)
ENTRIES = tuple(experiment.entry for experiment in EXPERIMENTS)
