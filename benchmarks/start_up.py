"""CPU time of `eclose --help`."""

import resource
import statistics
import subprocess
import sys

import torch

from benchmarks.runner import Entry

COMMAND = [sys.executable, "-m", "eclose", "--help"]


def check(device: torch.device) -> str:
    """The help lists the verbs."""
    text = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout
    assert all(verb in text for verb in ("search", "resume", "predict", "export", "report"))
    return "the help lists the verbs"


def measure(device: torch.device) -> list[str]:
    """User and system time of the process, median of nine."""
    times = []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(COMMAND, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return [f"`eclose --help`: {statistics.median(times):.2f} s of CPU time (median of 9).", "", "Goal: under 0.3 s."]


ENTRY = Entry("start-up", "Start of the command line", check, measure)
