"""The command line: one JSON object, one line for a mistake, the statuses of the contract."""

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import eclose
from tests.end_to_end import command
from tests.end_to_end.command import ROOT, Call, environment

FIELDS = {
    *("format", "task", "space", "strategy", "seed", "metric", "valid", "test", "parameters", "flops", "epochs"),
    *("trials", "seconds", "device", "versions", "baselines"),
}

PLAIN = ("search", "--space", "backbone")


@pytest.fixture
def signals(tmp_path: Path) -> Path:
    """Sines of two frequencies, which any network tells apart."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    t = np.linspace(0, 1, 32)
    x = np.sin(2 * np.pi * (t * (2 + 3 * y[:, None]) + rng.random((60, 1)))).astype(np.float32)
    np.savez(tmp_path / "signals.npz", x=x, y=y)
    return tmp_path / "signals.npz"


@pytest.fixture
def finished(call: Call, signals: Path, tmp_path: Path) -> Path:
    status, _, err = call(*PLAIN, "--data", signals, "--epochs", 2, "--out", "run", "--json", *small())
    assert status == 0, err
    return tmp_path / "run"


def small() -> list[str]:
    return ["--set", "backbone.width=4", "--set", "run.threads=1"]


def only_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.startswith("eclose: ")]
    assert len(lines) == 1, err
    assert err.splitlines()[-1] == lines[0], err
    assert "Traceback" not in err
    return lines[0]


def test_search_prints_one_json_object(call: Call, signals: Path) -> None:
    status, out, _ = call(*PLAIN, "--data", signals, "--epochs", 2, "--baselines", "lenet", "--json", *small())
    assert status == 0
    result = json.loads(out)
    assert result.keys() >= FIELDS
    assert result["metric"] == {"name": "accuracy", "goal": "max"}
    assert [(row["name"], row["kind"]) for row in result["baselines"]] == [
        ("lenet", "network"),
        ("most frequent class", "trivial"),
        ("linear model", "linear"),
        ("random-filter model", "linear"),
    ]
    assert result["baselines"][0].keys() >= {"name", "valid", "test", "parameters", "seconds"}
    assert 0 <= result["test"] <= 1
    assert result["flops"] > 0


def test_search_ends_with_a_table_and_a_page(call: Call, signals: Path, tmp_path: Path) -> None:
    status, out, err = call(*PLAIN, "--data", signals, "--epochs", 2, "--out", "run", *small())
    assert status == 0, err
    assert "accuracy" in out
    assert "inception" in out
    assert "run/report.html" in out
    assert (tmp_path / "run" / "report.html").stat().st_size > 1000
    assert "epoch 2 of 2" in err


def test_the_folder_is_named_after_day_and_data(call: Call, signals: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert call(*PLAIN, "--data", signals, "--epochs", 1, *small())[0] == 0
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(names) == 2
    assert names[0].endswith("-signals")
    assert names[1] == names[0] + "-2"


def test_trials_train_with_other_seeds_and_the_best_is_kept(call: Call, signals: Path) -> None:
    status, out, _ = call(
        "search",
        "--space",
        "backbone",
        "--data",
        signals,
        "--epochs",
        1,
        "--trials",
        2,
        "--json",
        "--out",
        "run",
        *small(),
    )
    assert status == 0
    result = json.loads(out)
    assert result["trials"] == 2
    status, out, _ = call("show", "run", "--json")
    trials = json.loads(out)["trials"]
    assert [t["role"] for t in trials] == ["search", "search"]
    assert result["valid"] == max(t["valid"] for t in trials)
    assert {t["parameters"] - t["architecture_parameters"] for t in trials} == {result["parameters"]}


def test_predict_in_all_forms(call: Call, finished: Path, signals: Path, tmp_path: Path) -> None:
    assert call("predict", finished, signals, "--out", "p.npz")[0] == 0
    saved = np.load("p.npz")
    assert saved["label"].shape == (60,)
    np.testing.assert_allclose(saved["probability"].sum(1), 1, rtol=1e-5)
    np.save("x.npy", np.load(signals)["x"])
    status, out, _ = call("predict", finished, "x.npy", "--out", "p.npy", "--json")
    assert status == 0
    assert json.loads(out)["arrays"]["label"] == [60]
    assert (np.load("p.npy") == saved["label"]).all()


def test_explain_says_what_was_found(call: Call, finished: Path) -> None:
    status, out, err = call("explain", finished)
    assert (status, err) == (0, "")
    assert out.startswith("The network\nIt is ")
    assert "nothing about it was searched" in " ".join(out.split())
    status, out, _ = call("explain", finished, "--trial", 0, "--json")
    told = json.loads(out)
    assert (status, told["run"], told["trial"]) == (0, str(finished), 0)
    assert told["explanation"] == json.loads((finished / "result.json").read_text())["explanation"]
    status, _, err = call("explain", finished, "--trial", 9)
    assert (status, err.count("\n")) == (2, 1)
    assert "has no trial 9" in err


def test_exports_compute_what_the_run_computes(call: Call, finished: Path, signals: Path) -> None:
    x = torch.from_numpy(np.load(signals)["x"])[:5, None]
    wanted = eclose.load(finished)(x)
    assert call("export", finished, "--to", "bundle")[0] == 0
    assert torch.equal(eclose.load("bundle")(x), wanted)
    assert str(finished.parent) not in "".join(p.read_text() for p in Path("bundle").glob("*.[jt]*"))
    assert call("export", finished, "--to", "program", "--format", "pt2")[0] == 0
    program = torch.export.load("program/model.pt2").module()
    torch.testing.assert_close(program(x), wanted, rtol=1e-4, atol=1e-5)
    status, _, err = call("export", finished, "--to", "bundle")
    assert status == 2
    assert "exists: choose another folder" in only_line(err)
    shown = command.python("bundle/use.py", cwd=Path.cwd())
    assert "Conv1d" in shown.stdout, shown.stderr


def test_an_onnx_program_computes_what_the_run_computes(call: Call, finished: Path, signals: Path) -> None:
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    x = torch.from_numpy(np.load(signals)["x"])[:5, None]
    done = call("export", finished, "--to", "program", "--format", "onnx")
    assert done == (0, "wrote program/model.onnx, program/use.py\n", "")
    (got,) = onnxruntime.InferenceSession("program/model.onnx").run(["y"], {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), eclose.load(finished)(x), rtol=1e-4, atol=1e-5)


def test_retrain_makes_a_new_run_of_the_same_network(call: Call, finished: Path) -> None:
    status, out, _ = call("retrain", finished, "--epochs", 1, "--out", "again", "--json")
    assert status == 0
    result = json.loads(out)
    first = json.loads((finished / "result.json").read_text())
    assert result["parameters"] == first["parameters"]
    assert result["seed"] == first["seed"] + 1
    assert result["epochs"] == 1
    assert (Path("again") / "genotype.json").read_text() == (finished / "genotype.json").read_text()


@pytest.mark.parametrize(("minutes", "told"), [("0", "0"), ("-1", "-1"), ("nan", "nan")])
def test_a_run_of_no_time_is_refused(call: Call, minutes: str, told: str) -> None:
    status, _, err = call(*PLAIN, "--task", "mnist", "--minutes", minutes)
    line = f"budget.minutes is {told}, but must be above 0: leave it out, or say how long the run may take"
    assert (status, only_line(err)) == (2, f"eclose: {line}")


def test_warnings_of_torch_about_its_own_copies_are_not_shown(call: Call, signals: Path) -> None:
    even = ("--backbone", "cnn", "--set", "backbone.kernel=4", "--set", "backbone.padding=zeros")
    status, _, err = call(*PLAIN, "--data", signals, "--epochs", 1, "--out", "even", *even, *small())
    assert status == 0, err
    assert "Warning" not in err


def test_retrain_reads_other_data_as_it_is_told(call: Call, finished: Path, tmp_path: Path) -> None:
    """Doubts about data advise options, which a retraining must have as well."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "other.npz", x=rng.normal(size=(40, 24, 5)).astype(np.float32), y=np.arange(40) % 2)
    told = ("--data", tmp_path / "other.npz", "--epochs", 1, "--minutes", 0.5, "--json")
    status, out, err = call("retrain", finished, *told, "--out", "last", "--channels", "last", "--kind", "regression")
    assert status == 0, err
    signature = json.loads(out)["signature"]
    assert (signature["kind"], signature["channels"], signature["sizes"]) == ("regression", 5, [24])
    status, _, err = call("retrain", finished, *told, "--out", "none", "--axes", 3)
    assert status == 2
    assert only_line(err).endswith("--axes 3 does not fit x of shape (40, 24, 5): 1 or 2 would")
    status, _, err = call("retrain", finished, "--epochs", 0)
    assert (status, only_line(err)) == (2, "eclose: train.epochs is 0, but must be at least 1")


@pytest.mark.parametrize("what", ["tasks", "spaces", "backbones", "recipes"])
def test_show_lists(call: Call, what: str) -> None:
    status, out, _ = call("show", what, "--json")
    assert status == 0
    assert json.loads(out)[what]
    assert call("show", what)[0] == 0


def test_show_lists_what_a_user_sets(call: Call, signals: Path) -> None:
    """Not what a run measures for itself; and numbers as they are used."""
    options = json.loads(call("show", "spaces", "--json")[1])["spaces"]["dnarch"]["options"]
    assert "weighing" not in options
    assert options["largest"] == 2.0
    assert "weighing" not in call("show", "spaces")[1]
    status, _, err = call("search", "--data", signals, "--space", "dnarch", "--set", "space.large=3")
    assert status == 2
    assert "did you mean 'largest'" in err
    assert "weighing" not in err


def test_show_a_recipe(call: Call) -> None:
    status, out, _ = call("show", "xd-burgers-quick")
    assert status == 0
    settings = tomllib.loads(out)
    assert settings["space"]["name"] == "xd", "what its base says is there too"
    data = json.loads(call("show", "xd-burgers-quick", "--json")[1])
    assert {"about": data["about"], **data["settings"]} == settings
    Path("mine.toml").write_text(out)
    assert json.loads(call("show", "mine.toml", "--json")[1])["settings"] == data["settings"]


def test_show_runs(call: Call, signals: Path, tmp_path: Path) -> None:
    assert "no runs in" in call("show", "runs")[1]
    assert call(*PLAIN, "--data", signals, "--epochs", 1, "--out", "runs/one", *small())[0] == 0
    shutil.copytree("runs/one", "runs/two")
    Path("runs/two/result.json").unlink()
    shutil.copytree("runs/two", "runs/three")
    Path("runs/three/config.toml").write_text("no")
    rows = json.loads(call("show", "runs", "--json")[1])["runs"]
    assert {row["run"]: row["state"] for row in rows} == {
        "runs/one": "finished",
        "runs/two": "stopped",
        "runs/three": "damaged",
    }
    result = json.loads(Path("runs/one/result.json").read_text())
    (one,) = (row for row in rows if row["run"] == "runs/one")
    assert (one["task"], one["space"], one["valid"], one["test"]) == (
        "signals", "backbone", result["valid"], result["test"],
    )  # fmt: skip
    from eclose.runs import Run

    with Run.open(Path("runs/two")).locked():
        status, out, _ = call("show", "runs")
    assert status == 0
    assert "running" in out
    name = "runs/2026-11-16-a-data-set-with-a-long-name"
    shutil.copytree("runs/one", name)
    assert name in call("show", "runs")[1], "to be copied"


def test_no_baselines_clears_those_of_a_recipe(call: Call) -> None:
    Path("mine.toml").write_text('[task]\nname = "digits"\nsubset = 20\n[compare]\nbaselines = ["lenet"]\n')
    given = ["--recipe", "mine.toml", "--epochs", 1, "--json", *small()]
    names = [json.loads(call("search", *given, *more)[1])["baselines"] for more in ([], ["--baselines", ""])]
    assert "lenet" in [row["name"] for row in names[0]]
    assert "lenet" not in [row["name"] for row in names[1]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_an_answer_that_cannot_be_written() -> None:
    arguments = [sys.executable, "-m", "eclose", "show", "tasks", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (2, "eclose: [Errno 28] No space left on device: free some disk space\n")


def test_short_help_of_every_verb(call: Call) -> None:
    for verb in ([], ["search"], ["show"], ["export"], ["doctor"]):
        status, out, _ = call(*verb, "-h")
        assert status == 0
        assert "--help" in out


def test_completion_of_the_shell() -> None:
    script = f"{sys.executable} -c 'import sys; sys.argv[0] = \"eclose\"; from eclose.cli import run; run()'"
    asked = {"_ECLOSE_COMPLETE": "complete_bash", "COMP_WORDS": "eclose re", "COMP_CWORD": "1"}
    done = subprocess.run(
        script, shell=True, env=environment(**asked), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["resume", "retrain", "report"]


def test_doctor(call: Call) -> None:
    status, out, _ = call("doctor", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["problems"] == []
    assert facts["torch"] == torch.__version__.split("+")[0] or facts["torch"] == torch.__version__


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


def test_wrong_shapes_for_prediction(call: Call, finished: Path) -> None:
    np.savez("short.npz", x=np.zeros((3, 31), np.float32))
    status, _, err = call("predict", finished, "short.npz", "--out", "p.npz")
    assert status == 2
    assert "x has samples of 31, the network takes 1 x 32" in only_line(err)
    assert not Path("p.npz").exists()
    status, _, err = call("predict", finished, "short.npz", "--out", "p.csv")
    assert status == 2


def test_help_is_instant() -> None:
    """Importing the command line imports nothing heavy; `benchmarks start-up` has the seconds."""
    code = "import eclose.cli, sys; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, check=False).returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "eclose", "--help"],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "search" in done.stdout


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """A limit on file sizes stands in for it: writing fails in the same place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


@pytest.mark.parametrize(("format", "room"), [("pt2", 2_000), ("bundle", 3_000)])
def test_an_export_to_a_full_disk_costs_one_line_and_leaves_nothing(
    call: Call, finished: Path, format: str, room: int
) -> None:
    with full_disk(room):
        status, _, err = call("export", finished, "--to", "out", "--format", format)
    assert status == 2
    assert re.search(r"out/\S+: File too large: raise the limit on file sizes", only_line(err))
    assert not Path("out").exists()


def test_without_a_verb_the_help_is_shown(call: Call) -> None:
    status, out, err = call()
    assert status == 0
    assert "search" in out
    assert err == ""


def test_the_trials_of_a_run_for_the_dashboard(call: Call, finished: Path) -> None:
    pytest.importorskip("optuna")
    status, out, err = call("report", finished, "--dashboard")
    assert status == 0, err
    assert f"optuna-dashboard sqlite:///{finished}/study.sqlite" in out.replace("\n", "")
    assert (finished / "study.sqlite").exists()
    status, out, _ = call("report", finished, "--dashboard", "--json")
    assert json.loads(out)["dashboard"].startswith("optuna-dashboard ")


def test_version(call: Call) -> None:
    assert call("--version") == (0, eclose.__version__ + "\n", "")


def test_deleted_files_come_back(call: Call, finished: Path) -> None:
    """What a user deletes by the advice of a message, resume makes again: with the same numbers."""
    before = json.loads((finished / "result.json").read_text())
    (finished / "report.html").unlink()
    assert call("resume", finished)[0] == 0
    assert (finished / "report.html").exists()
    for file in ("result.json", "weights.safetensors", "trials/0/weights.safetensors"):
        (finished / file).unlink()
    status, out, err = call("resume", finished, "--json")
    assert status == 0, err
    assert json.loads(out)["test"] == before["test"]


def test_a_trial_without_memory_is_recorded(call: Call, signals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("eclose.train.step.GradientStep.__call__", explode)
    status, _, err = call(*PLAIN, "--data", signals, "--epochs", 1, "--trials", 2, "--out", "run", *small())
    assert status == 2
    assert "no training succeeded: out of memory: lower --set train.batch" in only_line(err)
    states = [trial["state"] for trial in json.loads(call("show", "run", "--json")[1])["trials"]]
    assert states == ["failed", "failed"]


def test_a_file_is_not_overwritten_by_its_predictions(call: Call, finished: Path, signals: Path) -> None:
    before = signals.read_bytes()
    status, _, err = call("predict", finished, signals, "--out", signals)
    assert status == 2
    assert "is the file to read from" in only_line(err)
    assert signals.read_bytes() == before


def test_an_export_overwrites_nothing(call: Call, finished: Path) -> None:
    Path("mine").mkdir()
    Path("mine/README.txt").write_text("mine")
    status, _, err = call("export", finished, "--to", "mine")
    assert status == 2
    assert "mine/README.txt exists" in only_line(err)
    assert Path("mine/README.txt").read_text() == "mine"


def test_networks_that_print_do_not_spoil_the_answer(call: Call, signals: Path) -> None:
    Path("chatty.py").write_text(
        "from torch import nn\nprint('imported')\n"
        "def make(signature):\n    print('made')\n    return nn.Sequential(nn.Flatten(), nn.Linear(32, 2))\n"
    )
    status, out, _ = call(*PLAIN, "--data", signals, "--backbone", "chatty:make", "--epochs", 1, "--json")
    assert status == 0
    assert json.loads(out)["parameters"] == 66
    assert out.count("\n") == 1


def test_a_finished_network_of_a_module_is_the_same_in_every_process(signals: Path, tmp_path: Path) -> None:
    (tmp_path / "finished.py").write_text("from torch import nn\nnet = nn.Sequential(nn.Flatten(), nn.Linear(32, 2))\n")
    answers = []
    for name in ("one", "two"):
        given = [*PLAIN, "--data", signals, "--backbone", "finished:net", "--epochs", 1, "--out", name, "--json"]
        done = command.eclose(*given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        answers.append((json.loads(done.stdout)["valid"], (tmp_path / name / "weights.safetensors").read_bytes()))
    assert answers[0] == answers[1]


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
