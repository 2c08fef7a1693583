"""Searches that draw networks, on real data: what every such strategy must do."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import eclose
from eclose.runs import Run
from eclose.spaces.einspace import parse, to_json
from eclose.tasks import load_task
from tests.contracts.cases import assert_same_run, rows, timeless

SETTINGS: dict[str, Any] = {
    "run.threads": 1,
    "task.subset": 150,
    "task.subset_eval": 80,
    "train.batch": 32,
    "space.nodes": 40,
    "space.flops": 1e6,
    "run.checkpoint_seconds": 0.0,
}


def search(folder: Path, strategy: str = "evolution", **arguments: Any) -> eclose.Result:
    scratch = {"strategy.start": "scratch"} if strategy == "evolution" else {}
    settings = {**SETTINGS, **scratch, **arguments.pop("settings", {})}
    given = {"task": "digits", "space": "einspace", "epochs": 3, "trials": 9, "out": folder, **arguments}
    return eclose.search(strategy=strategy, settings=settings, **given)


GUIDED = {"strategy.prefilter": 3, "strategy.learn": 0.7}


@pytest.fixture(scope="module", params=["random", "evolution", "guided"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param) / "run"
    guided = request.param == "guided"
    search(folder, "evolution" if guided else request.param, settings=GUIDED if guided else {}, baselines=["lenet"])
    return folder


def test_every_trial_is_another_network(whole: Path) -> None:
    trials = rows(whole)
    assert [trial.number for trial in trials] == list(range(9))
    assert len({trial.genotype["digest"] for trial in trials}) == 9
    assert len({trial.seed for trial in trials}) == 9
    assert all(trial.state == "done" for trial in trials)
    assert Run.open(whole).config.budget.trials == 9


def test_trials_that_fall_behind_end_early(whole: Path) -> None:
    lengths = {trial.epochs: trial.reason for trial in rows(whole)}
    assert set(lengths) == {1, 3}
    assert lengths[3] == ""
    assert lengths[1].startswith("stopped after epoch 1: not among the best 1/3 of")


def test_the_best_is_trained_anew_on_all_but_the_test_samples(whole: Path) -> None:
    finals = rows(whole, "final")  # a second one, if the first was worse than the trial
    best = max(rows(whole), key=lambda trial: trial.valid or 0.0)
    assert finals
    assert len({trial.seed for trial in (best, *finals)}) == 1 + len(finals)
    for final in finals:
        assert (final.hash, final.valid, final.state) == (best.hash, best.valid, "done")
        assert final.test is not None
        assert all("valid" not in entry for entry in final.history)
    events = [json.loads(line) for line in (whole / "events.jsonl").read_text().splitlines()]
    steps = {event["role"]: event["steps"] for event in events if event["event"] == "trial"}
    assert steps == {"search": 5, "final": 8, "baseline": 8}  # of 150 and of 150 + 80 samples in batches of 32


def test_the_test_samples_are_looked_at_once(whole: Path) -> None:
    result = Run.open(whole).result
    assert result is not None
    assert all(trial.test is None for trial in rows(whole) if trial.number != result["trial"])
    finals, (baseline,) = rows(whole, "final"), rows(whole, "baseline")
    assert baseline.valid is None
    found = Run.open(whole).table.all()[result["trial"]]
    assert (result["test"], result["valid"]) == (found.test, found.valid)
    assert result["baselines"][0]["test"] == baseline.test
    assert [entry["trial"] for entry in result["finals"]] == [final.number for final in finals]


def test_the_network_is_found_again(whole: Path) -> None:
    config = Run.open(whole).config
    result = Run.open(whole).result
    assert result is not None
    assert to_json(parse(result["network"])) == rows(whole, "final")[0].genotype["tree"]
    assert result["search"]["best"] == max(trial.valid or 0 for trial in rows(whole))
    task = load_task(config.task, lambda done, total: None)
    assert task.test is not None
    x, y = task.test.all()
    with torch.no_grad():
        accuracy = float((eclose.load(whole)(x).argmax(1) == y).double().mean())
    assert accuracy == result["test"]


def test_weights_of_losers_are_deleted(whole: Path) -> None:
    best = max(rows(whole), key=lambda trial: trial.valid or 0.0)
    numbers = {best.number, *(trial.number for role in ("final", "baseline") for trial in rows(whole, role))}
    assert {int(path.parent.name) for path in whole.glob("trials/*/weights.safetensors")} == numbers


def test_an_interrupted_search_ends_with_the_same_bits(whole: Path, tmp_path: Path) -> None:
    moments = [("epoch", 2), ("trial", 4), ("trial_end", 6), ("epoch", 9), ("trial_end", 9), ("trial", 10)]

    def trip(event: str, fields: dict[str, Any]) -> None:
        if (event, fields.get("trial")) in moments:
            moments.remove((event, fields["trial"]))
            raise KeyboardInterrupt

    strategy = Run.open(whole).config.strategy
    settings = {f"strategy.{name}": value for name, value in strategy.options.items()}
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "run", strategy.name, settings=settings, baselines=["lenet"], listeners=[trip])
    while moments:
        with pytest.raises(KeyboardInterrupt):
            eclose.resume(tmp_path / "run", listeners=[trip])
    eclose.resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", whole)


def test_known_networks_as_a_start(tmp_path: Path) -> None:
    settings = {"space.seeds": ["mixer", "vit"], "strategy.start": "mix", "task.subset": 40, "task.subset_eval": 20}
    result = search(tmp_path / "run", epochs=1, trials=3, settings={**settings, "final.networks": 0})
    sizes = [trial.parameters or 0 for trial in rows(result.run)]
    assert min(sizes[:2]) > 1e6
    assert sizes[2] > 0


def test_several_objectives_report_a_front(tmp_path: Path) -> None:
    result = search(tmp_path / "run", trials=6, settings={"strategy.objectives": ["error", "parameters"]})
    front = result.metrics["front"]
    assert front
    assert front[0]["valid"] == result.metrics["search"]["best"]
    for worse, better in zip(front, front[1:], strict=False):
        assert worse["parameters"] > better["parameters"]
        assert worse["valid"] > better["valid"]


def test_trials_have_names_and_parents(whole: Path) -> None:
    trials = rows(whole)
    assert {trial.name for trial in trials} == {f"{trial.origin} {trial.hash[:4]}" for trial in trials}
    evolved = [trial for trial in trials if trial.origin == "mutated"]
    for trial in evolved:
        root = next(t for t in trials if t.name == trial.genotype["descent"]["root"])
        assert root.origin == "drawn"
        kin = "child" if trial.genotype["descent"]["generation"] == 1 else "descendant"
        assert trial.description.startswith(f"{kin} of {root.name}: ")
        asked = json.loads((whole / "trials" / str(trial.number) / "asked.json").read_text())
        assert asked["description"] == trial.description
    assert all(len(trial.parents) == 1 and trial.parents[0] < trial.number for trial in evolved)
    assert len(evolved) == (7 if Run.open(whole).config.strategy.name == "evolution" else 0)
    assert Run.open(whole).config.final.networks == 1


def test_latency_is_measured_and_recorded(tmp_path: Path) -> None:
    settings = {"strategy.objectives": ["error", "latency"]}
    result = search(tmp_path / "run", trials=6, epochs=1, baselines=["lenet"], settings=settings)
    trials = Run.open(result.run).table.all()
    assert all(trial.latency is not None and 0.01 < trial.latency < 1000 for trial in trials)
    front = result.metrics["front"]
    assert [entry["latency"] for entry in front] == [trials[entry["trial"]].latency for entry in front]
    for worse, better in zip(front, front[1:], strict=False):
        assert worse["latency"] > better["latency"]
        assert worse["valid"] > better["valid"]
    assert result.metrics["latency"] == trials[result.metrics["trial"]].latency
    assert result.metrics["baselines"][0]["latency"] == trials[-1].latency


def test_a_latency_that_was_recorded_is_not_measured_again(tmp_path: Path) -> None:
    """What was tried later followed from it."""
    settings = {"strategy.objectives": ["error", "latency"], "final.networks": 0}

    def trip(event: str, fields: dict[str, Any]) -> None:
        if (event, fields.get("trial")) == ("trial", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "run", trials=6, epochs=1, settings=settings, listeners=[trip])
    before = rows(tmp_path / "run")[:4]
    for weights in (tmp_path / "run").glob("trials/*/weights.safetensors"):
        weights.unlink()  # the best must be trained again
    eclose.resume(tmp_path / "run")
    after = rows(tmp_path / "run")
    assert [timeless(trial) for trial in after[:4]] == [timeless(trial) for trial in before]
    assert len(after) == 6
