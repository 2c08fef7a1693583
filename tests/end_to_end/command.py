"""Runs the command line as a user does: in its own process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
Call = Callable[..., tuple[int, str, str]]  # status, output and errors of a command in this process


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "160", **extra}


def eclose(*arguments: object, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eclose", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env=environment(**extra), timeout=240, check=False
    )


def start(*arguments: object, cwd: Path, **extra: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "eclose", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**extra),
        start_new_session=True,
    )
