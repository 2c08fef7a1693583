"""How long waiting threads of OpenMP should stay awake: a small training, alone and in company."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.runner import Entry
from eclose.waiting import SETTINGS, SPINS

ROUNDS = 3
SETTLED = 6.0  # seconds after which another training has begun
CALM = 0.6  # processes that may want a core before the measurement, this one among them
POLICIES = {
    "300000 turns, the library's own": {"GOMP_SPINCOUNT": "300000"},
    f"{SPINS} turns, eclose's": {},
    "10000 turns": {"GOMP_SPINCOUNT": "10000"},
    "none (OMP_WAIT_POLICY=PASSIVE)": {"OMP_WAIT_POLICY": "PASSIVE"},
}
SETTING = {
    "task.points": 64,
    "task.train": 400,
    "task.val": 20,
    "task.test": 20,
    "train.batch": 20,
    "backbone.width": 16,
}
COMPANY = ("alone", "beside a busy process", "beside another training")


def train(policy: dict[str, str], epochs: int) -> dict[str, Any]:
    """The result of a run of the command line under a policy; threads as many as there are cores."""
    with tempfile.TemporaryDirectory() as folder:
        command, environment = _search(policy, epochs, folder)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _search(policy: dict[str, str], epochs: int, folder: str) -> tuple[list[str], dict[str, str]]:
    """The command and its environment."""
    ours = (*SETTINGS, "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in ours} | policy
    pairs = [part for name, value in SETTING.items() for part in ("--set", f"{name}={value}")]
    what = ["search", "--task", "burgers", "--backbone", "cnn", "--space", "xd", "--epochs", str(epochs), *pairs]
    return [sys.executable, "-m", "eclose", *what, "--device", "cpu", "--json", "--out", f"{folder}/run"], environment


def check(device: torch.device) -> str:
    """Every policy gives the same numbers; the machine is calm, or nothing is measured."""
    load = os.getloadavg()[0]
    if load > CALM:
        raise SystemExit(f"the machine is busy ({load:.2f} processes want a core): come back when it is calm")
    values = {train(policy, 1)["test"] for policy in POLICIES.values()}
    assert len(values) == 1, f"the policies disagree: {values}"
    return f"all policies give the same numbers, bit for bit; load before the measurement {load:.2f}"


@contextmanager
def _company(kind: str, policy: dict[str, str]) -> Iterator[None]:
    """What else wants the cores: nothing, a loop on one of them, or a longer training of the same kind on all."""
    with tempfile.TemporaryDirectory() as folder:
        command, environment = _search(policy, 1000, folder)
        loop = [sys.executable, "-c", "while True: pass"]
        other = {COMPANY[1]: (loop, environment), COMPANY[2]: (command, environment)}.get(kind)
        process = other and subprocess.Popen(other[0], env=other[1], stderr=subprocess.DEVNULL)
        try:
            if kind == COMPANY[2]:
                time.sleep(SETTLED)
            yield
        finally:
            if process:
                process.kill()
                process.wait()


def measure(device: torch.device) -> list[str]:
    """Seconds of the training in every round, all policies in turn."""
    lines = [
        f"`eclose search --task burgers --backbone cnn --space xd --epochs 3`, 64 points, 400 functions, "
        f"batch 20, width 16; seconds of the training itself, median and range of {ROUNDS} rounds, policies in turn. "
        "A busy process is a loop that never waits; another training is one of the same kind and policy, with as many "
        "threads. In brackets: against the library's own policy in the same company.",
        "",
        f"| awake for | {' | '.join(COMPANY)} |",
        "|---" * (1 + len(COMPANY)) + "|",
    ]
    cells: dict[str, list[str]] = {name: [] for name in POLICIES}
    for kind in COMPANY:
        seconds: dict[str, list[float]] = {name: [] for name in POLICIES}
        for turn in range(ROUNDS):
            for name in list(POLICIES)[:: 1 if turn % 2 else -1]:
                with _company(kind, POLICIES[name]):
                    seconds[name].append(train(POLICIES[name], 3)["seconds"])
        first = statistics.median(next(iter(seconds.values())))
        for name, values in seconds.items():
            middle = statistics.median(values)
            cells[name].append(f"{middle:.2f} ({min(values):.2f} to {max(values):.2f}) [{middle / first:.2f}]")
    return [*lines, *(f"| {name} | {' | '.join(found)} |" for name, found in cells.items())]


ENTRY = Entry("wait-policy", "How long waiting threads stay awake", check, measure)
