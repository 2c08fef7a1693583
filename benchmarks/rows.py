"""Figures made in pieces: jobs side by side in processes of their own, each of which ends as a line of a file."""

import argparse
import json
import multiprocessing
import os
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks.runner import machine

Row = dict[str, Any]
Job = tuple[Any, ...]


def row_options(module: str, about: str | None, *, minutes: float, side: int, rows: Path) -> argparse.ArgumentParser:
    """A parser of ``python -m module`` with the options that all such experiments have."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--seeds", type=lambda text: list(map(int, words(text))), default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=minutes, help="whatever runs then is cut short and tested")
    parser.add_argument("--side", type=int, default=side, help="runs at a time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    data = Path(os.environ.get("ECLOSE_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=data, help="the data folder")
    parser.add_argument("--rows", type=Path, default=rows, help="the file of the figures")
    parser.add_argument("--set", action="append", default=[], help="section.key=value, for all runs")
    return parser


def words(text: str, between: str = ",") -> list[str]:
    """The parts of an option's value."""
    return [word.strip() for word in text.split(between) if word.strip()]


def make_rows(
    jobs: Sequence[Job],
    figures: Callable[[Job], Row | None],
    told: Callable[[Row], str],
    *,
    side: int,
    rows: Path,
    facts: list[str],
) -> None:
    """The row of every job, or None if it has no time left; what fails is told and left out, the others go on.

    ``figures`` runs in another process, ``side`` of them at a time. ``facts`` become part of every row.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // side)))
    rows.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    left = 0
    with ProcessPoolExecutor(side, mp_context=context, max_tasks_per_child=1) as pool:
        under_way = {pool.submit(figures, job): job for job in jobs}
        for future in as_completed(under_way):
            try:
                row = future.result()
            except Exception as error:
                print(f"{under_way[future]} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            left += row is None
            if row is not None:
                _append({**row, "machine": facts}, rows)
                print(told(row), flush=True)
    print(f"{left} left for another call" if left else "all there", flush=True)


def _append(row: Row, rows: Path) -> None:
    cut = rows.exists() and not rows.read_text().endswith("\n")  # by a sudden end
    with rows.open("a") as file:
        file.write("\n" * cut + json.dumps(row) + "\n")


def read_rows(files: Sequence[Path]) -> list[Row]:
    """The rows of some files; a line that a sudden end has cut off counts as not there."""
    rows = []
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            print(f"left out, since it is no whole row: {line:.60}", file=sys.stderr)
    return rows


def spread(values: Sequence[float | None]) -> str:
    """Mean and standard deviation of those that are known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    return f"{statistics.mean(known):.4f}" + (f" ± {statistics.stdev(known):.4f}" if known[1:] else "")


def facts_of(module: str, device: str) -> list[str]:
    """Hardware, versions and the command ``python -m module`` without the user's own paths."""
    facts = [line.replace("benchmarks", module, 1) for line in machine(torch.device(device))]
    facts = [re.sub(r" --(data|rows|to) [^ `]+", "", fact) for fact in facts]
    return [re.sub(r"(?<= )[^ `]*/([^ /`]+\.npz)", r"\1", fact) for fact in facts]
