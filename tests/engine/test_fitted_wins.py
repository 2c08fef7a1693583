"""The linear model in a portfolio: where no network is ahead of it, it is what the run found."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import eclose
from eclose.config import Config
from eclose.display.sections.headline import chance, fitted_won
from eclose.engine import Search, complete, load_trial_model
from eclose.engine.predictors import Predictor, fit_predictors
from eclose.engine.predictors.fit import record_fitted
from eclose.engine.predictors.linear import linear_model
from eclose.engine.standings import standings
from eclose.errors import ConfigError
from eclose.runs import Run, Trial
from eclose.tasks import Task
from tests.engine.predictors.tasks import metric_of, normal, task

# One network, whose single epoch teaches it nothing: the linear model wins, on every machine.
QUICK = {"budget.trials": 1, "train.epochs": 1, "train.batch": 8, "run.threads": 1, "backbone.width": 4}

Arrays = dict[str, Any]


def spectra(count: int = 60) -> tuple[Any, Any]:
    """Six peaks on 200 points, far from zero; a weighted sum of their heights."""
    heights, points = normal(count, 6), np.arange(200)
    peaks = np.stack([np.exp(-(((points - centre) / 12) ** 2)) for centre in (20, 50, 80, 110, 140, 170)])
    x = 50 + heights @ peaks + 0.02 * normal(count, 200, seed=1)
    return x.astype(np.float32)[:, None], heights @ np.array([1, -1, 0.5, 0.7, -0.3, 0.2])


def classes() -> Arrays:
    x, y = spectra()
    return {"x": x, "y": (y > 0).astype(np.int64)}


def values() -> Arrays:
    x, y = spectra()
    return {"x": x, "y": y.astype(np.float32)}


def fields() -> Arrays:
    x = 7 + normal(60, 1, 40).astype(np.float32)
    return {"x": x, "y": np.roll(x, 1, -1) - 2 * x + 0.01 * normal(60, 1, 40, seed=1).astype(np.float32)}


def letters() -> Arrays:
    x = np.random.default_rng(0).integers(0, 9, (60, 12))
    return {"x": x, "y": (x == 3).any(1).astype(np.int64)}


def search(data: Arrays, out: Path, **given: Any) -> eclose.Result:
    settings = {**QUICK, **given.pop("settings", {})}
    given = {"minutes": 600.0, "backbone": "tcn", "progress": False, **given}
    return eclose.search(data=data, out=out, settings=settings, **given)


@pytest.fixture(scope="module", autouse=True)
def _no_other_fit() -> Iterator[None]:
    """What random filters are good for has a test of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eclose.engine.predictors.fit.filters_for", lambda task, seconds: 0)
        yield


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
    return search(classes(), tmp_path_factory.mktemp("linear") / "run")


def test_it_is_the_result(won: eclose.Result) -> None:
    told = won.metrics
    assert (told["name"], told["valid"], told["test"]) == ("linear model", 1.0, pytest.approx(8 / 9))
    assert told["search"]["fitted"] == "linear model"
    assert told["search"]["best"] == 1.0
    assert told["unbeaten"] == []
    assert [(row["name"], row["kind"]) for row in told["baselines"]] == [
        ("tcn", "network"),
        ("most frequent class", "trivial"),
    ]
    assert told["search"]["ahead"] == pytest.approx(1.0 - told["baselines"][0]["valid"])
    assert json.loads((won.run / "result.json").read_text())["name"] == "linear model"


def test_it_has_a_row_and_one_for_its_fit_to_all_samples(won: eclose.Result) -> None:
    linear, network, final = Run.open(won.run).table.all()
    assert [(row.role, row.name, row.state) for row in (linear, network, final)] == [
        ("fitted", "linear model", "done"),
        ("search", "tcn", "done"),
        ("final", "linear model", "done"),
    ]
    assert won.metrics["trial"] == final.number
    assert (linear.epochs, linear.history, linear.allowed) == (None, [], None)
    assert linear.seconds is not None
    assert (linear.parameters, final.parameters) == (602, 602)
    assert (final.valid, final.fit) == (linear.valid, 1.0)
    one, all_samples = (
        load_file(won.run / "trials" / str(row.number) / "weights.safetensors") for row in (linear, final)
    )
    assert not torch.equal(one["network.weight"], all_samples["network.weight"])


def test_it_is_asked_exported_and_explained(won: eclose.Result, tmp_path: Path) -> None:
    data = classes()
    x = torch.from_numpy(data["x"])
    answers = eclose.predict(won.run, data["x"], y=data["y"])
    assert answers.score == pytest.approx(59 / 60)
    eclose.export(won.run, tmp_path / "bundle")
    assert torch.equal(eclose.load(tmp_path / "bundle")(x), won.model(x))
    program, _ = eclose.export(won.run, tmp_path / "program", format="pt2")
    torch.testing.assert_close(torch.export.load(program).module()(x), won.model(x))
    assert eclose.load(won.run, trial=0)(x).shape == (60, 2)
    for text in (str(eclose.explain(won.run)), str(eclose.explain(won.run, trial=0))):
        assert "one linear map, fitted in closed form, not trained" in text
        assert "the whole input, as 200 numbers" in text


def test_the_table_and_the_page_say_so(won: eclose.Result) -> None:
    behind = f"network, tcn, is behind by {won.metrics['search']['ahead']:.3g} on validation samples"
    table = " ".join(str(won).replace("\n", " ").split())
    assert "the linear model won: no network was better; 1 network tried" in table
    assert f"the best {behind}" in table
    assert table.count("linear model │") == 1
    page = eclose.report(won.run).read_text(encoding="utf-8")
    assert "The linear model won: no network was better. It reaches an accuracy of 88.9 %" in page
    assert f"The best {behind}." in page
    assert "The most frequent class reaches 55.6 %." in page
    assert "fitted in closed form, once more to validation samples too" in page
    assert (page.count('<tr class="found">'), page.count('<tr class="untrained">')) == (1, 1)


def test_a_run_of_an_earlier_version_called_it_linear(won: eclose.Result, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(won.run, run)
    for name in ("config.toml", "settings.toml"):
        text = (run / name).read_text()
        assert "fitted = true" in text
        (run / name).write_text(text.replace("fitted = true", "linear = true"))
    with sqlite3.connect(run / "trials.sqlite") as table:
        table.execute("UPDATE trials SET role = 'linear' WHERE role = 'fitted'")
    table.close()
    told = json.loads((run / "result.json").read_text())
    del told["search"]["fitted"]
    told["search"]["linear"] = True
    told["baselines"].append({**told["baselines"][1], "name": "linear model", "kind": "linear"})
    (run / "result.json").write_text(json.dumps(told))
    opened = Run.open(run)
    assert opened.result["search"]["fitted"] == "linear model"
    assert [row["kind"] for row in opened.result["baselines"]] == ["network", "trivial", "fitted"]
    assert [row.role for row in opened.table.all()] == ["fitted", "search", "final"]
    assert "The linear model won: no network was better." in eclose.report(run).read_text(encoding="utf-8")
    (run / "result.json").unlink()
    again = eclose.resume(run, data=classes(), progress=False)
    assert (again.metrics["name"], again.metrics["test"]) == ("linear model", won.metrics["test"])
    assert len(opened.table.all()) == 3


def test_there_is_nothing_to_train_again(won: eclose.Result, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="was fitted, not trained: `eclose search` on the data fits it anew") as error:
        eclose.retrain(won.run, data=classes(), out=tmp_path / "again")
    assert "\n" not in str(error.value)
    again = eclose.retrain(won.run, trial=1, data=classes(), out=tmp_path / "again", epochs=1, progress=False)
    assert again.metrics["name"] == "tcn"


@pytest.mark.parametrize("event", ["to_beat", "trial", "trial_end"])
def test_an_interrupted_run_ends_with_the_same_bits(won: eclose.Result, tmp_path: Path, event: str) -> None:
    def trip(name: str, told: dict[str, Any]) -> None:
        if name == event:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(classes(), tmp_path / "run", listeners=[trip])
    before = [row for row in Run.open(tmp_path / "run").table.all() if row.role == "fitted"]
    assert len(before) == (event != "to_beat")
    result = eclose.resume(tmp_path / "run", data=classes(), progress=False)
    after = Run.open(tmp_path / "run").table.all()
    assert before in ([], after[:1])
    assert [row.role for row in after] == ["fitted", "search", "final"]
    assert result.metrics["trial"] == 2
    for name in ("weights.safetensors", "trials/0/weights.safetensors"):
        ours, theirs = load_file(tmp_path / "run" / name), load_file(won.run / name)
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_weights_that_somebody_deleted_are_fitted_again(won: eclose.Result, tmp_path: Path) -> None:
    search(classes(), tmp_path / "run")
    for path in ("result.json", "trials/0/weights.safetensors", "trials/2/weights.safetensors"):
        (tmp_path / "run" / path).unlink()
    result = eclose.resume(tmp_path / "run", data=classes(), progress=False)
    assert [row.role for row in Run.open(result.run).table.all()] == ["fitted", "search", "final"]
    assert torch.equal(result.model.get_submodule("network").weight, won.model.get_submodule("network").weight)


@pytest.mark.parametrize(
    ("data", "given", "sees"),
    [
        (values, {}, "the whole input, as 200 numbers"),
        (fields, {}, "the same filter for every position (window 79)"),
        (letters, {"tokens": True}, "how often each token occurs, as 9 numbers"),
    ],
)
def test_other_questions(
    data: Callable[[], Arrays], given: dict[str, Any], sees: str, won: eclose.Result, tmp_path: Path
) -> None:
    result = search(data(), tmp_path / "run", **given)
    assert result.metrics["name"] == "linear model"
    assert sees in " ".join(str(eclose.explain(result.run)).split())
    trained = next(row for row in result.metrics["baselines"] if row["kind"] == "network")
    judged = Run.open(result.run).table.all()[result.metrics["trial"]]
    assert judged.role == "final"
    goal = 1 if result.metrics["metric"]["goal"] == "max" else -1
    assert goal * (result.metrics["test"] - trained["test"]) > 0
    x, y = data()["x"], data()["y"]
    assert eclose.predict(result.run, x[:3], y=y[:3]).score is not None


def test_without_test_samples_it_stays_as_it_was_fitted(tmp_path: Path) -> None:
    data = classes()
    parts = {"train": slice(0, 45), "val": slice(45, 60)}
    given = {f"{name}_{part}": data[name][where] for part, where in parts.items() for name in ("x", "y")}
    result = search(given, tmp_path / "run")
    assert (result.metrics["name"], result.metrics["trial"]) == ("linear model", 0)
    assert [row.role for row in Run.open(result.run).table.all()] == ["fitted", "search"]
    assert "The linear model won" in (result.run / "report.html").read_text(encoding="utf-8")


def stripes() -> Arrays:
    """Lying or standing, light on dark or dark on light: the mean of both classes is the same."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    lines = np.cos(np.pi * np.arange(8)) * np.ones((8, 1))
    sign = rng.choice([-1, 1], size=(60, 1, 1))
    x = sign * np.where(y[:, None, None] == 0, lines, lines.T) + 0.1 * rng.normal(size=(60, 8, 8))
    return {"x": x.astype(np.float32)[:, None], "y": y}


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
    settings = {"train.epochs": 12, "optimiser.learning_rate": 0.01}
    return search(stripes(), tmp_path_factory.mktemp("network") / "run", backbone="resnet", settings=settings)


def test_a_network_that_is_ahead_wins_as_before(lost: eclose.Result) -> None:
    told = lost.metrics
    assert told["name"] == "resnet"
    assert "fitted" not in told["search"]
    assert [(row["name"], row["kind"]) for row in told["baselines"]] == [
        ("most frequent class", "trivial"),
        ("linear model", "fitted"),
    ]
    assert told["search"]["networks"] == told["trials"] == 1
    assert [row.role for row in Run.open(lost.run).table.all()] == ["fitted", "search", "final"]
    page = (lost.run / "report.html").read_text(encoding="utf-8")
    assert (page.count('<tr class="found">'), page.count('<tr class="untrained">')) == (1, 2)
    assert "linear model won" not in page
    assert "linear model won" not in str(lost)


def test_a_model_that_lost_can_be_asked_too(lost: eclose.Result) -> None:
    data = stripes()
    assert eclose.predict(lost.run, data["x"], trial=0)["label"].shape == (60,)


def test_it_can_be_left_out(tmp_path: Path) -> None:
    result = search(classes(), tmp_path / "run", settings={"strategy.fitted": False})
    assert result.metrics["name"] == "tcn"
    assert [row.role for row in Run.open(result.run).table.all()] == ["search", "final"]
    assert result.metrics["unbeaten"][0] == "linear model"


def judged(name: str, valid: float | None, stage: str = "long") -> Trial:
    space, role = ("xd" if "xd" in name else "backbone"), "fitted" if name == "linear" else "search"
    return Trial(0, role, name, space, {}, name, 0, state="done", origin=stage, valid=valid, parameters=1)


def first(linear: float | None, *trials: Trial, goal: Any = "max", chance: float = 0.0) -> str:
    return standings(trials, goal, "backbone", chance, judged("linear", linear, ""))[0].name


def test_who_is_first() -> None:
    net, xd = judged("net", 0.90), judged("xd", 0.91)
    assert first(0.92, net, xd) == "linear"
    assert first(0.91, net, xd) == "xd", "of equals the network"
    assert first(0.905, net, xd) == "xd"
    assert first(0.905, net, xd, chance=0.01) == "net", "what you get is never worse than the best plain network"
    assert first(0.9 + 2e-13, judged("net", 0.9 + 1e-13)) == "net", "means are rounded"
    assert first(None, net, xd) == "xd"
    assert first(0.95, net, judged("lucky", 0.99, "short")) == "linear", "short trainings do not count any more"
    assert first(0.1, judged("net", 0.2), goal="min") == "linear"
    assert first(0.3, judged("net", 0.2), goal="min") == "net"
    assert standings([], "max", "backbone", 0.0, judged("linear", 0.9)) == [], "that nothing could be trained is said"


@pytest.mark.parametrize(
    ("ahead", "rival"),
    [
        (0.25, "is behind by 0.25 on validation samples"),
        (0.0, "is as good on validation samples"),
    ],
)
def test_how_it_won(ahead: float, rival: str) -> None:
    told = {"fitted": "linear model", "ahead": ahead, "rival": "tcn"}
    assert fitted_won(told) == "the linear model won: no network was better"
    assert chance(told) == f"the best network, tcn, {rival}"
    assert fitted_won({"plain": True, "ahead": ahead}) == ""


def images_of_bytes() -> Task:
    x = np.random.default_rng(0).integers(0, 256, (40, 5, 6, 3)).astype(np.uint8)
    return task(x, x[:, 0, 0, 0] > 127, kind="classification", channels="last")


MADE: dict[str, Callable[[], Task]] = {
    "bytes": images_of_bytes,
    "of very different size": lambda: task(
        normal(40, 2, 9) * 10.0 ** np.linspace(-3, 3, 40)[:, None, None], np.arange(40) % 2, kind="classification"
    ),
    "far from zero": lambda: task(1e3 + normal(40, 2, 9), normal(40, 3)),
    "pooled": lambda: task(normal(30, 1, 2500), normal(30)),
    "filter": lambda: task(normal(40, 2, 9, 8), normal(40, 9, 8)),
    "filter with places": lambda: task(normal(40, 1, 200), normal(40, 200) + 9 * np.arange(200)),
    "segmentation": lambda: task(normal(40, 1, 12), np.arange(480).reshape(40, 12) % 3),
    "shares": lambda: task(np.random.default_rng(0).integers(0, 9, (40, 12)), normal(40), tokens=True),
    "table": lambda: task(
        np.random.default_rng(0).integers(0, 9, (40, 12)), np.arange(480).reshape(40, 12) % 4, tokens=True
    ),
}


def linear(made: Task) -> Predictor:
    return next(each for each in fit_predictors(made, metric_of(made)) if each.kind == "fitted")


@pytest.mark.parametrize("name", MADE)
def test_what_is_loaded_answers_bit_for_bit_as_what_was_fitted(name: str, tmp_path: Path) -> None:
    made = MADE[name]()
    fitted = linear(made)
    pointwise = ["pointwise"] if made.signature.kind == "dense" and not made.signature.tokens else []
    for setting in [True, "levels"] if made.scale.levels else [True, False, *pointwise]:
        config = complete(Config().with_values({"space.name": "backbone", "task.standardise": setting}), made)
        folder = tmp_path / str(setting)
        run = Run.create(folder, config, {})
        row = record_fitted(run, Search.of(config, made), fitted, 0, "fitted", 0)
        x, _ = made.val.all()
        assert torch.equal(load_trial_model(run, row, made.signature)(x), fitted.model(x))
        assert (row.state, row.parameters) == ("done", fitted.row()["parameters"])


def test_more_samples_have_the_penalty_that_was_chosen() -> None:
    made = task(normal(60, 1, 20), normal(60, 1, 20, seed=1))
    fitted, metric = linear(made), metric_of(made)
    again = fitted.fitted_to(made, made, metric)
    assert again.valid == fitted.valid
    assert all(map(torch.equal, again.model.state_dict().values(), fitted.model.state_dict().values()))
    other = replace(fitted, fit=partial(linear_model, place=0)).fitted_to(made, made, metric)
    assert not torch.equal(other.model.state_dict()["weight"], fitted.model.state_dict()["weight"])
