"""A search with workers from the command line: one of them killed, the driver killed, the run resumed."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from eclose.runs import Run
from tests.end_to_end.command import Process, eclose, start
from tests.end_to_end.processes import descendants, named, wait_until_gone

SEARCH = [
    *("search", "--task", "digits", "--space", "einspace", "--strategy", "random", "--trials", 5, "--epochs", 8),
    *("--set", "task.subset=300", "--set", "task.subset_eval=100", "--set", "space.flops=1e6"),
    *("--set", "strategy.halving=0", "--set", "final.train.epochs=1", "--set", "run.checkpoint_seconds=0.1"),
    *("--set", "run.threads=1", "--workers", 2, "--out", "run", "--json"),
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


@pytest.fixture(autouse=True)
def _ray() -> None:
    pytest.importorskip("ray")


def under_way(process: Process, run: Path, trials: int) -> list[int]:
    """The workers, once ``trials`` trials at least have begun and one has a checkpoint."""
    while process.poll() is None:
        begun = len(list(run.glob("trials/*"))) >= trials and list(run.glob("trials/*/checkpoint.safetensors"))
        if begun and (workers := named(descendants(process.pid), "ray::Worker.train")):
            return workers
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def test_workers_and_driver_are_killed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(*SEARCH, cwd=tmp_path)
    os.kill(under_way(process, run, 2)[0], signal.SIGKILL)
    under_way(process, run, 4)
    started = descendants(process.pid)
    started -= {*named(started, "ray::DashboardAgent"), *named(started, "ray::RuntimeEnvAgent")}
    process.kill()  # Ray's two agents notice it after a minute only
    _, err = process.communicate()
    assert "worker process died" in err
    assert "raylet" not in err
    assert wait_until_gone(started) == set()
    running = [trial.number for trial in Run.open(run).table.all() if trial.state == "running"]
    assert running
    resumed = eclose("resume", "run", "--workers", 1, "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["trials"] == 5
    trials = [trial for trial in Run.open(run).table.all() if trial.role == "search"]
    failed = [trial for trial in trials if trial.state != "done"]
    assert [trial.reason for trial in failed] == ["its worker process died: killed, crashed, or out of memory"]
    assert failed[0].number not in running
    assert not list(run.glob("trials/*/checkpoint.safetensors"))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_the_user_stops_it(tmp_path: Path, number: signal.Signals) -> None:
    process = start(*SEARCH, cwd=tmp_path)
    workers = under_way(process, tmp_path / "run", 2)
    started = descendants(process.pid)
    os.killpg(process.pid, number)  # as a terminal does with Ctrl-C
    if number == signal.SIGTERM:
        for worker in workers:  # and a batch system with all of a job
            os.kill(worker, number)
    out, err = process.communicate(timeout=60)
    trials = Run.open(tmp_path / "run").table.all()
    assert "running" in {trial.state for trial in trials} <= {"running", "done"}
    if number == signal.SIGTERM and process.returncode == 1:
        return  # Ray's own processes were ended too, and its library ends a process that has lost them at once
    assert process.returncode == 130, err
    assert json.loads(out) == {"error": "stopped; go on with: eclose resume run", "status": 130}
    assert "eclose: stopped; go on with: eclose resume run" in err  # Ray may write to the same line
    assert wait_until_gone(started) == set()
    assert list((tmp_path / "run").glob("trials/*/checkpoint.safetensors"))
