"""What searches for cells find: with and without a teacher, beside plain DARTS and random cells.

The data are part of CIFAR-10, or a task or a file that ``--task`` names (for a CPU: a file of short signals).
``python -m benchmarks.nos_quality --help`` has the options. A teacher is trained first and kept beside the rows. Every
other run is a process of its own, several of them side by side on one device: it searches, takes the cells, makes them
as wide as it takes to have ``--parameters``, and trains them anew. ``--drawn`` says how many random cells are trained
(the paper has the best of 30). The best of an arm is the network that is best on validation samples.

Steps are timed first, and all runs have as many epochs as then end within ``--minutes`` if processes take the GPU in
turn. Where NVIDIA's Multi-Process Service runs, they share it, and more epochs end in time (``--searched``,
``--epochs``). Each run ends as a line of the file ``--rows`` and is not made again: the same command goes on where it
stopped, with the same epochs. What does not end in time is cut short. The cells that a search has found are kept beside
the rows, and the table says after how many epochs they were; a training that was cut short is made again.
"""

import argparse
import json
import math
import os
import re
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.chrysalis import silent, step_of
from benchmarks.rows import Row, facts_of, make_rows, read_rows, row_options, spread, words
from benchmarks.runner import RESULTS, Entry, by_round
from eclose.config import Config
from eclose.launch import start_run
from eclose.runs import Run
from eclose.signature import Signature
from eclose.spaces import Genotype, Space, make_space
from eclose.tasks import Task, complete_task, load_task
from eclose.train import generator_for

Settings = dict[str, Any]
Job = tuple[str, int]  # an arm, a seed

START = 30.0  # seconds that a process takes before and after its trainings
LEAST = 40.0  # seconds of training without which a run is not begun
SEARCHING = 0.6  # of the time left: for the search, the rest for the training of what it found
BUSY = 0.65  # of the time between the first start and the last end: for steps, which processes of one GPU take in turn
EPOCHS = (2, 3)  # of a search for so many of a training
MOST = (24, 36)  # epochs of both, however fast steps are
TIMED = 6  # steps, after as many that capture a graph
NEAR = 0.02  # of the parameters: only networks farther away have a cell more or less
FAR = 0.1  # with which nothing is compared

RANDOM = "random cells"

SGD = {"optimiser.name": "sgd", "optimiser.momentum": 0.9, "optimiser.decay_vectors": True, "schedule.name": "cosine"}
SEARCH: Settings = {
    **SGD,
    **{"optimiser.learning_rate": 0.025, "optimiser.weight_decay": 3e-4, "optimiser.clip": 5.0, "train.keep": "last"},
    **{"strategy.learning_rate": 3e-3, "strategy.weight_decay": 1e-3, "train.batch": 64, "train.evaluate_every": 1000},
    **{"space.search_cells": 5, "space.search_width": 8, "augment.names": ("crop", "flip")},
}
TRAINING: Settings = {
    **SGD,
    **{"optimiser.learning_rate": 0.05, "optimiser.weight_decay": 3e-4, "optimiser.clip": 5.0},
    **{"train.batch": 128, "augment.names": ("crop", "flip", "cutout")},
    **{"train.keep": "last", "train.evaluate_every": 1000},
}
TEACHER: Settings = {
    **TRAINING,
    **{"backbone.depth": 29, "backbone.alpha": 48, "augment.names": ("crop", "flip")},
}

ARMS: dict[str, Settings | None] = {  # None: nothing is searched
    "NOS under a teacher": {"teacher.weight": 1.0},
    "NOS alone": {},
    "DARTS (features only)": {"space.operations": "features"},
    RANDOM: None,
    "NOS under a teacher, weight 1000": {"teacher.weight": 1000.0},
}
USUAL = [arm for arm in ARMS if "1000" not in arm]


@dataclass(frozen=True)
class Plan:
    """What all runs share."""

    device: str
    data: str
    ends: float  # time by which all is over, in seconds of the clock
    teacher: str  # a run; beside it what searches have found
    task: str = "cifar10"
    subset: int = 18432  # of two of the five files of CIFAR-10; all batches of a search are then alike
    taught: int = 15  # epochs of the teacher
    searched: int = 0  # epochs; 0: as many as end in time, and so of the training of what was found
    epochs: int = 0
    cells: int = 8
    parameters: int = 400_000
    settings: tuple[tuple[str, Any], ...] = ()

    def all(self, *more: Settings) -> Settings:
        """Settings of a run: those of all, then its own, then the user's."""
        whole = {"task.subset": self.subset, "run.device": self.device, "run.checkpoint_seconds": 1e6}
        cells = {"space.name": "nos", "space.cells": self.cells, "space.auxiliary": 0.0}
        own = {key: value for settings in more for key, value in settings.items()}
        return {**whole, **cells, **own, **self._data(), **dict(self.settings)}

    def _data(self) -> Settings:
        if self.task == "cifar10":
            return {"task.name": self.task, "task.val": 1024, "task.shards": shards(Path(self.data))}
        where = "task.data" if self.task.endswith(".npz") else "task.name"
        return {where: self.task, "augment.names": ()}  # crops and flips are those of photographs


def shards(data: Path) -> int:
    """How many files of training images there are; where CIFAR-10 is an archive, all five."""
    there = [(data / "cifar10" / f"cifar10_train{number}.npz").is_file() for number in range(1, 6)]
    return [*there, False].index(False) or 5


def train_teacher(plan: Plan) -> None:
    """Once for all searches; it sees their samples."""
    if (Path(plan.teacher) / "result.json").is_file():
        return
    own = {
        "train.epochs": plan.taught,
        "compare.baselines": (),
        "backbone.name": "pyramidnet",
        "space.name": "backbone",
    }
    settings = {key: value for key, value in plan.all(TEACHER, own).items() if key[:6] != "space." or key in own}
    start_run(Config().with_values(settings), Path(plan.teacher), [], False, None, None)


def with_epochs(plan: Plan, jobs: Sequence[Job], rows: Sequence[Row]) -> Plan:
    """As many as end in time, or as many as runs had that have ended before."""
    if (plan.searched and plan.epochs) or not jobs:
        return plan
    if rows:
        searched, epochs = rows[0]["planned"]
        return replace(plan, searched=plan.searched or searched, epochs=plan.epochs or epochs)
    task = task_of(plan)
    arms, training = [arm for arm, _ in jobs], _seconds_of_an_epoch(plan, task, None)
    timed = {arm: _seconds_of_an_epoch(plan, task, ARMS[arm]) for arm in set(arms) if ARMS[arm] is not None}
    one = EPOCHS[0] * sum(timed.get(arm, 0.0) for arm in arms) + EPOCHS[1] * training * len(arms)
    times = BUSY * max(0.0, plan.ends - time.time() - 2 * START) / one
    told = {arm: round(seconds, 2) for arm, seconds in timed.items()}
    searched, epochs = (max(each, min(most, int(each * times))) for each, most in zip(EPOCHS, MOST, strict=True))
    print(f"seconds an epoch: {told}, training {training:.2f}; epochs: {searched} and {epochs}", flush=True)
    return replace(plan, searched=plan.searched or searched, epochs=plan.epochs or epochs)


def task_of(plan: Plan) -> Task:
    """What all of them learn."""
    return load_task(complete_task(Config().with_values(plan.all()).task), lambda done, total: None)


def _seconds_of_an_epoch(plan: Plan, task: Task, own: Settings | None) -> float:
    """Of a search, or of the training of random cells (None), alone on the device; a teacher is left out."""
    device, settings, cells = torch.device(plan.device), plan.all(TRAINING, {"strategy.name": "train"}), None
    samples = len(task.train)
    if own is None:
        cells = widened(searched(RANDOM, 0, plan, 0.0)[0], plan, task.signature)
    else:
        alone = {key: value for key, value in own.items() if not key.startswith("teacher.")}
        settings, samples = plan.all(SEARCH, alone), samples // 2
    step = step_of(task, device, cells, **settings)
    for _ in range(TIMED):
        step()
    seconds = by_round({"step": silent(step)}, device, TIMED, warm_up=0)["step"]
    return math.ceil(samples / settings["train.batch"]) * statistics.median(seconds)


def searched(arm: str, seed: int, plan: Plan, seconds: float) -> tuple[Genotype, Row]:
    """The cells of an arm, and what its search says of them."""
    own = ARMS[arm]
    if own is None:
        space, draw = make_space(Config().with_values(plan.all())), generator_for(seed, arm)
        return space.sample(Signature("classification", 1, (8, 8), 2), draw), {}  # type: ignore[attr-defined]
    taught = {"teacher.run": plan.teacher} if "teacher.weight" in own else {}
    small = {"final.train.epochs": 1, "final.train.batch": 1024, "space.cells": 3, "space.width": 4}
    limits = {"train.epochs": plan.searched, "run.seed": seed, "budget.training_seconds": seconds}
    config = Config().with_values(plan.all(SEARCH, own, taught, small, limits))
    with tempfile.TemporaryDirectory() as folder:
        path, _ = start_run(config, Path(folder) / "run", [], False, None, None)
        row = next(trial for trial in Run.open(path).table.all() if trial.role == "search")
        found = Genotype.load(path)
    told = {"supernet": row.valid, "attention": row.attention, "search_epochs": row.epochs}
    return found, {**told, "search_seconds": row.seconds}


def widened(genotype: Genotype, plan: Plan, signature: Signature) -> Genotype:
    """The same cells in a network of about so many parameters as all others have.

    One cell more or less brings it nearer where no width of the usual number of cells does.
    """
    space = make_space(Config().with_values(plan.all() | {"run.device": "cpu"}))

    def wide(cells: int, width: int) -> Genotype:
        sizes = {"cells": cells, "width": width, "auxiliary": 0.0, "drop_path": 0.0}
        own = {key: genotype.choices[key] for key in ("normal", "reduction")} | sizes
        return replace(genotype, choices={**own, "digest": own, "kin": genotype.choices["kin"]})

    def nearest(cells: int) -> tuple[float, Genotype]:
        def size(width: int) -> int:
            return parameters_of(space, wide(cells, width), signature)

        widths = range(2, 129)
        above = bisect_left(widths, plan.parameters, hi=len(widths) - 1, key=size)
        near = {abs(size(width) / plan.parameters - 1): width for width in widths[max(0, above - 1) : above + 1]}
        return min(near), wide(cells, near[min(near)])

    far, found = nearest(plan.cells)
    if far <= NEAR:
        return found
    others = (nearest(cells) for cells in (plan.cells - 1, plan.cells + 1) if cells >= 3)
    return min([(far, found), *others], key=lambda each: each[0])[1]


def parameters_of(space: Space, genotype: Genotype, signature: Signature) -> int:
    """Known without weights."""
    with torch.device("meta"):
        network = space.build(genotype, signature)
    return sum(parameter.numel() for parameter in network.parameters())


def figures(job: Job, plan: Plan) -> Row | None:
    """One run; None if there is no time for it."""
    arm, seed = job
    os.environ["ECLOSE_DATA"] = plan.data
    left = plan.ends - time.time() - START
    if left < LEAST:
        return None
    begun = time.perf_counter()
    genotype, told = kept(job, plan, SEARCHING * left)
    theirs = Run.open(Path(plan.teacher)).result or {}
    genotype = widened(genotype, plan, Signature.from_dict(theirs["signature"]))
    left = plan.ends - time.time() - START / 2
    limits = {"train.epochs": plan.epochs, "run.seed": seed, "budget.training_seconds": max(5.0, left)}
    settings = plan.all(TRAINING, {"strategy.name": "train"}, limits)
    with tempfile.TemporaryDirectory() as folder:
        _, result = start_run(Config().with_values(settings), Path(folder) / "run", [], False, None, genotype)
    figures = {key: result[key] for key in ("test", "valid", "parameters", "epochs", "flops")}
    cells = make_space(Config().with_values({"space.name": "nos"})).text(genotype)
    cut = result["epochs"] < plan.epochs
    sizes = {"depth": genotype.choices["cells"], "width": genotype.choices["width"]}
    more = {**sizes, "cut": cut, "cells": cells, "planned": [plan.searched, plan.epochs]}
    return {"arm": arm, "seed": seed, **figures, **told, **more, "seconds": time.perf_counter() - begun}


def kept(job: Job, plan: Plan, seconds: float) -> tuple[Genotype, Row]:
    """What :func:`searched` gives; a search is made once."""
    stem = re.sub(r"\W+", "-", f"{job[0]} {job[1]}")
    folder = Path(plan.teacher).with_name("nos-found")
    path = folder / f"{stem}-search.json"
    if path.exists():
        return Genotype.load(folder, stem), json.loads(path.read_text())
    genotype, told = searched(*job, plan, seconds)
    folder.mkdir(parents=True, exist_ok=True)
    genotype.save(folder, stem)
    path.write_text(json.dumps(told))
    return genotype, told


def run(jobs: Sequence[Job], plan: Plan, side: int, rows: Path) -> None:
    """Those that the file has not yet, each a line of it as it ends."""
    known = {(row["arm"], row["seed"]) for row in read_rows([rows]) if not row["cut"]}
    missing = sorted((job for job in jobs if job not in known), key=lambda job: ARMS[job[0]] is None)  # long ones first
    make_rows(missing, partial(figures, plan=plan), _told, side=side, rows=rows, facts=_facts(plan.device))


def _facts(device: str) -> list[str]:
    return facts_of("benchmarks.nos_quality", device)


def _told(row: Row) -> str:
    cut = " (cut short)" if row["cut"] else ""
    return f"{row['arm']}, seed {row['seed']}: {row['test']:.4f}, {row['parameters']:,} parameters{cut}"


def table(rows: Sequence[Row]) -> list[str]:
    """A line an arm, with the test accuracy of the network that is best on validation samples."""
    figures = ("test accuracy", "each", "best by validation", "parameters", "from the teacher", "supernet")
    lines = [f"| cells | {' | '.join(figures)} | search epochs | search s |", "|---|---|---|---|---|---|---|---|---|"]
    for arm in ARMS:
        own = sorted((row for row in rows if row["arm"] == arm), key=lambda row: row["seed"])
        if own:
            each = ", ".join(f"{row['test']:.4f}{' (cut)' if row['cut'] else ''}" for row in own)
            best = max(own, key=lambda row: row["valid"])
            sizes = sorted(row["parameters"] for row in own)
            size = f"{sizes[0]:,} to {sizes[-1]:,}" if sizes[0] < sizes[-1] else f"{sizes[0]:,}"
            asked = ("attention", "supernet", "search_epochs", "search_seconds")
            more = [_mean([row.get(key) for row in own]) for key in asked]
            shown = [spread([row["test"] for row in own]), each, f"{best['test']:.4f} of {len(own)}", size, *more]
            lines.append(f"| {arm} | {' | '.join(shown)} |")
    return lines


def found_cells(rows: Sequence[Row]) -> list[str]:
    """The cells themselves, line by line."""
    lines = ["", "## Cells", ""]
    for row in rows:
        named = f"{row['arm']}, seed {row['seed']}, {row['depth']} cells of width {row['width']}:"
        lines += [named, "", "```", row["cells"], "```", ""]
    return lines


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.4g}" if known else ""


def check(device: torch.device) -> str:
    """Cells of any kind can be given the same number of parameters, to a few per cent."""
    return equal_sizes(Plan("cpu", "", 0.0, ""), Signature("classification", 3, (32, 32), 10))


def equal_sizes(plan: Plan, signature: Signature) -> str:
    """The same for the networks of a plan, on its data; refused where they differ too much to be compared."""
    space, sizes = make_space(Config().with_values(plan.all())), []
    for seed in range(4):
        genotype = widened(searched(RANDOM, seed, plan, 0.0)[0], plan, signature)
        sizes.append(parameters_of(space, genotype, signature))
    far = max(abs(size / plan.parameters - 1) for size in sizes)
    assert far < FAR, f"random cells have {sizes} parameters in place of {plan.parameters}"
    return f"random cells are within {far:.1%} of {plan.parameters:,} parameters"


def measure(device: torch.device) -> list[str]:
    """Every usual arm with three seeds."""
    with tempfile.TemporaryDirectory() as folder:
        options = _parser().parse_args(["--device", device.type, "--rows", f"{folder}/rows.jsonl"])
        return _run(options, planned(options))


def planned(options: argparse.Namespace) -> Plan:
    """What the command line asks for; the clock begins here."""
    os.environ["ECLOSE_DATA"] = str(options.data)
    given = tuple(eclose.config.parse_overrides(options.set).items())
    keys = ("task", "subset", "taught", "searched", "epochs", "cells", "parameters")
    own = {key: getattr(options, key) for key in keys}
    teacher = str(options.rows.with_name("nos-teacher").absolute())
    ends = time.time() + 60 * options.minutes
    return Plan(options.device, str(options.data), ends, teacher, **own, settings=given)


def jobs_of(arms: Sequence[str], seeds: Sequence[int], drawn: int) -> list[Job]:
    """Each arm with each seed; of random cells so many as are drawn."""
    jobs = [(arm, seed) for seed in seeds for arm in arms if arm != RANDOM]
    return jobs + [(RANDOM, seed) for seed in range(drawn) if RANDOM in arms]


def _run(options: argparse.Namespace, plan: Plan) -> list[str]:
    begun = time.time()
    train_teacher(plan)
    jobs = jobs_of(options.arms, options.seeds, options.drawn)
    plan = with_epochs(plan, jobs, read_rows([options.rows]))
    run(jobs, plan, options.side, options.rows)
    taught = Run.open(Path(plan.teacher)).result or {}
    rows = [*{(row["arm"], row["seed"]): row for row in read_rows([options.rows]) if row["arm"] in ARMS}.values()]
    return [
        f"Test accuracy on {Path(plan.task).stem}, {plan.subset or 'all'} training samples, "
        "mean ± standard deviation over seeds, and that of the network that is best on validation samples. "
        f"Cells are searched for {plan.searched} epochs at most and trained anew for {plan.epochs}, in networks of "
        f"{plan.cells} cells and about {plan.parameters:,} parameters{_apart(rows, plan)}. "
        f"The teacher, a PyramidNet of {taught['parameters']:,} parameters, has {taught['test']:.4f}. "
        f"{options.side} runs side by side, {time.time() - begun:.0f} s in all.",
        "",
        *table(rows),
        *found_cells(rows),
    ]


def _apart(rows: Sequence[Row], plan: Plan) -> str:
    """How far networks are from the number of parameters that all should have, and from that of cells."""
    if not rows:
        return ""
    apart = [row["parameters"] / plan.parameters - 1 for row in rows]
    others = sum(row["depth"] != plan.cells for row in rows)
    nearer = f"{others} of {len(rows)} have a cell more or less to come so near"
    return f" ({min(apart):+.1%} to {max(apart):+.1%}; {nearer})"


def _parser() -> argparse.ArgumentParser:
    plan, rows = asdict(Plan("", "", 0.0, "")), RESULTS / "nos-quality.jsonl"
    parser = row_options("benchmarks.nos_quality", __doc__, minutes=9.5, side=6, rows=rows)
    names = partial(words, between=";")
    parser.add_argument("--arms", type=names, default=USUAL, help=f"with ; between them: {'; '.join(ARMS)}")
    parser.add_argument("--drawn", type=int, default=6, help="random cells; the paper has the best of 30")
    parser.add_argument("--task", default=plan["task"], help="a task, or an .npz file")
    for name, told in (
        ("subset", "training samples"),
        ("taught", "epochs of the teacher"),
        ("searched", "epochs of a search; 0: as many as end in time"),
        ("epochs", "of the training of what was found; 0: likewise"),
        ("cells", "of the networks that are trained anew"),
        ("parameters", "of these networks"),
    ):
        parser.add_argument(f"--{name}", type=int, default=plan[name], help=told)
    return parser


def main() -> None:
    """From the command line."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.arms) - set(ARMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {'; '.join(ARMS)}")
    plan = planned(options)
    told = equal_sizes(plan, task_of(plan).signature)
    lines = _run(options, plan)
    facts = dict.fromkeys(fact for row in read_rows([options.rows]) for fact in row["machine"])
    text = "\n".join([f"# {ENTRY.title}", "", *facts, f"- correctness: {told}", "", *lines, ""])
    options.rows.with_suffix(".md").write_text(text)
    print(text)


ENTRY = Entry("nos-quality", "Cells by NOS with and without a teacher, by DARTS and by chance", check, measure)

if __name__ == "__main__":
    main()
