"""Data in, network out: the portfolio and every space alone beside networks written by hand, on sets of all kinds.

Each training or search is a process of its own, several of them side by side on one device. Each ends as a line of the
file ``--rows`` and is not made again, so that a comparison may be made in pieces: the same command goes on where it
stopped, ``--sets`` and ``--seeds`` choose a part. ``--summarise`` makes the dated table of one or more such files.
"""

import argparse
import os
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
from benchmarks.portfolio.handwritten import CLASSIFYING, DENSE, train_handwritten
from benchmarks.portfolio.sets import PHYSICS, load_sets
from benchmarks.portfolio.table import BY_HAND, summary
from benchmarks.rows import Row, facts_of, make_rows, read_rows
from benchmarks.runner import RESULTS
from eclose.errors import EcloseError
from eclose.spaces import spaces

DATA = Path(os.environ.get("ECLOSE_DATA", "../shared/data"))
NETWORKS = (*CLASSIFYING, *DENSE)
SPACES = ("portfolio", *sorted(name for name in spaces if name != "portfolio"))
START = 30.0  # seconds that a process takes before and after its training
OVER = 1.15  # times its minutes: what a search may take

Job = tuple[str, str, int]  # a space or a network by hand, a set, a seed


@dataclass(frozen=True)
class Plan:
    """What all have in common."""

    data: str
    device: str
    minutes: float
    seconds: float  # of a network by hand
    ends: float  # the time at which all have ended
    files: tuple[Path, ...] = ()  # further sets
    called: str = "portfolio"

    def name_of(self, way: str) -> str:
        """In the table."""
        return self.called if way == "portfolio" else way

    def takes(self, way: str) -> float:
        """Seconds at most."""
        return START + (self.seconds if way.endswith(BY_HAND) else OVER * 60 * self.minutes)


def figure(job: Job, plan: Plan) -> Row | None:
    """The test figure of one way on one set with one seed; None if there is no time for it."""
    way, name, seed = job
    if time.time() + plan.takes(way) > plan.ends:
        return None
    begun = time.perf_counter()
    arrays = load_sets(Path(plan.data), plan.files)[name]()
    row: Row = {"way": plan.name_of(way), "set": name, "seed": seed, "goal": "min" if name in PHYSICS else "max"}
    try:
        row |= _by_hand(way, arrays, seed, plan) if way.endswith(BY_HAND) else _searched(way, arrays, seed, plan)
    except EcloseError as error:  # a space that is not for such data
        row["refused"] = str(error)
    row["seconds"] = time.perf_counter() - begun
    return {**row, "minutes": plan.minutes, "hand_seconds": plan.seconds}


def _by_hand(way: str, arrays: dict[str, Any], seed: int, plan: Plan) -> Row:
    return {"test": train_handwritten(way.removesuffix(BY_HAND), arrays, plan.seconds, seed, plan.device)}


def _searched(space: str, arrays: dict[str, Any], seed: int, plan: Plan) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        found = eclose.search(
            data=arrays,
            space=space,
            minutes=plan.minutes,
            seed=seed,
            device=plan.device,
            out=Path(folder) / "run",
            progress=False,
        ).metrics
    rows = [{key: row.get(key) for key in ("name", "valid", "test", "epochs")} for row in found["baselines"]]
    told = {key: found.get(key) for key in ("test", "valid", "epochs", "note", "search")}
    return {**told, "found": found["name"], "beside": rows}


def run(jobs: Sequence[Job], plan: Plan, side: int, rows: Path) -> None:
    """Those that the file has not yet, each a line of it as it ends."""
    known = {(row["way"], row["set"], row["seed"]) for row in read_rows([rows])}
    facts = facts_of("benchmarks.portfolio", plan.device)
    missing = [(way, *of) for way, *of in jobs if (plan.name_of(way), *of) not in known]
    make_rows(missing, partial(figure, plan=plan), _told, side=side, rows=rows, facts=facts)


def _told(row: Row) -> str:
    told = f"refused: {row['refused']}" if "refused" in row else f"{row['test']:.4f} {row.get('found', '')}"
    return f"{row['set']}, {row['way']}, seed {row['seed']}: {told}, {row['seconds']:.0f} s"


def jobs_of(sets: Sequence[str], seeds: Sequence[int], spaces: Sequence[str], networks: Sequence[str]) -> list[Job]:
    """The portfolio and the networks by hand first, seed by seed, then the other spaces."""
    ways = [*spaces, *(network + BY_HAND for network in networks)]
    jobs = [(way, name, seed) for seed in seeds for name in sets for way in ways if _suits(way, name)]
    return sorted(jobs, key=lambda job: (job[0] != "portfolio" and not job[0].endswith(BY_HAND), job[2]))


def _suits(way: str, name: str) -> bool:
    """A network by hand is for labels or for fields."""
    return not way.endswith(BY_HAND) or way.removesuffix(BY_HAND) in (DENSE if name in PHYSICS else CLASSIFYING)


def _parser() -> argparse.ArgumentParser:
    def texts(text: str) -> list[str]:
        return [word.strip() for word in text.split(",") if word.strip()]

    parser = argparse.ArgumentParser(prog="python -m benchmarks.portfolio", description=__doc__)
    parser.add_argument(
        "--sets", type=texts, default=[], help="by name; default: --files, else all whose files are there"
    )
    parser.add_argument("--files", type=Path, nargs="+", default=[], metavar="NPZ", help="further sets with labels")
    parser.add_argument("--spaces", type=texts, default=list(SPACES), help=f"default: {','.join(SPACES)}")
    parser.add_argument("--called", default="portfolio", help="the portfolio in the table: 'portfolio before', say")
    parser.add_argument("--networks", type=texts, default=list(NETWORKS), help=f"by hand: {','.join(NETWORKS)}")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in texts(text)], default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=1.0, help="of each search")
    parser.add_argument("--seconds", type=float, default=18.0, help="of each network by hand")
    parser.add_argument("--limit", type=float, default=9.0, help="minutes: what cannot end by then is not begun")
    parser.add_argument("--side", type=int, default=6, help="processes at a time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the sets")
    parser.add_argument("--rows", type=Path, default=Path("portfolio.jsonl"), help="the file of the figures")
    parser.add_argument("--summarise", type=Path, nargs="+", metavar="ROWS", help="make the table of these files")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the folder of the table")
    return parser


def main() -> None:
    """From the command line."""
    parser = _parser()
    options = parser.parse_args()
    if options.summarise:
        rows = read_rows(options.summarise)
        if not rows:
            parser.error(f"no rows in {', '.join(map(str, options.summarise))}")
        device = "cuda" if "CUDA" in str(rows[-1]["machine"]) else "cpu"
        path = options.to / f"{date.today().isoformat()}-portfolio-{device}.md"
        path.write_text(summary(rows))
        print(path.read_text())
        return
    begun, known = time.time(), load_sets(options.data, options.files)
    for given, allowed in ((options.sets, known), (options.spaces, SPACES), (options.networks, NETWORKS)):
        if unknown := set(given) - set(allowed):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(allowed)}")
    sets = options.sets or [file.stem for file in options.files] or list(known)
    for name in PHYSICS:
        if name in sets:
            known[name]()  # generated once, for all processes
    ends = begun + 60 * options.limit
    own = (tuple(options.files), options.called)
    plan = Plan(str(options.data), options.device, options.minutes, options.seconds, ends, *own)
    run(jobs_of(sets, options.seeds, options.spaces, options.networks), plan, options.side, options.rows)
