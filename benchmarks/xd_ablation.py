"""Which settings of XD-operations matter on Darcy flow: arms by seeds, several trainings side by side on one device.

``python -m benchmarks.xd_ablation --help`` has the options. Every training writes its curve as it goes, into a file of
its own under ``--out``; those that are there and complete are not made again.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eclose
from benchmarks.runner import RESULTS, Entry, machine
from eclose.spaces import Genotype
from eclose.spaces.xd import XDSpace
from eclose.tasks.physics import darcy

ADAM = {"strategy.optimiser": "adam", "strategy.learning_rate": 1e-3, "strategy.weight_decay": 0.0}
# Ours is the mean over a batch of 20, the authors' loss the sum: 20 times the rate, a 20th of the decay.
SGD = {"strategy.optimiser": "sgd", "strategy.learning_rate": 2.0, "strategy.momentum": 0.5}
FNO = {"backbone.name": "fno", "backbone.norm": True}
EARLIER = {"space.largest": 17, "backbone.padding": "circular", "optimiser.weight_decay": 1e-4}
ONE_SCALE = {"task.standardise": True}

ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fno": ("FNO", FNO),
    "recipe": ("XD as the recipe has it", {}),
    "sgd": ("XD, SGD and decay of the authors", {**SGD, "strategy.weight_decay": 5e-6}),
    "adam": ("XD, unitary and small factors, Adam", ADAM),
    "no-decay": ("XD, recipe without decay of the architecture", {"strategy.weight_decay": 0.0}),
    "one-scale": ("XD, recipe with one scale for all points", ONE_SCALE),
    "fno-one-scale": ("FNO with one scale for all points", {**FNO, **ONE_SCALE}),
    "earlier": ("XD of earlier versions: K = F^-1, 85 = 5 x 17, Adam", {**ADAM, **EARLIER, **ONE_SCALE}),
    "sgd-no-decay": ("XD, SGD of the authors without decay", {**SGD, "strategy.weight_decay": 0.0}),
}
ALL = tuple(ARMS)[:8]


@dataclass(frozen=True)
class Plan:
    """What all trainings share."""

    folder: str
    data: str
    device: str
    epochs: int
    ends: float  # time by which all is over, in seconds of the clock
    width: int = 0
    modes: int = 0
    settings: tuple[tuple[str, Any], ...] = ()


def data_file(folder: Path, points: int, functions: int, grid: int) -> Path:
    """Functions to train with, 100 to validate and 100 to test; made where they are not there yet."""
    path = folder / f"darcy-{points}-{functions}-{grid}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        x, y = darcy.generate(functions + 200, points, seed=0, grid=grid)
        ends = {"train": slice(0, functions), "val": slice(functions, -100), "test": slice(-100, None)}
        arrays = {f"{name}_{part}": a[rows, None] for part, rows in ends.items() for name, a in (("x", x), ("y", y))}
        np.savez(path, **{name: array.float().numpy() for name, array in arrays.items()})
    return path


def train(job: tuple[str, int], plan: Plan) -> dict[str, Any]:
    """One training; its file has the curve while it runs, and the error on the test set at the end."""
    arm, seed = job
    path = Path(plan.folder) / f"{arm}-{seed}.json"
    told: dict[str, Any] = {"arm": arm, "seed": seed, "plan": asdict(plan), "history": [], "test": None}
    written = 0.0

    def listen(event: str, fields: dict[str, Any]) -> None:
        nonlocal written
        if event == "epoch" and "valid" in fields:
            told["history"].append({key: fields[key] for key in ("epoch", "train_loss", "valid", "seconds")})
            if time.time() - written > 2:
                _write(path, told)
                written = time.time()

    if arm == "earlier":
        XDSpace.start = _earlier(XDSpace.start)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(arm, plan)
        left = max(1.0, plan.ends - time.time())
        found = eclose.search(
            recipe="darcy" if arm.startswith("fno") else "xd-darcy",
            data=dict(np.load(plan.data)),
            baselines=(),
            settings={**settings, "budget.training_seconds": left},
            seed=seed,
            epochs=plan.epochs,
            device=plan.device,
            out=Path(folder) / "run",
            progress=False,
            listeners=[listen],
        ).metrics
    told |= {"test": found["test"], "valid": found["valid"], "parameters": found["parameters"]}
    told |= {"settings": {key: str(value) for key, value in settings.items()}, "done": True}
    _write(path, told)
    reached = told["history"][-1]
    print(f"{arm} {seed}: test {found['test']:.5f}, {reached['epoch']} epochs, {reached['seconds']:.0f} s", flush=True)
    return told


def _settings(arm: str, plan: Plan) -> dict[str, Any]:
    shape = {"backbone.width": plan.width, "backbone.modes": plan.modes}
    fast = {"run.deterministic": plan.device == "cpu", "run.checkpoint_seconds": 1e6}
    if plan.device == "cuda":
        fast["train.precision"] = "tf32"
    return {"schedule.every": plan.epochs / 5, **shape, **fast, **dict(plan.settings), **ARMS[arm][1]}


def _earlier(start: Any) -> Any:
    """K = F^-1 and M = F at the start, not unitary."""

    def changed(space: XDSpace, signature: Any) -> Genotype:
        found: Genotype = start(space, signature)
        relaxation = {**found.choices["relaxation"], "unitary": False}
        return replace(found, choices={**found.choices, "relaxation": relaxation})

    return changed


def _write(path: Path, told: dict[str, Any]) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(told))
    os.replace(temporary, path)


def run(jobs: Sequence[tuple[str, int]], plan: Plan, side: int) -> None:
    """All that are not there yet; each in a process of its own, ``side`` at a time."""
    missing = [job for job in jobs if not _read(Path(plan.folder), job).get("done")]
    context = multiprocessing.get_context("spawn")
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // side))
    with ProcessPoolExecutor(side, mp_context=context, max_tasks_per_child=1) as pool:
        for job, future in [(job, pool.submit(_in_time, job, plan)) for job in missing]:
            try:
                future.result()
            except Exception as error:  # the others go on
                print(f"{job[0]} {job[1]} failed: {error}", file=sys.stderr, flush=True)


def _in_time(job: tuple[str, int], plan: Plan) -> dict[str, Any] | None:
    return train(job, plan) if time.time() < plan.ends - 20 else None


def _read(folder: Path, job: tuple[str, int]) -> dict[str, Any]:
    path = folder / f"{job[0]}-{job[1]}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def table(folder: Path, arms: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """What the files say, one line an arm."""
    head = ("arm", "settings", "test, mean ± deviation", "each", "validation", "training", "epochs", "s", "weights")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for arm in arms:
        found = [one for seed in seeds if (one := _read(folder, (arm, seed))).get("history")]
        if not found:
            continue
        tests = [one["test"] for one in found if one["test"] is not None]
        spread = f" ± {statistics.stdev(tests):.5f}" if len(tests) > 1 else ""
        last = [one["history"][-1] for one in found]
        cells = [
            f"{statistics.mean(tests):.5f}{spread}" if tests else "",
            ", ".join(f"{value:.5f}" for value in tests),
            ", ".join(f"{one['valid']:.5f}" for one in last),
            ", ".join(f"{one['train_loss']:.5f}" for one in last),
            ", ".join(str(one["epoch"]) for one in last),
            ", ".join(f"{one['seconds']:.0f}" for one in last),
            str(found[0].get("parameters", "")),
        ]
        lines.append(f"| {arm} | {ARMS[arm][0]} | {' | '.join(cells)} |")
    return lines


def check(device: torch.device) -> str:
    """The recipe is there; runs that fail are not reported."""
    assert "xd-darcy" in eclose.recipes.recipe_names()
    return "exactness is the tests' business; a run that fails is not reported"


def measure(device: torch.device) -> list[str]:
    """Every arm with three seeds within nine minutes."""
    with tempfile.TemporaryDirectory() as folder:
        options = _parser().parse_args(["--device", device.type, "--out", folder])
        return _run(options)


def _run(options: argparse.Namespace) -> list[str]:
    begun = time.time()
    data = data_file(options.data, options.points, options.functions, options.grid)
    print(f"data after {time.time() - begun:.0f} s: {data}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        folder=str(options.out),
        data=str(data),
        device=options.device,
        epochs=options.epochs,
        ends=begun + 60 * options.minutes,
        width=options.width,
        modes=options.modes,
        settings=tuple(eclose.config.parse_overrides(options.set).items()),
    )
    run([(arm, seed) for seed in options.seeds for arm in options.arms], plan, options.side)
    title = f"{options.points} x {options.points} points, {options.functions} functions, {options.epochs} epochs"
    told = f"{title}, {options.side} side by side, {time.time() - begun:.0f} s in all; relative errors"
    told = f"{told}, those of training over the last epoch, as its steps saw them."
    return [told, "", *table(options.out, options.arms, options.seeds)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.xd_ablation", description=__doc__)
    parser.add_argument("--arms", type=lambda text: text.split(","), default=ALL, help=", ".join(ARMS))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=(0, 1, 2))
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=9.0, help="whatever still runs then is cut short and tested")
    parser.add_argument("--side", type=int, default=5, help="trainings at a time")
    parser.add_argument("--points", type=int, default=85)
    parser.add_argument("--functions", type=int, default=1000)
    parser.add_argument("--grid", type=int, default=421, help="points a side where the equation is solved")
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--modes", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path, default=Path(".gpu"), help="the folder of generated data")
    parser.add_argument("--out", type=Path, default=RESULTS / "xd-ablation", help="the folder of the curves")
    parser.add_argument("--set", action="append", default=[], help="section.key=value, for all arms but what they set")
    return parser


def main() -> None:
    options = _parser().parse_args()
    facts = [line.replace("benchmarks", "benchmarks.xd_ablation", 1) for line in machine(torch.device(options.device))]
    text = "\n".join(["# What matters for XD-operations on Darcy flow", "", *facts, "", *_run(options), ""])
    (options.out / "table.md").write_text(text)
    print(text)


ENTRY = Entry("xd-ablation", "What matters for XD-operations on Darcy flow", check, measure)

if __name__ == "__main__":
    main()
