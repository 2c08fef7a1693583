"""Runs Python and the command line as a user does: in a process of its own.

A new interpreter takes seconds to load torch. So each of these processes is a fork of one that has loaded it, and has
done nothing else.
"""

import contextlib
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Call = Callable[..., tuple[int, str, str]]  # status, output and errors of a command in this process

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["torch._dynamo", "torch.testing", "eclose.api", "eclose.cli", "rich.table"])


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "160", **extra}


class Process:
    """``python ARGUMENTS`` under way, with the methods of ``subprocess.Popen`` that tests need."""

    def __init__(self, *arguments: object, cwd: Path, **extra: str) -> None:
        self._folder = Path(tempfile.mkdtemp())
        for name in ("out", "err"):
            (self._folder / name).touch()
        given = [str(argument) for argument in arguments], str(cwd), environment(**extra), self._folder
        self._process = forks().Process(target=_interpret, args=given, daemon=True)
        self._process.start()
        self.pid: int = self._process.pid  # type: ignore[assignment]

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float = 240) -> tuple[str, str]:
        """What it has written, once it has ended."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutError((self._folder / "err").read_text())
        told = (self._folder / "out").read_text(), (self._folder / "err").read_text()
        shutil.rmtree(self._folder)
        return told


def forks() -> ForkServerContext:
    """Processes of this kind have torch loaded."""
    with _replaced(environment()):
        forkserver.ensure_running()
    return _FORKS


def python(*arguments: object, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    process = Process(*arguments, cwd=cwd, **extra)
    out, err = process.communicate()
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def eclose(*arguments: object, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "eclose", *arguments, cwd=cwd, **extra)


def start(*arguments: object, cwd: Path, **extra: str) -> Process:
    return Process("-m", "eclose", *arguments, cwd=cwd, **extra)


def _interpret(arguments: list[str], cwd: str, env: dict[str, str], folder: Path) -> None:
    os.setsid()
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_APPEND), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    __import__("torch").set_num_threads(1)  # OMP_NUM_THREADS is read when torch is loaded
    what, *sys.argv = arguments
    script = not what.startswith("-")
    sys.path[:0] = [str(Path(what).parent) if script else cwd, *env["PYTHONPATH"].split(os.pathsep)]
    if what == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.argv, code = ["-c", *sys.argv[1:]], sys.argv[0]
        exec(code, {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(what, run_name="__main__")


@contextlib.contextmanager
def _replaced(env: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def interrupting(trial: int) -> Callable[..., None]:
    """``Events.emit`` with a Ctrl-C after the first epoch of a training."""
    from eclose.events import Events

    emit = Events.emit

    def told(self: Events, event: str, **fields: Any) -> None:
        emit(self, event, **fields)
        if event == "epoch" and (fields["trial"], fields["epoch"]) == (trial, 1):
            signal.raise_signal(signal.SIGINT)

    return told
