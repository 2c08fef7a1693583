"""A search over whole networks from the command line, killed and resumed."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from eclose.runs import Run, Trial
from tests.end_to_end.command import eclose, start

SEARCH = [
    *("search", "--task", "digits", "--space", "einspace", "--trials", 8, "--epochs", 3, "--json"),
    *("--set", "task.subset=200", "--set", "task.subset_eval=100", "--set", "space.flops=1e6"),
    *("--set", "strategy.start=scratch"),
    *("--set", "run.checkpoint_seconds=0.05", "--set", "run.threads=1", "--set", "final.train.epochs=20"),
]


def figures(run: Path) -> list[tuple[object, ...]]:
    def of(trial: Trial) -> tuple[object, ...]:
        curve = [(entry["train_loss"], entry.get("valid")) for entry in trial.history]
        end = trial.state, trial.reason, trial.valid, trial.test
        return trial.number, trial.role, trial.hash, trial.scores, *end, curve

    return [of(trial) for trial in Run.open(run).table.all()]


GUIDED = ["--set", "strategy.prefilter=3", "--set", "strategy.learn=0.7"]


@pytest.mark.parametrize(
    "options", [pytest.param([], id="plain"), pytest.param(GUIDED, id="guided", marks=pytest.mark.exhaustive)]
)
def test_killed_at_random_moments(options: list[str], tmp_path: Path) -> None:
    whole = eclose(*SEARCH, *options, "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert "trial 7 (8 of 8), mutated " in whole.stderr
    moments, run = random.Random(0), tmp_path / "run"
    process = start(*SEARCH, *options, "--out", "run", cwd=tmp_path)
    for kills in (1, 2, 3):  # the last one in the final training
        while process.poll() is None and len(list(run.glob("trials/*"))) < 3 * kills:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.1))
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        process = start("resume", "run", "--json", cwd=tmp_path)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert figures(run) == figures(tmp_path / "whole")
    result, wanted = json.loads(out), json.loads(whole.stdout)
    for key in ("valid", "test", "network", "search", "parameters", "trial_seed", "explanation"):
        assert result[key] == wanted[key], key
