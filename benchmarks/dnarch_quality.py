"""DNArch: what learning more kinds of sizes brings at the same cost, on CIFAR-10 and Darcy flow, three seeds.

``python -m benchmarks.dnarch_quality --help`` has the options. All variants have the settings of a quick recipe and the
same target. Where nothing that costs is learned, a narrower or wider network has that cost. Every training is a process
of its own, several of them side by side. Each ends as a line of ``--rows`` and is not made again: the same command goes
on where it stopped. The dated table is made of all rows that are there.
"""

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.rows import Row, facts_of, make_rows, read_rows, row_options, words
from benchmarks.runner import RESULTS, Entry
from eclose.recipes import read_recipe, recipe_names
from eclose.spaces.dnarch.complexity import COUNTS, BlockSizes, complexity
from eclose.tasks import complete_task, load_task

SETS = {"CIFAR-10": "dnarch-cifar10-quick", "Darcy": "dnarch-darcy-quick"}
VARIANTS = {"global kernels": "", "K": "K", "K+R": "KR", "K+R+W+D": "KRWD"}  # and what is learned
NEAR = 0.05  # of the target

Job = tuple[str, str, int]  # set, variant, seed


@dataclass(frozen=True)
class Plan:
    """What all trainings have in common."""

    target: float
    epochs: int  # 0: as the recipe has it
    width: int  # likewise; of the network that the target is measured by
    device: str
    data: str
    ends: float  # the time by which all have ended
    settings: tuple[tuple[str, Any], ...] = ()


def train(job: Job, plan: Plan) -> Row | None:
    """One training; None if there is no time left to begin it."""
    name, variant, seed = job
    left = plan.ends - time.time()
    if left < 30:
        return None
    learn, settings, points = VARIANTS[variant], _recipe(SETS[name]), _points(name, plan)
    base, blocks = (settings["backbone.options"][key] for key in ("width", "blocks"))
    base = plan.width or base
    free = set(learn) & set("RWD")  # what can change the cost
    width = base if free else _width(plan.target, points, base, blocks)
    settings |= {"backbone.options": {**settings["backbone.options"], "width": width}}
    if learn:
        settings["space.options"] |= {"learn": learn, "target": plan.target if free else 1.0}
    else:
        settings = {key: v for key, v in settings.items() if not key.startswith(("space.", "strategy."))}
    if plan.epochs:
        settings |= {"train.epochs": plan.epochs, "schedule.warmup_epochs": plan.epochs / 10}
    settings |= {"budget.training_seconds": left, "run.checkpoint_seconds": 1e6, **dict(plan.settings)}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = eclose.search(
            space="" if learn else "backbone",
            baselines=(),
            settings=settings,
            seed=seed,
            device=plan.device,
            data_dir=plan.data,
            out=Path(folder) / "run",
            progress=False,
        )
        found = result.genotype.choices.get("complexity", 1.0)  # in units of the network it began with
    relative = found * _cost(width, points, blocks) / _cost(base, points, blocks)
    told = {key: result.metrics[key] for key in ("test", "valid", "parameters", "epochs", "metric")}
    row = {"set": name, "variant": variant, "seed": seed, "target": plan.target, "complexity": relative, "width": width}
    return {**row, **told, "seconds": time.perf_counter() - begun}


def _recipe(name: str) -> dict[str, Any]:
    sections = read_recipe(name)
    sections.pop("compare")
    return {f"{section}.{key}": value for section, values in sections.items() for key, value in values.items()}


def _points(name: str, plan: Plan) -> int:
    """Of an input; what has to be generated is there afterwards, for all processes."""
    given = {**dict(plan.settings), "task.data_dir": plan.data}
    config = eclose.config.from_dict(read_recipe(SETS[name])).with_values(given)
    return math.prod(load_task(complete_task(config.task), lambda done, total: None).signature.sizes)


def _cost(width: int, points: int, blocks: int) -> float:
    """What a network without masks costs, by the count of the paper."""
    sizes = torch.full((blocks,), float(points)), torch.full((blocks, 3), float(width)), torch.tensor(float(blocks))
    return float(complexity(BlockSizes(*sizes), COUNTS["operations"], 0))


def _width(target: float, points: int, base: int, blocks: int) -> int:
    goal = target * _cost(base, points, blocks)
    return min(range(1, 4 * base), key=lambda width: abs(_cost(width, points, blocks) - goal))


def run(jobs: Sequence[Job], plan: Plan, side: int, rows: Path) -> None:
    """Those that the file has not yet, each a line of it as it ends."""
    known = {(row["set"], row["variant"], row["seed"]) for row in read_rows([rows]) if row["target"] == plan.target}
    missing = [job for job in jobs if job not in known]
    facts = facts_of("benchmarks.dnarch_quality", plan.device)
    make_rows(missing, partial(train, plan=plan), _told, side=side, rows=rows, facts=facts)


def _told(row: Row) -> str:
    figures = f"test {row['test']:.4f}, complexity {row['complexity']:.3f}, {row['epochs']} epochs"
    return f"{row['set']}, {row['variant']}, seed {row['seed']}: {figures}, {row['seconds']:.0f} s"


def table(rows: Sequence[Row], name: str) -> list[str]:
    """One line a variant, and whether the goals are met."""
    metric = rows[0]["metric"]
    head = ("learned", f"test {metric['name']}", "each seed", "complexity / target", "parameters", "epochs", "seconds")
    lines = [f"## {name}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for variant in VARIANTS:
        some = sorted((row for row in rows if row["variant"] == variant), key=lambda row: row["seed"])
        if not some:
            continue
        tests = [row["test"] for row in some]
        spread = f" ± {statistics.stdev(tests):.4f}" if len(tests) > 1 else ""
        cells = [
            f"{statistics.mean(tests):.4f}{spread}",
            ", ".join(f"{test:.4f}" for test in tests),
            ", ".join(f"{row['complexity'] / row['target']:.3f}" for row in some),
            f"{statistics.mean(row['parameters'] for row in some):,.0f}",
            ", ".join(str(row["epochs"]) for row in some),
            f"{statistics.mean(row['seconds'] for row in some):.0f}",
        ]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return [*lines, "", *_verdict(rows, metric["goal"])]


def _verdict(rows: Sequence[Row], goal: str) -> list[str]:
    far = max(rows, key=lambda row: abs(row["complexity"] / row["target"] - 1))
    off = abs(far["complexity"] / far["target"] - 1)
    words = "within" if off <= NEAR else "NOT within"
    lines = [f"- costs are {words} {NEAR:.0%} of the target: {far['variant']}, seed {far['seed']}, is {off:.1%} off"]
    tests = {(row["variant"], row["seed"]): row["test"] for row in rows}
    pairs = [
        (tests["K+R+W+D", seed], test)
        for (variant, seed), test in tests.items()
        if variant == "global kernels" and ("K+R+W+D", seed) in tests
    ]
    if pairs:
        ahead = statistics.mean(ours - theirs for ours, theirs in pairs) * (1 if goal == "max" else -1)
        words = "at least as good as" if ahead >= 0 else "WORSE than"
        lines.append(f"- K+R+W+D is {words} global kernels: {ahead:+.4f} in its favour, mean of {len(pairs)} seeds")
    return lines


def check(device: torch.device) -> str:
    """The recipes are there; runs that fail are not reported."""
    missing = set(SETS.values()) - set(recipe_names())
    assert not missing, f"no recipes {missing}"
    return "exactness is the tests' business; a training that fails is not reported"


def measure(device: torch.device) -> list[str]:
    """Every variant with three seeds within nine minutes."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(_parser().parse_args(["--device", device.type, "--rows", f"{folder}/rows.jsonl"]))


def _run(options: argparse.Namespace) -> list[str]:
    ends = time.time() + 60 * options.minutes
    settings = tuple(eclose.config.parse_overrides(options.set).items())
    plan = Plan(options.target, options.epochs, options.width, options.device, str(options.data), ends, settings)
    if "Darcy" in options.sets:
        _points("Darcy", plan)
    jobs = [(name, variant, seed) for seed in options.seeds for name in options.sets for variant in options.variants]
    run(jobs, plan, options.side, options.rows)
    rows = [row for row in read_rows([options.rows]) if row["target"] == options.target]
    told = f"Target {options.target:g} times the cost of the recipe's network; {options.side} trainings at a time."
    if options.target >= 1:
        told += " K+R begins at this cost with all resolutions, which therefore hardly move."
    lines = [told]
    for name in SETS:
        if some := [row for row in rows if row["set"] == name]:
            lines += ["", *table(some, name)]
    return lines


def _parser() -> argparse.ArgumentParser:
    rows = Path("dnarch-quality.jsonl")
    parser = row_options("benchmarks.dnarch_quality", __doc__, minutes=9.0, side=6, rows=rows)
    parser.add_argument("--sets", type=words, default=list(SETS), help=", ".join(SETS))
    parser.add_argument("--variants", type=words, default=list(VARIANTS), help=", ".join(VARIANTS))
    parser.add_argument("--target", type=float, default=1.0, help="times the cost of the recipe's network")
    parser.add_argument("--epochs", type=int, default=0, help="default: those of the recipes")
    parser.add_argument("--width", type=int, default=0, help="default: that of the recipes")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the folder of the table")
    return parser


def main() -> None:
    """From the command line."""
    parser = _parser()
    options = parser.parse_args()
    for given, known in ((options.sets, SETS), (options.variants, VARIANTS)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    lines = _run(options)
    rows = read_rows([options.rows])
    facts = dict.fromkeys(fact for row in rows if row["target"] == options.target for fact in row["machine"])
    at = "" if options.target == 1 else f"-{options.target:g}"
    device = torch.device(options.device).type
    path = options.to / f"{date.today().isoformat()}-dnarch-quality{at}-{device}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([f"# {ENTRY.title}", "", *facts, "", *lines, ""]))
    print(path.read_text())


ENTRY = Entry("dnarch-quality", "DNArch: what learning sizes brings at the same cost", check, measure)

if __name__ == "__main__":
    main()
