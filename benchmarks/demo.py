"""The default recipe, as `make demo` runs it: its table and how long it takes."""

import os
import subprocess
import sys
import tempfile
import time

import torch

from benchmarks.runner import Entry


def check(device: torch.device) -> str:
    """The command line is there; the run itself is the measurement."""
    subprocess.run([sys.executable, "-m", "eclose", "--version"], capture_output=True, check=True)
    return "a run that fails is not reported"


def measure(device: torch.device) -> list[str]:
    """One run, data generation included."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        command = [sys.executable, "-m", "eclose", "search", "--out", f"{folder}/run", "--device", device.type]
        environment = {**os.environ, "COLUMNS": "100"}  # rows of the table on one line each
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        seconds = time.perf_counter() - begun
    table = done.stdout.partition("run  ")[0].rstrip()
    return [f"`eclose search`, one run of {seconds:.0f} s in all:", "", "```", table, "```"]


ENTRY = Entry("demo", "The default recipe", check, measure)
