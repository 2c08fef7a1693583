"""A run that is killed at random moments and resumed ends with the same bits as one that is left alone."""

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eclose.runs import Run
from tests.end_to_end.command import Call, Process, eclose, start

# Dropout, augmentation, momentum, warm-up, two networks and checkpoints at every step: whatever state there is.
SEARCH = [
    *("search", "--task", "digits", "--space", "backbone"),
    *("--backbone", "resnet", "--baselines", "lenet", "--epochs", 6, "--json"),
    *("--set", "task.subset=200", "--set", "task.subset_eval=60", "--set", "train.batch=24"),
    *("--set", "backbone.dropout=0.2", "--set", "backbone.width=8", "--set", "schedule.warmup_epochs=1"),
    *("--set", 'augment.names=["crop", "flip"]', "--set", "augment.crop.padding=1"),
    *("--set", "run.checkpoint_seconds=0", "--set", "run.threads=1", "--set", "optimiser.clip=1.0"),
]
EXACT = ("valid", "test", "parameters", "flops", "epochs", "trials", "baselines")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    done = eclose(*SEARCH, "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def assert_same(run: Path, whole: Path) -> None:
    result, wanted = Run.open(run).result, Run.open(whole).result
    assert result is not None
    assert wanted is not None
    for key in EXACT:
        assert _timeless(result[key]) == _timeless(wanted[key]), key
    for trial, other in zip(Run.open(run).table.all(), Run.open(whole).table.all(), strict=True):
        assert _timeless(trial.history) == _timeless(other.history)
        assert (trial.valid, trial.test, trial.state, trial.hash) == (other.valid, other.test, other.state, other.hash)
    for file in ("weights.safetensors", "trials/0/weights.safetensors", "trials/1/weights.safetensors"):
        weights, others = load_file(run / file), load_file(whole / file)
        assert weights.keys() == others.keys()
        assert all(torch.equal(weights[name], others[name]) for name in weights), file


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _timeless(data: object) -> object:
    if isinstance(data, dict):
        return {key: _timeless(value) for key, value in data.items() if key != "seconds"}
    return [_timeless(item) for item in data] if isinstance(data, list) else data


def _wait_for_steps(process: Process, run: Path, steps: int) -> bool:
    """Wait until ``steps`` more checkpoints have been written; False if the process ended before."""
    seen: set[int] = set()
    while process.poll() is None:
        for path in run.glob("trials/*/checkpoint.safetensors"):
            with contextlib.suppress(FileNotFoundError):
                seen.add(path.stat().st_mtime_ns)
        if len(seen) > steps:
            return True
        time.sleep(0.001)
    return False


def refuses_a_damaged_checkpoint(run: Path, call: Call) -> None:
    """Leave it without one: the training begins anew, with the same bits."""
    (checkpoint,) = run.glob("trials/*/checkpoint.safetensors")
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    status, _, err = call("resume", run)
    assert status == 2
    assert err.splitlines()[-1].startswith(f"eclose: {checkpoint} is damaged")
    assert "delete it" in err
    checkpoint.unlink()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (2, 3))])
def test_killed_at_random_moments(whole: Path, tmp_path: Path, seed: int, call: Call) -> None:
    moments = random.Random(seed)
    run = tmp_path / "run"
    process = start(*SEARCH, "--out", "run", cwd=tmp_path)
    kills = 0
    for _ in range(4):
        if not _wait_for_steps(process, run, moments.randrange(1, 25)):
            break
        time.sleep(moments.uniform(0, 0.05))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if not kills:
            refuses_a_damaged_checkpoint(run, call)
        kills += 1
        process = start("resume", "run", "--json", cwd=tmp_path)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert kills > 0
    assert json.loads(out)["test"] == Run.open(whole).result["test"]  # type: ignore[index]
    assert_same(run, whole)


def test_interrupted_by_the_user(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(*SEARCH, "--out", "run", "--set", "run.checkpoint_seconds=1000", cwd=tmp_path)
    while process.poll() is None and '"epoch"' not in _text(run / "events.jsonl"):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out) == {"error": "stopped; go on with: eclose resume run", "status": 130}
    assert err.splitlines()[-1] == "eclose: stopped; go on with: eclose resume run"
    resumed = eclose("resume", "run", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert_same(run, whole)


def test_resuming_a_finished_run_changes_nothing(whole: Path, call: Call) -> None:
    before = (whole / "result.json").read_bytes()
    status, out, _ = call("resume", whole, "--json")
    assert status == 0
    assert json.loads(out) == json.loads(before)
    assert (whole / "result.json").read_bytes() == before
