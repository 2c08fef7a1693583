"""A failure costs one line with the way out, a status of the contract, and no file of the user's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.plain import PLAIN, full_disk, only_line, small
from tests.end_to_end.command import ROOT, Call, environment


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_an_answer_that_cannot_be_written() -> None:
    arguments = [sys.executable, "-m", "eclose", "show", "tasks", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (2, "eclose: [Errno 28] No space left on device: free some disk space\n")


def test_letters_that_the_terminal_has_not(finished: Path, tmp_path: Path) -> None:
    """And a home that nobody may write into, where matplotlib would keep its cache."""
    run = Path(shutil.copytree(finished, tmp_path / "mätz č"))
    known = {name: value for name, value in environment().items() if name not in ("MPLCONFIGDIR", "XDG_CONFIG_HOME")}
    known |= {"PYTHONIOENCODING": "latin-1", "HOME": "/dev/null", "PYTHONUTF8": "1"}
    for verb in ("show", "report"):
        arguments = [sys.executable, "-m", "eclose", verb, str(run)]
        done = subprocess.run(arguments, capture_output=True, env=known, cwd=ROOT, check=False)
        assert (done.returncode, done.stderr.decode("latin-1")) == (0, "")
        assert "mätz \\u010d" in done.stdout.decode("latin-1")


MISTAKES = [
    (["search", "--data", "none.npz"], "no such file: ", "none.npz"),
    (["search", "--task", "burger"], "unknown task 'burger'", "did you mean 'burgers'?"),
    (["search", "--task", "digits", "--space", "backbon"], "unknown space 'backbon'", "'backbone'"),
    (["search", "--task", "digits", "--backbone", "resnet2"], "unknown backbone 'resnet2'", "did you mean"),
    (["search", "--task", "digits", "--backbone", "no_such:net"], "no module 'no_such'", "installed"),
    (["search", "--task", "digits", "--strategy", "trains"], "unknown strategy 'trains'", "'train'"),
    (["search", "--task", "digits", "--recipe", "defalt"], "unknown recipe 'defalt'", "'default'"),
    (["search", "--task", "digits", "--device", "gpu"], "device 'gpu'", "use auto, cpu, cuda"),
    (["search", "--task", "digits", "--epochs", "0"], "train.epochs is 0", "at least 1"),
    (["search", "--task", "digits", "--epochs", "many"], "--epochs", "--help"),
    (["search", "--task", "digits", "--set", "train.epoch=3"], "unknown setting 'train.epoch'", "'epochs'"),
    (["search", "--task", "digits", "--set", "task.subst=9"], "unknown setting 'task.subst'", "'subset'"),
    (["search", "--task", "digits", "--set", "epochs"], "not of the form", "train.epochs=10"),
    (["search", "--task", "digits", "--set", "task.metric=mse"], "mse", "accuracy"),
    (["search", "--task", "digits", "--set", "optimiser.name=adamm"], "unknown optimiser 'adamm'", "'adam'"),
    (["search", "--task", "digits", "--set", "backbone.widht=3"], "no option 'widht'", "'width'"),
    (["search", "--task", "digits", "--data", "x.npz"], "give one of them", ""),
    (["search", "--data", ""], "the name of the data file is empty", ""),
    (["search", "--tsk", "digits"], "--tsk", "--help"),
    (["search", "mine.npz"], "`eclose search mine.npz`", "did you mean --data mine.npz?"),
    (["resume", "nowhere"], "nowhere is not a run folder", "no such folder"),
    (["resume", "."], "not a run folder", "no config.toml"),
    (["report", "nowhere"], "nowhere is not a run folder", ""),
    (["show", "taks"], "nothing to show for 'taks'", "'tasks'"),
    (["serach"], "serach", "--help"),
    *(
        ([*verb, ""], f"'{name}': the name is empty", "name a place")
        for verb, name in (
            (["search", "--task", "digits", "--out"], "--out"),
            (["retrain", "run", "--out"], "--out"),
            (["compare", "--task", "digits", "--spaces", "xd,backbone", "--out"], "--out"),
            (["predict", "run", "x.npy", "--out"], "--out"),
            (["predict", "run", "--out", "y.npy"], "FILE"),
            (["export", "run", "--to"], "--to"),
            (["compare"], "[RUN]..."),
            *(([verb], "RUN") for verb in ("resume", "report", "explain", "retrain")),
        )
    ),
    (["show", ""], "nothing to show for ''", "known: backbones"),
]


@pytest.mark.parametrize(("arguments", "says", "way_out"), MISTAKES)
def test_a_mistake_costs_one_line(call: Call, tmp_path: Path, arguments: list[str], says: str, way_out: str) -> None:
    status, out, err = call(*arguments)
    assert status == 2
    assert out == ""
    line = only_line(err)
    assert says in line
    assert way_out in line
    assert not (tmp_path / "runs").exists(), "nothing half-written"


def test_with_json_a_mistake_is_an_object_too(call: Call) -> None:
    for arguments in (["resume", "nowhere"], ["search", "--epochs", "many"], ["serach"]):
        status, out, err = call(*arguments, "--json")
        assert json.loads(out) == {"error": only_line(err).removeprefix("eclose: "), "status": 2}
        assert (status, out.count("\n")) == (2, 1)


def test_with_json_a_fault_of_ours_is_an_object_too(
    call: Call, finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explode(*arguments: object) -> None:
        raise ZeroDivisionError("no\ngood")

    monkeypatch.setattr("eclose.api.using.write_page", explode)
    with pytest.raises(ZeroDivisionError):
        call("report", finished, "--json")
    assert json.loads(capsys.readouterr().out) == {"error": "ZeroDivisionError: no good", "status": 1}


def test_an_existing_folder_is_not_touched(call: Call, finished: Path, signals: Path) -> None:
    before = sorted(finished.rglob("*"))
    status, _, err = call(*PLAIN, "--data", signals, "--out", "run")
    assert status == 2
    assert "exists and is not an empty folder" in only_line(err)
    assert sorted(finished.rglob("*")) == before


def test_a_run_in_use_is_refused(call: Call, finished: Path) -> None:
    (finished / "result.json").unlink()
    from eclose.runs import Run

    with Run.open(finished).locked():
        status, _, err = call("resume", finished)
    assert status == 2
    assert "in use by another process" in only_line(err)
    assert call("resume", finished)[0] == 0


def test_divergence_is_a_reason_not_a_crash(call: Call, signals: Path) -> None:
    status, _, err = call(
        *PLAIN, "--data", signals, "--epochs", 3, "--set", "optimiser.name=sgd",
        "--set", "optimiser.learning_rate=1e30", "--out", "run", *small(),
    )  # fmt: skip
    assert status == 2
    assert "no training succeeded: the training loss became" in only_line(err)
    status, out, _ = call("show", "run", "--json")
    assert json.loads(out)["trials"][0]["state"] == "failed"


def test_a_full_disk_costs_one_line_and_can_be_resumed(call: Call, signals: Path) -> None:
    with full_disk(40_000):
        status, _, err = call(*PLAIN, "--data", signals, "--epochs", 2, "--out", "run")
    assert status == 2
    line = only_line(err)
    assert "weights.safetensors" in line
    assert "eclose resume run" in line
    assert not list(Path("run").rglob("*.part"))
    status, out, _ = call("resume", "run", "--json")
    assert status == 0
    assert json.loads(out)["epochs"] == 2


def test_a_trial_without_memory_is_recorded(call: Call, signals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("eclose.train.step.GradientStep.__call__", explode)
    status, _, err = call(*PLAIN, "--data", signals, "--epochs", 1, "--trials", 2, "--out", "run", *small())
    assert status == 2
    assert "no training succeeded: out of memory: lower --set train.batch" in only_line(err)
    states = [trial["state"] for trial in json.loads(call("show", "run", "--json")[1])["trials"]]
    assert states == ["failed", "failed"]


LOADING = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    os.abort()  # as C++ does
"""


def test_ctrl_c_while_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(LOADING)
    done = subprocess.run(
        [sys.executable, "-m", "eclose", "search", "--json"],
        env=environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr == "eclose: stopped\n"
    assert json.loads(done.stdout) == {"error": "stopped", "status": 130}
