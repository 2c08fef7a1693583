"""Searches, from the command to one JSON object, or to a table and a page."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.plain import PLAIN, only_line, small
from tests.end_to_end import command
from tests.end_to_end.command import Call

FIELDS = {
    *("format", "task", "space", "strategy", "seed", "metric", "valid", "test", "parameters", "flops", "epochs"),
    *("trials", "seconds", "device", "versions", "baselines"),
}


def test_search_prints_one_json_object(call: Call, signals: Path) -> None:
    status, out, _ = call(*PLAIN, "--data", signals, "--epochs", 2, "--baselines", "lenet", "--json", *small())
    assert status == 0
    result = json.loads(out)
    assert result.keys() >= FIELDS
    assert result["metric"] == {"name": "accuracy", "goal": "max"}
    assert [(row["name"], row["kind"]) for row in result["baselines"]] == [
        ("lenet", "network"),
        ("most frequent class", "trivial"),
        ("linear model", "fitted"),
        ("random-filter model", "fitted"),
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
    assert "next    eclose explain run\n        eclose predict run NEW_FILE --out answers.npz\n" in out
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


@pytest.mark.parametrize(("option", "setting"), [("--epochs", "train.epochs"), ("--trials", "budget.trials")])
@pytest.mark.parametrize("number", [0, -1])
def test_no_training_is_no_search(call: Call, signals: Path, option: str, setting: str, number: int) -> None:
    status, _, err = call("search", "--data", signals, option, number)
    assert (status, only_line(err)) == (2, f"eclose: {setting} is {number}, but must be at least 1")


def test_no_baselines_clears_those_of_a_recipe(call: Call) -> None:
    Path("mine.toml").write_text('[task]\nname = "digits"\nsubset = 20\n[compare]\nbaselines = ["lenet"]\n')
    given = ["--recipe", "mine.toml", "--epochs", 1, "--json", *small()]
    names = [json.loads(call("search", *given, *more)[1])["baselines"] for more in ([], ["--baselines", ""])]
    assert "lenet" in [row["name"] for row in names[0]]
    assert "lenet" not in [row["name"] for row in names[1]]


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
