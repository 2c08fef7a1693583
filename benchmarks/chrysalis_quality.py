"""What searches over K-operations find, beside fixed operations; and what the strategies find in other spaces.

``python -m benchmarks.chrysalis_quality --help`` has the options. Every run is a process of its own, several of them
side by side on one device. Each ends as a line of the file ``--rows`` and is not made again: the same command goes on
where it stopped. All is over after ``--minutes``: trainings still under way then are cut short, and their schedules
with them.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.rows import Row, facts_of, make_rows, read_rows, row_options, spread, words
from benchmarks.runner import RESULTS, Entry
from eclose.backbones import backbones
from eclose.config import Config
from eclose.tasks import load_task

Settings = dict[str, Any]
Job = tuple[str, str, int]  # a set, an arm, a seed

START = 25.0  # seconds that a process takes before and after its trainings
LEAST = 20.0  # seconds of training without which a run is not begun
TWICE = {"final.networks": 1, "final.all_samples": False}  # as chrysalis has it by itself
ARCHITECTURE = {  # moved alike by all strategies, so that nothing else differs
    **{"strategy.optimiser": "relative_adam", "strategy.scheduled": True},
    **{"strategy.learning_rate": 0.005, "strategy.weight_decay": 0.005},
}

CIFAR = {"task.name": "cifar10", "task.permuted": True, "task.shards": 3, "train.batch": 128, "train.epochs": 30}
LENET = {**CIFAR, "backbone.name": "lenet", "backbone.pool": "average"}
SPHERE = {"task.name": "spherical-mnist-rotated", "task.subset": 20000, "train.batch": 64, "train.epochs": 12}
ADAM = {"optimiser.name": "adam", "optimiser.learning_rate": 5e-4, "schedule.name": "constant"}
KIM = {"backbone.name": "kim", "train.batch": 50, "train.epochs": 25, "train.patience": 3}
ADADELTA = {"optimiser.name": "adadelta", "optimiser.learning_rate": 1.0, "schedule.name": "constant"}

PLAIN: Settings = {"space.name": "backbone"}
SCRATCH: Settings = {"space.name": "chrysalis"}
WARM: Settings = {**SCRATCH, "space.begin": "warm"}

SETS: dict[str, tuple[str, Settings, dict[str, Settings]]] = {
    "permuted-cifar10": (
        "Permuted CIFAR-10 with LeNet",
        LENET,
        {
            "convolution": PLAIN,
            "linear": {**PLAIN, "backbone.layers": "linear"},
            "K-layer": {**PLAIN, "backbone.layers": "kaleidoscope"},
            "random K-operation": {**SCRATCH, "strategy.name": "train"},
            "K-operation, warm start": WARM,
            "K-operation, from scratch": SCRATCH,
        },
    ),
    "rotated-sphere": (
        "Rotated spherical MNIST, two convolutions of stride 3",
        {**SPHERE, **ADAM, "backbone.name": "spherical"},
        {
            "convolution": PLAIN,
            "K-operation, warm start": WARM,
            "K-operation, first layer warm": {**SCRATCH, "space.begin": "warm,scratch"},
            "K-operation, from scratch": SCRATCH,
        },
    ),
    **{
        task: (
            f"{task.upper()} with Kim's network",
            {**KIM, **ADADELTA, "task.name": task},
            {"convolution": PLAIN, "K-operation, warm start": WARM, "K-operation, from scratch": SCRATCH},
        )
        for task in ("trec", "sst-2")
    },
    "strategies": (
        "Strategies in other spaces: permuted CIFAR-10 with LeNet",
        {**LENET, **TWICE, **ARCHITECTURE},
        {
            f"{space}, {told}": {"space.name": space, **settings}
            for space in ("xd", "discrete")
            for told, settings in (
                ("supernet", {"strategy.name": "supernet"}),
                ("bilevel, first order", {"strategy.name": "bilevel"}),
                ("bilevel, second order", {"strategy.name": "bilevel", "strategy.order": 2}),
            )
        },
    ),
}


@dataclass(frozen=True)
class Plan:
    """What all runs share."""

    device: str
    data: str
    ends: float  # time by which all is over, in seconds of the clock
    settings: tuple[tuple[str, Any], ...] = ()


def settings_of(job: Job, plan: Plan) -> Settings:
    """All that is set in a run."""
    name, arm, _ = job
    _, common, arms = SETS[name]
    more = {"compare.baselines": (), "run.device": plan.device, "run.checkpoint_seconds": 1e6}
    return {**common, **arms[arm], **more, **dict(plan.settings)}


def trainings(settings: Settings) -> int:
    """The search, and the second training of what it found."""
    searched = settings["space.name"] == "chrysalis" and settings.get("strategy.name") != "train"
    return 2 if searched or settings.get("final.networks") else 1


def figures(job: Job, plan: Plan) -> Row | None:
    """One run; None if there is no time for it."""
    name, arm, seed = job
    os.environ["ECLOSE_DATA"] = plan.data
    settings = settings_of(job, plan)
    count = trainings(settings)
    left = (plan.ends - time.time() - START) / count
    if left < LEAST / count:
        return None
    begun = time.perf_counter()
    task, space = settings.pop("task.name"), settings.pop("space.name")
    with tempfile.TemporaryDirectory() as folder:
        found = eclose.search(
            task=task,
            space=space,
            seed=seed,
            settings={**settings, "budget.training_seconds": left},
            out=Path(folder) / "run",
            progress=False,
        )
        size = sum(parameter.numel() for parameter in found.model.parameters())  # frozen ones, too
    told = {key: found.metrics.get(key) for key in ("test", "valid", "supernet", "offline", "epochs", "note")}
    seconds = time.perf_counter() - begun
    return {"set": name, "arm": arm, "seed": seed, **told, "parameters": size, "seconds": seconds}


def run(jobs: Sequence[Job], plan: Plan, side: int, rows: Path) -> None:
    """Those that the file has not yet, each a line of it as it ends."""
    known = {(row["set"], row["arm"], row["seed"]) for row in read_rows([rows])}
    missing = [job for job in jobs if job not in known]
    make_rows(missing, partial(figures, plan=plan), _told, side=side, rows=rows, facts=_facts(plan.device))


def _facts(device: str) -> list[str]:
    return facts_of("benchmarks.chrysalis_quality", device)


def _told(row: Row) -> str:
    both = f" (supernet {row['supernet']:.4f}, offline {row['offline']:.4f})" if row["offline"] is not None else ""
    place = f"{row['set']}, {row['arm']}, seed {row['seed']}"
    return f"{place}: {row['test']:.4f}{both}, {row['epochs']} epochs, {row['seconds']:.0f} s"


def table(rows: Sequence[Row]) -> list[str]:
    """One table a set. A fixed operation has its figure where weights of a frozen one have theirs."""
    lines: list[str] = []
    for name, (title, common, arms) in SETS.items():
        found = {arm: [row for row in rows if (row["set"], row["arm"]) == (name, arm)] for arm in arms}
        if not any(found.values()):
            continue
        lines += ["", f"## {title}", "", f"Batch {common['train.batch']}.", ""]
        lines += ["| operation | supernet | offline | each (supernet / offline) | parameters | epochs | s |"]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [_line(arm, each) for arm, each in found.items() if each]
    return lines


def _line(arm: str, rows: Sequence[Row]) -> str:
    rows = sorted(rows, key=lambda row: row["seed"])
    supernet = [row["supernet"] for row in rows]
    offline = [row["test"] if row["offline"] is None else row["offline"] for row in rows]
    each = [
        f"{other:.4f}" if one is None else f"{one:.4f} / {other:.4f}"
        for one, other in zip(supernet, offline, strict=True)
    ]
    epochs, seconds = (", ".join(f"{row[key]:.0f}" for row in rows) for key in ("epochs", "seconds"))
    cells = [spread(supernet), spread(offline), ", ".join(each), f"{rows[0]['parameters']:,}", epochs, seconds]
    return f"| {arm} | {' | '.join(cells)} |"


def check(device: torch.device) -> str:
    """The networks are there; runs that fail are not reported."""
    missing = {common["backbone.name"] for _, common, _ in SETS.values()} - set(backbones)
    assert not missing, f"no backbones {missing}"
    return "exactness is the tests' business; a run that fails is not reported"


def measure(device: torch.device) -> list[str]:
    """Every arm with three seeds within nine minutes."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(_parser().parse_args(["--device", device.type, "--rows", f"{folder}/rows.jsonl"]))


def _run(options: argparse.Namespace) -> list[str]:
    begun = time.time()
    os.environ["ECLOSE_DATA"] = str(options.data)
    given = eclose.config.parse_overrides(options.set)
    plan = Plan(options.device, str(options.data), begun + 60 * options.minutes, tuple(given.items()))
    if "rotated-sphere" in options.sets:  # projected once, for all processes
        section = Config().with_values({key: value for key, value in SPHERE.items() if key.startswith("task.")}).task
        load_task(section, lambda done, total: None)
    jobs = [(name, arm, seed) for seed in options.seeds for name in options.sets for arm in SETS[name][2]]
    run(jobs, plan, options.side, options.rows)
    told = f"Accuracy on the test set, mean ± standard deviation of {len(options.seeds)} seeds; "
    return [
        f"{told}{options.side} runs side by side, {time.time() - begun:.0f} s in all.",
        *table(read_rows([options.rows])),
    ]


def _parser() -> argparse.ArgumentParser:
    rows = RESULTS / "chrysalis-quality.jsonl"
    parser = row_options("benchmarks.chrysalis_quality", __doc__, minutes=9.0, side=8, rows=rows)
    parser.add_argument("--sets", type=words, default=list(SETS), help=", ".join(SETS))
    return parser


def main() -> None:
    """From the command line."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.sets) - set(SETS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    facts = _facts(options.device)
    text = "\n".join([f"# {ENTRY.title}", "", *facts, "", *_run(options), ""])
    options.rows.with_suffix(".md").write_text(text)
    print(text)


ENTRY = Entry(
    "chrysalis-quality", "K-operations beside fixed operations, and strategies in other spaces", check, measure
)

if __name__ == "__main__":
    main()
