"""Data in, network out: the portfolio and every space alone beside two networks written by hand, on sets of all kinds.

``python -m benchmarks.portfolio --help`` has the options. Each training or search is a process of its own, several of
them side by side on one device; each writes its figure into a file under ``--out`` and is not made again.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import eclose
from benchmarks.portfolio.handwritten import NETWORKS, train_handwritten
from benchmarks.portfolio.sets import load_sets
from benchmarks.runner import RESULTS, Entry, machine

DATA = Path(os.environ.get("ECLOSE_DATA", "../shared/data"))
BY_HAND = tuple(f"{name} by hand" for name in NETWORKS)
SPACES = {"portfolio": "", "xd alone": "xd", "einspace alone": "einspace", "no search": "backbone"}
SECONDS = 18.0  # of a network written by hand


@dataclass(frozen=True)
class Plan:
    """What all have in common."""

    data: str
    out: str
    device: str
    minutes: float


def figure(job: tuple[str, str, int], plan: Plan) -> dict[str, Any]:
    """Test accuracy of one way on one set with one seed, with what was found."""
    way, name, seed = job
    begun = time.perf_counter()
    arrays = load_sets(Path(plan.data))[name]()
    told: dict[str, Any] = {"way": way, "set": name, "seed": seed}
    if way in BY_HAND:
        told["test"] = train_handwritten(way.removesuffix(" by hand"), arrays, SECONDS, seed, plan.device)
    else:
        with tempfile.TemporaryDirectory() as folder:
            result = eclose.search(
                data=arrays,
                space=SPACES[way],
                minutes=plan.minutes,
                seed=seed,
                device=plan.device,
                out=Path(folder) / "run",
                progress=False,
            ).metrics
        rows = [{key: row.get(key) for key in ("name", "valid", "test", "epochs")} for row in result["baselines"]]
        told |= {"test": result["test"], "found": result["name"], "valid": result["valid"], "rows": rows}
        told |= {"search": result.get("search"), "note": result["note"], "epochs": result["epochs"]}
    told["seconds"] = time.perf_counter() - begun
    _file(plan.out, job).write_text(json.dumps(told))
    print(f"{name}, {way}, seed {seed}: {told['test']:.4f} {told.get('found', '')} {told['seconds']:.0f} s", flush=True)
    return told


def run(jobs: Sequence[tuple[str, str, int]], plan: Plan, side: int, ends: float) -> None:
    """Those that are not there yet; what fails is told and left out."""
    missing = [job for job in jobs if not _file(plan.out, job).exists()]
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // side))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(side, mp_context=context, max_tasks_per_child=1) as pool:
        for job, future in [(job, pool.submit(_in_time, job, plan, ends)) for job in missing]:
            try:
                future.result()
            except Exception as error:  # the others go on
                print(f"{job} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


def _in_time(job: tuple[str, str, int], plan: Plan, ends: float) -> dict[str, Any] | None:
    return figure(job, plan) if time.time() < ends else None


def table(out: Path, sets: Sequence[str], ways: Sequence[str]) -> list[str]:
    """Mean over the seeds of every way on every set, mean accuracy, mean rank."""
    found = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    values = {
        (name, way): [one["test"] for one in found if (one["set"], one["way"]) == (name, way)]
        for name in sets
        for way in ways
    }
    whole = [name for name in sets if all(values[name, way] for way in ways)]
    ranks: dict[str, list[int]] = {way: [] for way in ways}
    lines = [f"| set | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for name in sets:
        means = {way: statistics.mean(values[name, way]) for way in ways if values[name, way]}
        lines.append(f"| {name} | {' | '.join(_cell(values[name, way]) for way in ways)} |")
        for way in ways if name in whole else ():
            ranks[way].append(1 + sum(round(other, 4) > round(means[way], 4) for other in means.values()))
    if whole:
        overall = [statistics.mean(statistics.mean(values[name, way]) for name in whole) for way in ways]
        lines.append(f"| **mean of {len(whole)}** | {' | '.join(f'**{value:.4f}**' for value in overall)} |")
        lines.append(f"| mean rank | {' | '.join(f'{statistics.mean(ranks[way]):.2f}' for way in ways)} |")
    return lines


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def _file(out: str, job: tuple[str, str, int]) -> Path:
    return Path(out) / f"{'-'.join(map(str, job)).replace(' ', '_')}.json"


def _run(options: argparse.Namespace) -> list[str]:
    begun = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(str(options.data), str(options.out), options.device, options.minutes)
    sets = [name for name in load_sets(options.data) if not options.sets or name in options.sets]
    jobs = [(way, name, seed) for seed in options.seeds for name in sets for way in options.ways]
    jobs.sort(key=lambda job: (job[2], job[0] in BY_HAND))  # long ones first
    run(jobs, plan, options.side, begun + 60 * options.limit)
    told = (
        f"Test accuracy. Searches of {options.minutes:g} min each, networks by hand {SECONDS:g} s each on all labelled "
        f"samples; seeds {', '.join(map(str, options.seeds))}; {options.side} processes side by side, "
        f"{time.time() - begun:.0f} s in all. The same settings for every set: the defaults."
    )
    return [told, "", *table(options.out, sets, options.ways)]


def _parser() -> argparse.ArgumentParser:
    def texts(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    ways = (*BY_HAND, *SPACES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portfolio", description=__doc__)
    parser.add_argument("--sets", type=texts, default=[], help="by name; default: all whose files are there")
    parser.add_argument("--ways", type=texts, default=list(ways), help=", ".join(ways))
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=1.0, help="of each search")
    parser.add_argument("--limit", type=float, default=60.0, help="minutes after which nothing new begins")
    parser.add_argument("--side", type=int, default=6, help="processes at a time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=RESULTS / "portfolio", help="the folder of the figures")
    return parser


def check(device: torch.device) -> str:
    """A portfolio on digits ends with a network that answers."""
    with tempfile.TemporaryDirectory() as folder:
        result = eclose.search(task="digits", minutes=0.1, device=device.type, out=Path(folder) / "run", progress=False)
    return "" if result.metrics["test"] is not None else "the portfolio found nothing"


def measure(device: torch.device) -> list[str]:
    """Everything, in about an hour of a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(_parser().parse_args(["--device", device.type, "--out", folder]))


def main() -> None:
    """From the command line."""
    options = _parser().parse_args()
    facts = [line.replace("benchmarks", "benchmarks.portfolio", 1) for line in machine(torch.device(options.device))]
    text = "\n".join(["# Data in, network out", "", *facts, "", *_run(options), ""])
    (options.out / "table.md").write_text(text)
    print(text)


ENTRY = Entry("portfolio", "Data in, network out: the portfolio beside networks written by hand", check, measure)
