"""A user's own data from file to answers: said how it was read, names kept, scores told."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import eclose
from eclose.cli import main
from eclose.errors import RunError, TaskError

Call = Callable[..., tuple[int, str, str]]
N = 60
SMALL = ["--space", "backbone", "--epochs", "2", "--set", "backbone.width=4", "--set", "run.threads=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Signals of named kinds, and a table, each with a finished run."""
    path = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    kinds = np.arange(N) % 3
    t = np.linspace(0, 1, 24)
    x = np.sin(2 * np.pi * (t * (1 + 3 * kinds[:, None]) + rng.random((N, 1)))).astype(np.float32)
    x = np.stack([x, 0.5 * x], axis=-1)  # (N, 24, 2), channels last
    names = np.array(["slow wave", "wave", "quick wave"])[kinds]
    np.savez(path / "waves.npz", x_train=x[:36], y_train=names[:36], x_test=x[36:], y_test=names[36:])
    np.savez(path / "new.npz", x=x[:5])
    rows = [f"{kinds[i] + 0.1 * rng.normal():.4f},{1000 * rng.random():.1f},{kinds[i] * 5 + 1}" for i in range(N)]
    (path / "table.csv").write_text("\n".join(["a,b,grade", *rows]) + "\n")
    return path


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(folder)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["eclose", *map(str, arguments)])
        status = main()
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def waves(call: Call, folder: Path) -> Path:
    if not (folder / "waves").exists():
        status, out, err = call(
            "search", "--data", "waves.npz", "--channels", "last", "--out", "waves", "--json", *SMALL
        )
        assert status == 0, err
        (folder / "said.txt").write_text(err)
        (folder / "told.json").write_text(out)
    return folder / "waves"


@pytest.fixture
def table(call: Call, folder: Path) -> Path:
    if not (folder / "table").exists():
        status, _, err = call("search", "--data", "table.csv", "--out", "table", *SMALL)
        assert status == 0, err
        (folder / "table.txt").write_text(err)
    return folder / "table"


def test_the_data_is_described_before_training(waves: Path, folder: Path) -> None:
    lines = (folder / "said.txt").read_text().splitlines()
    wanted = (
        "waves.npz: classification, 3 classes (quick wave, slow wave, wave), 2 channels x 24 positions, "
        "30 / 6 / 24 samples"
    )
    assert lines[0] == wanted
    assert not any("please check" in line for line in lines)
    result = json.loads((folder / "told.json").read_text())
    assert result["data"] == {"text": wanted, "doubts": []}
    assert result["layout"]["classes"] == ["quick wave", "slow wave", "wave"]
    events = [json.loads(line) for line in (waves / "events.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "data"
    assert events[0]["text"] == wanted


def test_a_doubt_is_said_and_blocks_nothing(call: Call, folder: Path) -> None:
    status, out, err = call("search", "--data", "waves.npz", "--out", "doubt", "--json", *SMALL)
    assert status == 0
    assert json.loads(out)["signature"]["channels"] == 24
    (doubt,) = json.loads(out)["data"]["doubts"]
    assert doubt.startswith("x (36, 24, 2) is read as 24 channels x 2 positions; if it has 2 channels, --channels last")
    assert f"please check: {doubt}" in err.splitlines()
    assert "To check" in (folder / "doubt" / "report.html").read_text()


def test_names_stay_in_the_report(waves: Path) -> None:
    page = (waves / "report.html").read_text()
    assert "one of 3 classes: quick wave, slow wave and wave" in page
    assert "class 0" not in page


def test_predictions_are_names_and_have_a_score(call: Call, waves: Path) -> None:
    status, out, _ = call("predict", "waves", "waves.npz", "--out", "p.npz", "--json")
    assert status == 0
    answer = json.loads(out)
    labels, truth = np.load("p.npz")["label"], np.load("waves.npz")["y_test"]
    assert set(labels) <= {"slow wave", "wave", "quick wave"}
    assert answer["metric"] == "accuracy"
    assert answer["score"] == pytest.approx(float((labels == truth).mean()))
    assert answer["score"] == pytest.approx(json.loads((waves / "result.json").read_text())["test"])
    status, out, _ = call("predict", "waves", "waves.npz", "--out", "p.npz")
    assert f"accuracy {answer['score']:.4g} against the answers in waves.npz" in out
    status, out, _ = call("predict", "waves", "new.npz", "--out", "p.npz", "--json")
    assert "score" not in json.loads(out)


def test_scores_in_python(waves: Path, folder: Path) -> None:
    data = np.load(folder / "waves.npz")
    answer = eclose.predict(waves, data["x_test"])
    assert (answer.keys(), answer.score) == ({"label", "probability"}, None)
    scored = eclose.predict(waves, data["x_test"], y=data["y_test"])
    assert (scored.metric, scored.score) == ("accuracy", eclose.predict(waves, folder / "waves.npz").score)
    with pytest.raises(TaskError, match="'y' has the label 'tide', which the training data does not have: leave these"):
        eclose.predict(waves, data["x_test"][:1], y=np.array(["tide"]))
    with pytest.raises(TaskError, match="x has 24 samples, but y has 3: they must be as many"):
        eclose.predict(waves, data["x_test"], y=data["y_test"][:3])


def test_a_bundle_keeps_the_names(waves: Path, folder: Path, tmp_path: Path) -> None:
    eclose.export(waves, tmp_path / "bundle")
    wanted = eclose.predict(waves, folder / "new.npz")["label"]
    assert eclose.predict(tmp_path / "bundle", folder / "new.npz")["label"].tolist() == wanted.tolist()
    result = json.loads((tmp_path / "bundle" / "result.json").read_text())
    for classes, text in (
        (["a"], "the result names 1 classes, but the network has 3"),
        ([{}, 1, "a"], "'layout' in the result is damaged"),
        (3, r"result.json is damaged \('layout' is of the wrong type\)"),
    ):
        result["layout"]["classes"] = classes
        (tmp_path / "bundle" / "result.json").write_text(json.dumps(result))
        with pytest.raises(RunError, match=text):
            eclose.predict(tmp_path / "bundle", folder / "new.npz")


def test_a_table(call: Call, table: Path, folder: Path) -> None:
    lines = (folder / "table.txt").read_text().splitlines()
    assert lines[0] == (
        "table.csv: classification, 3 classes (1, 6, 11) in column 'grade', a table of 2 columns, 42 / 9 / 9 samples"
    )
    assert lines[1].startswith("please check: 'y' has labels with gaps (1, 6, 11), read as 3 classes; if they are quan")
    status, out, err = call("predict", table, "table.csv", "--out", "p.npz", "--json")
    assert status == 0, err
    labels = np.load("p.npz")["label"]
    assert set(labels) <= {1, 6, 11}
    truth = np.loadtxt("table.csv", delimiter=",", skiprows=1)[:, 2]
    assert json.loads(out)["score"] == pytest.approx(float((labels == truth).mean()))
    Path("rows.csv").write_text("b,a\n10.0,1.0\n")
    assert call("predict", table, "rows.csv", "--out", "p.npz")[0] == 0
    Path("rows.csv").write_text("b\n10.0\n")
    status, _, err = call("predict", table, "rows.csv", "--out", "p.npz")
    assert status == 2
    assert "there is no column 'a', which the network needs (columns: b)" in err


def test_a_table_is_for_networks_that_learned_from_one(call: Call, waves: Path) -> None:
    status, _, err = call("predict", waves, "table.csv", "--out", "p.npz")
    assert status == 2
    assert "the run did not learn from a table: give x as an array, or as .npz or .npy" in err


def test_a_run_goes_on_as_it_read_its_data(table: Path) -> None:
    before = json.loads((table / "result.json").read_text())
    (table / "result.json").unlink()
    again = eclose.resume(table).metrics
    assert (again["layout"], again["test"]) == (before["layout"], before["test"])


@pytest.mark.parametrize("kind", ["regression", "dense", "segmentation"])
def test_scores_of_other_kinds(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(24, 9, 8, 3))
    y = {"regression": x[:, 0, 0, :2], "dense": x[..., :2], "segmentation": np.where(x[..., 0] > 0, 255, 7)}[kind]
    settings = {"backbone.width": 4, "run.threads": 1}
    given = {"space": "backbone", "epochs": 1, "channels": "last", "out": tmp_path / "run", "settings": settings}
    result = eclose.search(data={"x": x, "y": y}, **given)
    np.savez(tmp_path / "new.npz", x=x, y=y)
    answer = eclose.predict(result.run, tmp_path / "new.npz")
    assert answer.metric == result.metrics["metric"]["name"]
    assert np.isfinite(answer.score)
    if kind == "segmentation":
        assert set(np.unique(answer["label"])) <= {7, 255}
        assert answer.score == pytest.approx(float((answer["label"] == y).mean()))
