"""Spaces side by side on the same data: rows, means, an interruption and its end, and what is refused."""

import dataclasses
import json
import re
import shutil
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eclose
from eclose.display.comparison import verdict
from eclose.errors import ConfigError, EcloseError, RunError
from tests.end_to_end.command import Call

SMALL: dict[str, Any] = {
    "run.threads": 1,
    "train.batch": 8,
    "backbone.name": "cnn",
    "backbone.width": 2,
    "backbone.layers": 1,
    "train.keep": "last",
}


def fields(seed: int = 0) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(20, 1, 8)).astype(np.float32)
    return {"x": x, "y": np.roll(x, 1, axis=2)}


def compared(folder: Path, **more: Any) -> eclose.Comparison:
    options = {"data": fields(), "spaces": "backbone,xd", "epochs": 1, "settings": SMALL, "progress": False, **more}
    return eclose.compare(out=folder, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> eclose.Comparison:
    return compared(tmp_path_factory.mktemp("comparison") / "both", seeds=2)


def test_every_space_has_a_row_with_the_means_of_its_runs(finished: eclose.Comparison) -> None:
    assert finished.folder is not None
    assert [run.name for run in finished.runs] == ["backbone-0", "xd-0", "backbone-1", "xd-1"]
    results = {run.name: json.loads((run / "result.json").read_text()) for run in finished.runs}
    assert {result["seed"] for result in results.values()} == {0, 1}
    rows = {row["name"]: row for row in finished.metrics["rows"]}
    for space in ("backbone", "xd"):
        for figure in ("valid", "test"):
            each = [results[f"{space}-{seed}"][figure] for seed in (0, 1)]
            assert rows[space][figure] == pytest.approx(np.mean(each))
            assert rows[space]["each"][figure] == each
    assert rows["xd"]["found"] == ["cnn with XD-operations"]
    order = [row["valid"] for row in finished.metrics["rows"] if row["kind"] == "search"]
    assert order == sorted(order)
    assert finished.metrics["ahead"] == pytest.approx(order[1] - order[0])
    gaps = [abs(np.subtract(*rows[space]["each"]["valid"])) for space in ("backbone", "xd")]
    assert finished.metrics["apart"] == pytest.approx(max(gaps))
    predictors = [row for row in finished.metrics["rows"] if row["kind"] not in ("search", "network")]
    assert {row["name"] for row in predictors} >= {"linear model"}


def test_its_folder_says_the_same(finished: eclose.Comparison) -> None:
    assert finished.folder is not None
    told = json.loads((finished.folder / "comparison.json").read_text())
    assert told["rows"] == json.loads(json.dumps(finished.metrics["rows"]))
    page = (finished.folder / "comparison.html").read_text()
    assert 'href="xd-1/report.html"' in page
    assert "more than seeds of one space are apart" in page
    assert "XD-operations" in str(finished)


def test_runs_that_are_there_are_compared(finished: eclose.Comparison) -> None:
    again = eclose.compare(*finished.runs)
    assert again.metrics["rows"] == finished.metrics["rows"]
    assert again.folder is None
    one = eclose.compare(finished.runs[0], finished.runs[1])
    assert one.metrics["apart"] is None
    assert "--seeds 3" in str(one).replace("\n", " ")


def test_runs_of_one_space_with_other_settings_are_told_apart(finished: eclose.Comparison, tmp_path: Path) -> None:
    settings = {**SMALL, "train.batch": 4}
    other = eclose.search(data=fields(), space="xd", epochs=1, settings=settings, out=tmp_path / "faster")
    rows = eclose.compare(finished.runs[1], other.run).metrics["rows"]
    names = {Path(row["name"]).name for row in rows if row["kind"] == "search"}
    assert names == {"xd-0", "faster"}


def test_what_cannot_be_compared_is_refused(finished: eclose.Comparison, tmp_path: Path) -> None:
    first, second = finished.runs[:2]
    with pytest.raises(RunError, match="differ in their seeds only"):
        eclose.compare(finished.runs[0], finished.runs[2])
    with pytest.raises(RunError, match="named twice"):
        eclose.compare(first, second, first)
    with pytest.raises(ConfigError, match="is one run"):
        eclose.compare(first)
    with pytest.raises(ConfigError, match="spaces is for new searches"):
        eclose.compare(first, second, spaces="xd,backbone")
    with pytest.raises(ConfigError, match="run.tensorboard is for new searches"):
        eclose.compare(first, second, settings={"run.tensorboard": False})
    with pytest.raises(RunError, match=r"holds several runs: `eclose compare .*`"):
        eclose.resume(finished.folder or "")
    other = eclose.search(data=fields(1), space="backbone", epochs=1, settings=SMALL, out=tmp_path / "other")
    with pytest.raises(RunError, match="other data"):
        eclose.compare(first, other.run)
    mae = {**SMALL, "task.metric": "mae"}
    judged = eclose.search(data=fields(), space="backbone", epochs=1, settings=mae, out=tmp_path / "mae")
    with pytest.raises(RunError, match="judged by mae and"):
        eclose.compare(first, judged.run)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"spaces": "xd"}, "two spaces or more"),
        ({"spaces": "xd,xd"}, "twice"),
        ({"spaces": "xd,nothing"}, "unknown space 'nothing'"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": 10**8}, "seeds is 100000000, but must be from 1 to 100"),
        ({"data": None}, "no data"),
        ({"settings": {**SMALL, "space.name": "xd"}}, "'space.name' cannot be set: .* --spaces says how"),
        ({"settings": {**SMALL, "run.seed": 3}}, "'run.seed' cannot be set: .* --seed says how"),
        ({"settings": {**SMALL, "backbone.name": "mlp"}}, "mlp"),
    ],
)
def test_mistakes_are_found_before_anything_is_written(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(EcloseError, match=said):
        compared(tmp_path / "both", **given)
    assert not (tmp_path / "both").exists()


def test_an_interrupted_comparison_goes_on(tmp_path: Path, finished: eclose.Comparison) -> None:
    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "comparison" and fields["place"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"eclose.compare\('.*', data=...\)"):
        compared(tmp_path / "both", seeds=2, listeners=[stop])
    done = [path.parent.name for path in (tmp_path / "both").glob("*/result.json")]
    assert sorted(done) == ["backbone-0", "xd-0"]
    again = eclose.compare(tmp_path / "both", data=fields(), progress=False)
    same = [{key: row[key] for key in ("name", "valid", "test")} for row in again.metrics["rows"]]
    assert same == [{key: row[key] for key in ("name", "valid", "test")} for row in finished.metrics["rows"]]


def test_a_signal_is_noticed_wherever_it_comes(tmp_path: Path) -> None:
    def press(at: str) -> Callable[[str, dict[str, Any]], None]:
        return lambda event, fields: signal.raise_signal(signal.SIGINT) if event == at else None

    with pytest.raises(KeyboardInterrupt, match="before the first search began"):
        compared(tmp_path / "early", listeners=[press("data")])
    assert not (tmp_path / "early").exists()
    with pytest.raises(KeyboardInterrupt, match=r"eclose.compare\('.*', data=...\)"):
        compared(tmp_path / "later", listeners=[press("result")])
    assert [path.parent.name for path in (tmp_path / "later").glob("*/result.json")] == ["backbone"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"data": "mine.npz"}, "--data is for new"),
        ({"data": {}}, "data is for searches"),
        ({"backbone": "cnn"}, "backbone is for searches"),
        ({"seeds": 2}, "--seeds is for new"),
        ({"seed": 1}, "--seed is for new"),
        ({"minutes": 1.0}, "budget.minutes is for new"),
        ({"kind": "regression"}, "task.kind is for new"),
        ({"settings": {"train.batch": 3}}, "train.batch is for new"),
    ],
)
def test_runs_are_compared_as_they_are(finished: eclose.Comparison, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        eclose.compare(*finished.runs, **given)


@pytest.mark.parametrize("runs", [[], "xd", [""], [".."], ["a/b"], [1], None])
def test_a_damaged_comparison_costs_one_line(tmp_path: Path, runs: Any) -> None:
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": runs}))
    with pytest.raises(RunError, match="is damaged"):
        eclose.compare(tmp_path)


@pytest.mark.parametrize(
    "damage", [{"kind": 3}, {"trial": "a"}, {"valid": 1e400}, {"test": 10**400}, {"metric": {"name": "a", "goal": ""}}]
)
def test_a_damaged_result_costs_one_line(finished: eclose.Comparison, tmp_path: Path, damage: dict[str, Any]) -> None:
    shutil.copytree(finished.runs[0], tmp_path / "run")
    told = json.loads((tmp_path / "run" / "result.json").read_text())
    (tmp_path / "run" / "result.json").write_text(json.dumps(told | damage))
    with pytest.raises(RunError, match="damaged"):
        eclose.compare(finished.runs[1], tmp_path / "run")


def test_searches_without_figures_have_no_first(finished: eclose.Comparison) -> None:
    rows = tuple(dataclasses.replace(row, valid=()) for row in finished.standing.rows)
    assert verdict(dataclasses.replace(finished.standing, rows=rows)) == "No search has a figure on validation samples."


def test_a_search_that_fails_does_not_stop_the_others(tmp_path: Path, finished: eclose.Comparison) -> None:
    assert finished.folder is not None
    shutil.copytree(finished.folder, tmp_path / "both")
    broken = tmp_path / "both" / "xd-1"
    (broken / "result.json").unlink()
    (broken / "data.json").write_text("{")
    again = eclose.compare(tmp_path / "both", data=fields(), progress=False, trust=True)
    assert len(again.runs) == 3
    assert again.failed[0].startswith("xd-1: ")
    assert "failed: xd-1" in str(again)
    shutil.rmtree(broken)
    assert eclose.compare(tmp_path / "both", data=fields(), progress=False).failed[0].startswith("xd-1: ")


def test_the_command_line(call: Call, tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", **fields())
    pairs = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    new = ("compare", "--data", tmp_path / "mine.npz", "--spaces", "backbone,xd", "--epochs", 1, "--out", "both")
    status, out, err = call(*new, *pairs, "--json")
    assert status == 0
    assert json.loads(out)["folder"] == "both"
    assert "search 2 of 2: xd" in err
    status, out, _ = call("compare", "both")
    assert (status, "comparison.html" in out) == (0, True)
    status, _, err = call(*new, *pairs)
    assert (status, "or `eclose compare both`" in err) == (2, True)
    status, _, err = call("show", "both")
    assert (status, "holds several runs" in err) == (2, True)
    shutil.move("both", "runs")  # where runs lie
    Path("runs").rename("one")
    Path("runs").mkdir()
    Path("one").rename("runs/one")
    status, out, _ = call("show", "runs", "--json")
    assert {row["space"] for row in json.loads(out)["runs"]} == {"backbone", "xd"}


def test_a_folder_that_is_no_run_is_told_so(finished: eclose.Comparison, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such folder"):
        eclose.compare(tmp_path / "mistyped")
    with pytest.raises(RunError, match="no config.toml"):
        eclose.compare(tmp_path)


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_no_word_is_cut_off(finished: eclose.Comparison, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert verdict(finished.standing) in " ".join(str(finished).split())
    if int(columns) >= 80:
        assert re.search(r"parameters *┃ *time *┃", str(finished))


def test_folders_are_told_apart_in_80_columns(finished: eclose.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"runs/{'a-long-name' * 4}-{end}" for end in ("first", "second")]
    searches = [
        dataclasses.replace(row, name=name) for row, name in zip(finished.standing.searches, names, strict=True)
    ]
    standing = dataclasses.replace(finished.standing, rows=(*searches, *finished.standing.rows[2:]))
    shown = str(dataclasses.replace(finished, standing=standing)).splitlines()
    cells = "".join(line.split("│")[1].strip() for line in shown if line.startswith("│"))
    assert all(name in cells for name in names)


def test_any_failure_of_one_search_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eclose.api import comparing

    def failing(path: Path, **how: Any) -> Any:
        if path.name == "discrete":
            raise ValueError("of the user's own network")
        return eclose.resume(path, **how)

    monkeypatch.setattr(comparing, "resume", failing)
    found = compared(tmp_path / "three", spaces="discrete,backbone,xd")
    assert found.failed == ("discrete: ValueError: of the user's own network",)
    assert len(found.runs) == 2


def test_what_a_failed_search_held_is_gone_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eclose.api import comparing

    held = list[weakref.ref[nn.Module]]()
    left = list[nn.Module | None]()

    def training() -> None:
        network = nn.Linear(2, 2)
        held.append(weakref.ref(network))
        network(torch.zeros(3))

    def failing(path: Path, **how: Any) -> Any:
        if path.name == "discrete":
            try:
                training()
            except RuntimeError as error:
                raise EcloseError("its network failed") from error
        left.extend(each() for each in held)
        return eclose.resume(path, **how)

    monkeypatch.setattr(comparing, "resume", failing)
    assert compared(tmp_path / "three", spaces="discrete,backbone,xd").failed == ("discrete: its network failed",)
    assert left == [None, None]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    refused, given = list[str](), fields()

    def again(event: str, fields: dict[str, Any]) -> None:
        if event == "comparison":
            with pytest.raises(RunError, match="both is in use by another process") as error:
                eclose.compare(tmp_path / "both", data=given, progress=False)
            refused.append(str(error.value))

    assert compared(tmp_path / "both", listeners=[again]).failed == ()
    assert len(refused) == 2


def test_a_finished_comparison_is_shown_where_nothing_can_be_written(
    finished: eclose.Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eclose.api import comparing

    def refuse(*given: Any) -> None:
        raise OSError(30, "Read-only file system")

    assert finished.folder is not None
    monkeypatch.setattr(comparing, "write_json", refuse)
    assert eclose.compare(finished.folder).metrics["rows"] == finished.metrics["rows"]


def test_a_comparison_names_no_run_that_was_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eclose import launch

    create = launch._create

    def killed(folder: Path, *what: Any) -> None:
        if folder.name == "xd":
            raise SystemExit
        create(folder, *what)

    monkeypatch.setattr(launch, "_create", killed)
    with pytest.raises(SystemExit):
        compared(tmp_path / "both")
    assert not (tmp_path / "both" / "comparison.json").exists()


def test_a_signal_before_the_first_search_says_how_to_go_on(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eclose import launch
    from eclose.api import comparing

    prepare = launch.prepare_runs

    def pressed(*given: Any) -> Path:
        folder = prepare(*given)
        signal.raise_signal(signal.SIGINT)
        return folder

    monkeypatch.setattr(comparing, "prepare_runs", pressed)
    np.savez(tmp_path / "mine.npz", **fields())
    pairs = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    new = ("compare", "--data", tmp_path / "mine.npz", "--spaces", "backbone,xd", "--epochs", 1, "--out", "both")
    status, _, err = call(*new, *pairs)
    assert (status, "go on with: eclose compare both" in err) == (130, True)
