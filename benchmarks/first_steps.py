"""What a GPU takes before it is quick: first steps of plain networks, with cuDNN's algorithms tried out or foretold.

Each measurement is a process of its own, as cuDNN remembers what it has tried.
"""

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

import torch

from benchmarks.plain_networks import CASES, Case, Ours, task_of
from benchmarks.runner import Entry
from eclose.train.device import passing_shapes

FIRST, ROUNDS = 10, 20  # steps, and how often they are made again
MORE = (
    Case("inception", (24, 24), 1, 128, {}, {"width": 4}),
    Case("tcn", (96,), 1, 128, {}, {"width": 4}),
)


def first_steps(case: Case, tried: bool, name: str) -> tuple[float, float]:
    """Seconds of the first steps, and milliseconds of a later one (a validation of two samples every ten steps)."""
    device = torch.device(name)
    case = case.on(device)
    conv = torch.nn.Conv1d(1, 1, 3, device=device)
    conv(torch.zeros(1, 1, 8, device=device)).sum().backward()  # the libraries are loaded
    ours = Ours(case, task_of(case, FIRST), device, 1)
    with contextlib.nullcontext() if tried else _foretold():
        begun = _now(device)
        ours()
        first = _now(device) - begun
        rounds = ROUNDS if device.type == "cuda" else 1
        begun = _now(device)
        for _ in range(rounds):
            ours()
        return first, 1000 * (_now(device) - begun) / (FIRST * rounds)


@contextlib.contextmanager
def _foretold() -> Iterator[None]:
    """Trainings leave cuDNN's choice to its own rules."""
    ours = Ours._settings

    @contextlib.contextmanager
    def settings(own: Ours) -> Iterator[None]:
        with ours(own), passing_shapes():
            yield

    with mock.patch.object(Ours, "_settings", settings):
        yield


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def check(device: torch.device) -> str:
    """Both ways run."""
    for tried in (False, True):
        seconds, later = first_steps(CASES[0], tried, device.type)
        assert seconds > 0
        assert later > 0
    return "both ways train"


def measure(device: torch.device) -> list[str]:
    """A line a network."""
    lines = [
        f"Seconds of the first {FIRST} steps, milliseconds of a later one; every training has a process of its own.",
        "",
        "| network | first, tried | first, foretold | later, tried | later, foretold |",
        "|---|---|---|---|---|",
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for case in (*CASES, *MORE):
            both = [pool.submit(first_steps, case, tried, device.type).result() for tried in (True, False)]
            first, later = zip(*both, strict=True)
            figures = [*(f"{value:.2f}" for value in first), *(f"{value:.2f}" for value in later)]
            lines.append(f"| {case.title} | {' | '.join(figures)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


ENTRY = Entry("first-steps", "What a GPU takes before it is quick", check, measure)
