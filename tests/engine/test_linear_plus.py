"""Networks behind a fitted linear map: whole runs, and when a portfolio tries them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import eclose
from eclose.backbones.linear_plus import LinearPlus
from eclose.config import Config
from eclose.engine import Search, complete, make_strategy
from eclose.engine.final import final_search
from eclose.engine.portfolio import LONG, SHORT
from eclose.engine.runner import begin_with
from eclose.engine.strategy import plain_training
from eclose.errors import ConfigError, TaskError
from eclose.runs import Trial
from eclose.spaces import Genotype, backbone_genotype
from eclose.tasks import Reading, task_from_arrays
from eclose.train import Training
from tests.contracts.cases import AROUND, Case, assert_same_run, rows

MAP = ("mean", "basis", "weight", "bias", "spread")
SMALL = {"backbone.network": "cnn", "backbone.width": 4, "train.batch": 20}


def mixed(samples: int = 120, points: int = 12) -> dict[str, Any]:
    """Values far from each other are added up, and bent a little."""
    rng = np.random.default_rng(0)
    x = 5 + rng.normal(size=(samples, 1, points))
    weight = rng.normal(size=(points, points)) / points**0.5
    linear = (x - 5) @ weight
    y = linear - 0.05 * linear**3 + 0.05 * rng.normal(size=x.shape)
    return {"x": x.astype(np.float32), "y": (100 * y).astype(np.float32)}


CASE = Case(mixed, SMALL)


def run_of(folder: Path, **given: Any) -> eclose.Result:
    return CASE.run(folder, "backbone", backbone="linear_plus", **given)


def map_of(run: Path, number: int) -> dict[str, Tensor]:
    weights = load_file(run / "trials" / str(number) / "weights.safetensors")
    return {name: weights[f"network.{name}"] for name in MAP}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in MAP)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
    return run_of(tmp_path_factory.mktemp("linear-plus") / "run", epochs=2)


def test_it_begins_where_the_linear_model_is_and_gets_better(done: eclose.Result) -> None:
    (linear,) = [row for row in done.metrics["baselines"] if row["name"] == "linear model"]
    assert done.metrics["valid"] < 1.05 * linear["valid"]
    assert done.metrics["valid"] < 0.6
    (row,) = rows(done.run)
    assert row.parameters == sum(p.numel() for p in done.model.parameters())


def test_a_run_that_was_interrupted_ends_with_the_same_bits(done: eclose.Result, tmp_path: Path) -> None:
    CASE.interrupted(tmp_path / "again", "backbone", (0, 1), backbone="linear_plus", epochs=2)
    assert_same_run(tmp_path / "again", done.run)


def test_a_training_goes_on_with_maps_that_belong_together(tmp_path: Path) -> None:
    """The directions of a map have no sign. Those of a checkpoint, from another machine, may be turned."""
    search, around = CASE.search(backbone="linear_plus"), replace(AROUND, checkpoint=tmp_path / "checkpoint")
    x = search.task.train.take(torch.arange(8))[0]

    def trained() -> Training:
        torch.manual_seed(0)
        made = plain_training(search, search.start, around)
        training = Training(made.model, made.task, made.step, made.config, around)
        training.run()
        return training

    first = trained()
    there = first.model.get_submodule("network")
    answers = first.model.train()(x)
    for name, axis in (("basis", 0), ("weight", 1)):
        there.get_buffer(name).mul_(torch.tensor([-1.0, 1.0] * 6).unsqueeze(axis))
    first.best_weights = None
    first.save()
    again = trained()
    torch.testing.assert_close(again.model.train()(x), answers)


def test_averaged_weights_leave_the_map_as_it_is(done: eclose.Result, tmp_path: Path) -> None:
    averaged = run_of(tmp_path / "run", epochs=2, settings={"train.ema": 0.5})
    assert same(map_of(averaged.run, 0), map_of(done.run, 0))
    assert averaged.metrics["valid"] < 0.6


def test_what_is_handed_out_is_what_was_judged(done: eclose.Result, tmp_path: Path) -> None:
    x = mixed()["x"]
    wanted = torch.from_numpy(eclose.predict(done.run, x)["prediction"])[:, None]
    loaded = eclose.load(done.run)
    assert isinstance(loaded.get_submodule("network"), LinearPlus)
    with torch.no_grad():
        torch.testing.assert_close(loaded(torch.from_numpy(x)), wanted)
    for kind in ("bundle", "pt2"):
        eclose.export(done.run, tmp_path / kind, format=kind)
    program = torch.export.load(tmp_path / "pt2" / "model.pt2").module()
    torch.testing.assert_close(program(torch.from_numpy(x[:3])), wanted[:3], rtol=1e-4, atol=1e-3)


def test_finer_inputs_are_refused(done: eclose.Result) -> None:
    with pytest.raises(TaskError, match="x has samples of 1 x 24, the network takes 1 x 12"):
        eclose.predict(done.run, np.zeros((2, 1, 24), np.float32))


def test_the_page_says_what_is_corrected(done: eclose.Result) -> None:
    genotype = backbone_genotype("linear_plus", {"network": "cnn", "width": 4}, search().task.signature)
    (section,) = search().space.plain.explain(genotype, done.model.get_submodule("network"))  # type: ignore[attr-defined]
    assert section.sentences[-1] == (
        "They correct a linear map of the whole input, 12 numbers, which was fitted in closed form: "
        "it sees the input along 12 directions and gives 12 numbers."
    )


def test_it_is_retrained(done: eclose.Result, tmp_path: Path) -> None:
    again = eclose.retrain(done.run, out=tmp_path / "again", epochs=2, data=mixed(), progress=False)
    assert again.metrics["name"] == done.metrics["name"] == "linear_plus"
    assert again.metrics["valid"] < 0.6


@pytest.mark.parametrize("space", ["xd", "discrete"])
def test_its_network_may_be_relaxed(space: str, tmp_path: Path) -> None:
    found = CASE.run(tmp_path / "run", space, backbone="linear_plus", epochs=2)
    assert found.metrics["valid"] < 0.8
    x = mixed()["x"]
    with torch.no_grad():
        answer = eclose.load(found.run)(torch.from_numpy(x))
    torch.testing.assert_close(answer[:, 0], torch.from_numpy(eclose.predict(found.run, x)["prediction"]))


def test_operations_that_fill_up_smaller_data_leave_no_room_for_a_map(tmp_path: Path) -> None:
    found = CASE.run(tmp_path / "run", "xd", backbone="linear_plus", epochs=1)
    with pytest.raises(ConfigError, match="XD-operations see 12 positions: search on the smaller data"):
        eclose.retrain(found.run, data=mixed(points=8), out=tmp_path / "again", epochs=1, progress=False)
    assert not (tmp_path / "again").exists()


def test_other_data_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(60, 1, 12)).astype(np.float32), "y": np.arange(60) % 2}
    with pytest.raises(ConfigError, match="backbone 'linear_plus' gives numbers at every position of a field"):
        eclose.search(data=data, space="backbone", backbone="linear_plus", out=tmp_path / "run", progress=False)


TASK = task_from_arrays("mixed", mixed(), Reading(kind="dense"))


def search(**settings: Any) -> Search:
    given = {"space.name": "portfolio", "space.spaces": ["xd"], "budget.minutes": 7.0, **settings}
    return Search.of(complete(Config().with_values(given), TASK), TASK)


def asked(linear: float, sees: str = "all", best: float = 0.3, beside: float = 0.0) -> list[Genotype]:
    """What a portfolio asks for after a linear model of this error, if its first network has the error ``best``.

    ``beside``: seconds of each training besides its steps.
    """
    made = search()
    strategy = make_strategy(made.config)
    known = {"backbone": "linear", "options": {"sees": sees}, "fitted": True}
    trials = [Trial(0, "fitted", "linear model", "backbone", known, "0", 0, state="done", valid=linear)]
    networks: list[Genotype] = []
    while (genotype := strategy.ask(made, trials, torch.Generator())) is not None:
        networks.append(genotype)
        named = (genotype.label, genotype.space, genotype.choices, genotype.hash)
        valid = best / 3 if "linear model" in genotype.label else best + 0.01 * len(trials)
        trial = Trial(len(trials), "search", *named, 0, state="done", origin=genotype.origin, valid=valid, epochs=9)
        trials.append(replace(trial, seconds=20.0, elapsed=(20.0 + beside) * len(trials)))
        assert len(trials) < 30
    return networks


def behind(networks: list[Genotype], stage: str) -> list[str]:
    return [each.label for each in networks if each.choices["backbone"] == "linear_plus" and each.origin == stage]


def test_a_portfolio_puts_its_best_two_kinds_of_plain_networks_behind_a_map_that_is_ahead_of_them() -> None:
    networks = asked(0.3)
    labels = [network.label for network in networks if network.origin == SHORT]
    assert labels[:6] == ["fno", "narrow fno", "unet", "cnn", "linear model + fno", "linear model + unet"]
    assert "fno with XD-operations" in labels
    assert not any("linear model" in label for label in labels[6:])  # others make theirs of plain networks
    # They lead by now; the map is as far ahead of the plain networks as it was.
    assert behind(networks, LONG) == ["linear model + fno", "linear model + unet"]


def test_one_has_a_place_if_time_is_short() -> None:
    labels = [network.label for network in asked(0.3, beside=60.0) if network.origin == SHORT]
    assert labels == ["fno", "narrow fno", "linear model + fno"]
    assert [network.label for network in asked(0.4, beside=60.0) if network.origin == SHORT] == labels[:2]


@pytest.mark.parametrize(("linear", "sees"), [(0.4, "all"), (0.2, "near")])
def test_not_where_the_map_is_behind_or_sees_little(linear: float, sees: str) -> None:
    assert behind(asked(linear, sees), SHORT) == []


def test_networks_with_sizes_of_their_own_stay_in_front_of_it() -> None:
    space = search(**{"backbone.name": "fno", "backbone.modes": 3}).space
    plain = space.offers(TASK.signature, [])
    offered = space.plain.behind_linear(TASK.signature, plain)  # type: ignore[attr-defined]
    assert [network.label for network in offered] == ["linear model + narrow fno", "linear model + unet"]
    assert space.plain.behind_linear(TASK.signature, plain[:1]) == []  # type: ignore[attr-defined]
    narrow, options = plain[1].choices["options"], offered[0].choices["options"]
    assert (options["network"], options["width"]) == ("fno", narrow["width"])


def trained(made: Search, weights: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The weights after a short training, perhaps one that goes on with others."""
    genotype = backbone_genotype("linear_plus", {"network": "cnn", "width": 4}, made.task.signature)
    prepared = plain_training(replace(made, space=made.space.plain), genotype, AROUND)  # type: ignore[attr-defined]
    assert weights is None or begin_with(weights, prepared.model)
    Training(prepared.model, prepared.task, prepared.step, prepared.config, AROUND).run()
    return {name: value.clone() for name, value in prepared.model.state_dict().items()}


def test_trainings_that_go_on_fit_the_map_to_their_own_samples() -> None:
    made = search(**{"train.epochs": 1, "optimiser.learning_rate": 1e-5})
    short = trained(made)
    long = trained(made, short)
    ending = final_search(made)
    final = trained(ending, long)
    assert all(torch.equal(long[f"network.{name}"], short[f"network.{name}"]) for name in MAP)
    assert not any(torch.equal(final[f"network.{name}"], short[f"network.{name}"]) for name in MAP)
    layers = [name for name in short if name.startswith("network.network.") and short[name].is_floating_point()]
    assert all(torch.allclose(final[name], short[name], atol=1e-2) for name in layers if "weight" in name)
    assert len(made.task.train) + len(made.task.val) == len(ending.task.train)
