"""What a run found, in use: predictions, exports, explanations, the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import eclose
from tests.cli.plain import full_disk, only_line
from tests.end_to_end import command
from tests.end_to_end.command import Call


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


def test_where_predictions_go_is_looked_at_before_they_are_made(call: Call, finished: Path) -> None:
    status, _, err = call("predict", finished, "nowhere.npz", "--out", "answers.txt")
    assert (status, only_line(err)) == (2, "eclose: --out answers.txt: the name must end in .npz or .npy")


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


def test_wrong_shapes_for_prediction(call: Call, finished: Path) -> None:
    np.savez("short.npz", x=np.zeros((3, 31), np.float32))
    status, _, err = call("predict", finished, "short.npz", "--out", "p.npz")
    assert status == 2
    assert "x has samples of 31, the network takes 1 x 32" in only_line(err)
    assert not Path("p.npz").exists()
    status, _, err = call("predict", finished, "short.npz", "--out", "p.csv")
    assert status == 2


@pytest.mark.parametrize(("format", "room"), [("pt2", 2_000), ("bundle", 3_000)])
def test_an_export_to_a_full_disk_costs_one_line_and_leaves_nothing(
    call: Call, finished: Path, format: str, room: int
) -> None:
    with full_disk(room):
        status, _, err = call("export", finished, "--to", "out", "--format", format)
    assert status == 2
    assert re.search(r"out/\S+: File too large: raise the limit on file sizes", only_line(err))
    assert not Path("out").exists()


def test_the_trials_of_a_run_for_the_dashboard(call: Call, finished: Path) -> None:
    pytest.importorskip("optuna")
    status, out, err = call("report", finished, "--dashboard")
    assert status == 0, err
    assert f"optuna-dashboard sqlite:///{finished}/study.sqlite" in out.replace("\n", "")
    assert (finished / "study.sqlite").exists()
    status, out, _ = call("report", finished, "--dashboard", "--json")
    assert json.loads(out)["dashboard"].startswith("optuna-dashboard ")


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
