"""What the defaults of networks and trainings are worth: one changed at a time, on all sets, side by side.

``ECLOSE_DATA`` names the folder of the sets, else ``../shared/data``. On a CPU only small sets are used.
"""

import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.portfolio import PHYSICS, load_sets
from benchmarks.portfolio.sets import Loader
from benchmarks.runner import Entry
from eclose.backbones import default_backbone
from eclose.config import Config, from_dict
from eclose.engine import complete
from eclose.events import Events
from eclose.spaces import assemble, backbone_genotype, space_of
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import Batches, GradientStep, Objective, Surroundings, Training, World, evaluate, torch_settings
from eclose.train.graph import GraphStep
from eclose.train.optimisers import make_optimiser, parameter_groups

SHARED = Path(__file__).parents[2] / "shared" / "data"
SMALL = ("ECG5000", "JapaneseVowels", "digits", "Crop")
SEEDS = (0, 1)
GPU = {"workers": 8, "seconds": 225.0, "steps": 600}  # of all trainings together; steps of one
CPU = {"workers": 1, "seconds": 170.0, "steps": 150}
SAMPLES = 1000  # of a set on a CPU

# Settings besides the defaults; the network is the default one unless it is named.
CANDIDATES: dict[str, dict[str, Any]] = {
    "default": {},
    "no label smoothing": {"loss.label_smoothing": 0.0},
    "no average": {"train.ema": 1e-6},  # 0 would be the default
    "average over a twentieth": {"train.ema": 0.05},
    "average over a fifth": {"train.ema": 0.2},
    "resnet": {"backbone.name": "resnet"},
    "inception": {"backbone.name": "inception"},
    "tcn": {"backbone.name": "tcn"},
    "dropout 0.2": {"backbone.dropout": 0.2},
    "drop path 0.1": {"backbone.drop_path": 0.1},
    "half as wide": {"width": 0.5},
    "twice as wide": {"width": 2.0},
    "last weights": {"train.keep": "last"},
    "weight decay 0.05": {"optimiser.weight_decay": 0.05},
    "resnet, twice as wide": {"backbone.name": "resnet", "width": 2.0},
    "rate 0.001": {"optimiser.learning_rate": 0.001, "optimiser.clip": 1.0, "schedule.warmup": 0.1, "usual": True},
}


def check(device: torch.device) -> str:
    """Every set is there and every candidate is a configuration."""
    sets = _sets()
    assert sets, "no data: set ECLOSE_DATA"
    arrays = _cut(sets["digits"](), 40)
    for settings in CANDIDATES.values():
        configured(arrays, settings, steps=2, seed=0, device=torch.device("cpu"))
    return f"{len(sets)} sets; {len(CANDIDATES)} candidates are configurations"


def _sets() -> dict[str, Loader]:
    """Those with labels."""
    known = load_sets(Path(os.environ.get("ECLOSE_DATA", SHARED)))
    return {name: loader for name, loader in known.items() if name not in PHYSICS}


def configured(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], steps: int, seed: int, device: torch.device
) -> tuple[Task, Config]:
    """The task and the complete configuration of a candidate."""
    task = task_from_arrays("set", arrays, Reading(kind="classification", axes=arrays["x_train"].ndim - 2))
    changes = {key: value for key, value in settings.items() if "." in key}
    name = changes.get("backbone.name") or default_backbone(task.signature)
    if "width" in settings:
        usual = backbone_genotype(name, {}, task.signature).choices["options"]["width"]
        changes["backbone.width"] = round(settings["width"] * usual)
    if "usual" in settings:  # a rate of one's own has none of the other defaults
        other = complete(from_dict({}), task)
        changes |= {"train.ema": other.train.ema, "optimiser.widest": other.optimiser.widest}
        changes |= {f"loss.{key}": value for key, value in other.loss.options.items()}
    fast = {"run.deterministic": False, "train.precision": "tf32"} if device.type == "cuda" else {}
    threads = {"run.threads": 1, "run.seed": seed, "run.device": device.type, "backbone.name": name}
    config = complete(from_dict({}).with_values({**threads, **fast, **changes}), task)
    each = math.ceil(len(task.train) / config.train.batch)
    return task, config.with_values({"train.epochs": max(3, steps // each)})


def accuracy(path: str, candidate: str, seed: int, steps: int, device: str, deadline: float) -> float:
    """Test accuracy of one training; nothing is begun after the deadline."""
    if time.time() > deadline:
        return math.nan
    place = torch.device(device)
    arrays = dict(np.load(path, allow_pickle=False))
    task, config = configured(arrays, CANDIDATES[candidate], steps, seed, place)
    torch.manual_seed(seed)
    with torch_settings(config.run, config.train.precision):
        genotype = backbone_genotype(config.backbone.name, config.backbone.options, task.signature)
        network = space_of(genotype, config).build(genotype, task.signature)
        model = assemble(network, task.signature, task.scale).to(place)
        section = config.optimiser
        groups = parameter_groups(
            model, section.learning_rate, section.weight_decay, decay_vectors=False, widest=section.widest
        )
        optimisers = [make_optimiser(section.name, groups, section.options)]
        objective, world = Objective.of(task, config.loss, place), World()
        step = GradientStep(model, objective, optimisers, section.clip, config.train.precision, place, world)
        around = Surroundings(0, seed, place, world, Events())
        best = GraphStep(step, required=False) if place.type == "cuda" else step
        training = Training(model, task, best, config, around)
        training.run()
        assert task.test is not None
        value = evaluate(training.model, Batches(task.test, task.signature, place), training.metric, world)
    seconds = training.progress.seconds
    print(f"{Path(path).stem}, {candidate}, seed {seed}: {value:.4f} in {seconds:.0f} s", file=sys.stderr, flush=True)
    return value


def measure(device: torch.device) -> list[str]:
    """Test accuracies, and the differences from the defaults."""
    limits = GPU if device.type == "cuda" else CPU
    with tempfile.TemporaryDirectory() as folder:
        paths = _stored(Path(folder), device)
        begun = time.time()
        jobs: dict[tuple[str, str, int], Future[float]] = {}
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(int(limits["workers"]), mp_context=spawn) as pool:
            for seed in SEEDS:
                for candidate in CANDIDATES:
                    for name, path in paths.items():
                        given = (candidate, seed, int(limits["steps"]), device.type, begun + limits["seconds"])
                        jobs[name, candidate, seed] = pool.submit(accuracy, path, *given)
        found = {key: job.result() for key, job in jobs.items()}
    return _table(found, list(paths), f"{time.time() - begun:.0f} s, {limits['steps']} steps a training")


def _stored(folder: Path, device: torch.device) -> dict[str, str]:
    """Every set as a file: processes read it faster than they make it."""
    paths = {}
    for name, loader in _sets().items():
        if device.type == "cuda" or name in SMALL:
            arrays = loader() if device.type == "cuda" else _cut(loader(), SAMPLES)
            paths[name] = str(folder / f"{name}.npz")
            np.savez(paths[name], **arrays)
    return paths


def _cut(arrays: dict[str, np.ndarray], samples: int) -> dict[str, np.ndarray]:
    """At most so many samples of every part, drawn at random."""
    rows = {p: np.random.default_rng(0).permutation(len(arrays[f"y_{p}"]))[:samples] for p in ("train", "test")}
    return {f"{kind}_{part}": arrays[f"{kind}_{part}"][chosen] for part, chosen in rows.items() for kind in "xy"}


def _table(found: dict[tuple[str, str, int], float], sets: list[str], told: str) -> list[str]:
    def mean(name: str, candidate: str) -> float:
        values = [found[name, candidate, seed] for seed in SEEDS]
        return statistics.mean([value for value in values if not math.isnan(value)] or [math.nan])

    lines = [
        f"Test accuracy in per cent, mean of at most {len(SEEDS)} seeds; {told}.",
        "Last columns: mean of all sets; difference from the default over what both have done, and its standard error.",
        "",
        f"| | {' | '.join(sets)} | mean | difference |",
        "|---|" + "---|" * (len(sets) + 2),
    ]
    for candidate in CANDIDATES:
        values = [mean(name, candidate) for name in sets]
        pairs = [(found[n, candidate, s], found[n, "default", s]) for n in sets for s in SEEDS]
        differences = [100 * (a - b) for a, b in pairs if not math.isnan(a + b)]
        error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
        middle = statistics.mean(differences) if differences else math.nan
        cells = [f"{100 * value:.2f}" for value in values]
        overall = 100 * statistics.mean(values)
        lines.append(f"| {candidate} | {' | '.join(cells)} | {overall:.2f} | {middle:+.2f} +- {error:.2f} |")
    return lines


ENTRY = Entry("training-defaults", "Defaults of networks and trainings, one changed at a time", check, measure)
