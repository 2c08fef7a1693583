"""What was found on one task, trained on another: shapes that change, shapes that cannot."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eclose
from eclose.config import Config
from eclose.engine.transfer import for_retraining
from eclose.errors import ConfigError, EcloseError, Interrupted, RunError
from eclose.runs import Run
from eclose.signature import Signature
from eclose.spaces import make_space
from eclose.spaces.backbone import BackboneSpace
from eclose.spaces.xd import Padded
from tests.end_to_end.command import Call

SETTINGS: dict[str, Any] = {"run.threads": 1, "train.batch": 16, "optimiser.learning_rate": 0.03}
LENET = {"backbone.widths": [2, 3], "backbone.hidden": [4]}
SPACES = ("xd", "chrysalis", "discrete", "backbone", "einspace")


def data(kind: str = "classification", channels: int = 1, sizes: tuple[int, ...] = (8, 7), classes: int = 3) -> Any:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, channels, *sizes)).astype(np.float32)
    targets = {"classification": np.arange(40) % classes, "regression": x.mean((2, 3))[:, :1], "dense": x[:, :1]}
    return {"x": x, "y": targets[kind]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, eclose.Result]:
    folder = tmp_path_factory.mktemp("found")
    np.savez(folder / "letters.npz", **data())
    found = {}
    for space in SPACES:
        own = {"trials": 1, "settings": SETTINGS} if space == "einspace" else {"settings": {**SETTINGS, **LENET}}
        own |= {} if space == "einspace" else {"backbone": "lenet"}
        arguments: dict[str, Any] = {"data": folder / "letters.npz", "epochs": 1, "progress": False, **own}
        found[space] = eclose.search(space=space, out=folder / space, **arguments)
    return found


def retrained(found: eclose.Result, out: Path, **other: Any) -> eclose.Result:
    return eclose.retrain(found.run, data=data(**other), out=out, epochs=1, progress=False)


def operations(result: eclose.Result) -> dict[str, torch.Tensor]:
    """The architecture in the network of a run, by the names of genotypes."""
    state = result.model.state_dict()
    inner = "network.network." if isinstance(result.model.get_submodule("network"), Padded) else "network."
    return {name: state[f"{inner}{name}"] for name in result.genotype.tensors}


@pytest.mark.parametrize("space", SPACES)
def test_other_channels_classes_and_kinds(runs: dict[str, eclose.Result], tmp_path: Path, space: str) -> None:
    found = runs[space]
    for name, other in (("classes", {"channels": 3, "classes": 5}), ("values", {"kind": "regression"})):
        again = retrained(found, tmp_path / name, **other)
        assert again.metrics["architecture_parameters"] == 0
        assert np.isfinite(again.metrics["test"])
        assert again.metrics["name"] == f"{found.metrics['name']} found on letters"
        if not found.genotype.tensors:
            assert again.genotype == found.genotype
        carried = operations(again)
        assert carried.keys() == found.genotype.tensors.keys()
        for key, tensor in found.genotype.tensors.items():
            if not key.endswith(".C"):
                assert torch.equal(carried[key], tensor), key
        first = [
            key for key in carried if key.endswith(".C") and carried[key].shape != found.genotype.tensors[key].shape
        ]
        assert len(first) == (space == "xd" and name == "classes")  # gates of the first layer, for its three channels
        assert all(bool((carried[key] == 1).all()) for key in first)


@pytest.mark.parametrize("space", ["xd", "chrysalis"])
def test_smaller_data_is_filled_up(runs: dict[str, eclose.Result], tmp_path: Path, space: str) -> None:
    """Also below what the network without zeros would take."""
    small = retrained(runs[space], tmp_path / "small", sizes=(3, 7))
    assert isinstance(small.model.get_submodule("network"), Padded)
    for key, tensor in runs[space].genotype.tensors.items():
        assert torch.equal(operations(small)[key], tensor)
    x = torch.from_numpy(data(sizes=(3, 7))["x"])
    assert small.model(x).shape == (40, 3)
    assert "network" in str(eclose.explain(small.run))
    whole = retrained(small, tmp_path / "whole")  # back to what they were found on
    assert "padded_to" not in whole.genotype.choices
    assert whole.genotype == runs[space].genotype


def test_zeros_behind_the_last_position_and_answers_without_them() -> None:
    seen: list[torch.Tensor] = []

    class Copy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            return 2 * x

    x = torch.randn(2, 1, 3, 4)
    y = Padded(Copy(), (5, 4), Signature("dense", 1, (3, 4), 1))(x)
    assert torch.equal(y, 2 * x)
    assert torch.equal(seen[0], torch.nn.functional.pad(x, (0, 0, 0, 2)))
    network = Padded(torch.nn.Conv2d(1, 2, 3, padding=1), (5, 6), Signature("dense", 1, (3, 4), 2))
    program = torch.export.export(network, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.testing.assert_close(program.module()(x[:1]), network(x[:1]))


@pytest.mark.parametrize(
    ("space", "other", "text"),
    [
        (
            "xd",
            {"sizes": (9, 7)},
            "XD-operations do not grow, and were found on 8 x 7 positions: make the inputs small",
        ),
        ("chrysalis", {"sizes": (8, 8)}, "K-operations do not grow, and were found on 8 x 7 positions: make the inpu"),
        ("chrysalis", {"sizes": (8, 7, 3)}, "K-operations stay with the axes that they were found on, and with numb"),
        ("discrete", {"kind": "dense"}, "backbone 'lenet' gives one answer a sample and cannot do dense; choose unet"),
        ("backbone", {"sizes": (2, 7)}, "backbone 'lenet' needs at least 4 points along every axis, but an input of t"),
    ],
)
def test_refusals(runs: dict[str, eclose.Result], tmp_path: Path, space: str, other: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        retrained(runs[space], tmp_path / "again", **other)
    shown = str(error.value)
    assert shown.startswith("the network that was found cannot be trained on data (found: classification of 1 x 8 x 7;")
    assert text in shown
    assert "\n" not in shown
    assert not (tmp_path / "again").exists()


def test_sizes_of_masks_stay_with_their_axes() -> None:
    space = make_space(Config().with_values({"space.name": "dnarch"}))
    before = Signature("classification", 1, (8, 8), 3)
    start = space.start(before)
    assert space.carry_over(start, before, replace(before, sizes=(5, 9), outputs=7)) == start
    with pytest.raises(ConfigError, match="kernel sizes and resolutions belong to their axes: search on data of this"):
        space.carry_over(start, before, replace(before, sizes=(8,)))


def test_what_a_space_refuses_to_search_it_trains(tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": data(), "epochs": 1, "progress": False, "backbone": "resnet"}
    settings = {**SETTINGS, "space.learn": "R", "backbone.width": 4}
    found = eclose.search(**given, space="dnarch", settings=settings, out=tmp_path / "found")
    assert any("resolution" in block for block in found.genotype.choices["blocks"])
    small = retrained(found, tmp_path / "small", sizes=(4, 4))  # too few points for masks of resolutions
    assert small.genotype == found.genotype
    eclose.resume(small.run, data=data(sizes=(4, 4)), progress=False)
    line = {**data(), "x": data()["x"][..., 0]}
    with pytest.raises(ConfigError, match="kernel sizes and resolutions belong to their axes: search on data of this"):
        eclose.retrain(found.run, data=line, axes=1, out=tmp_path / "line", progress=False)


def test_a_network_that_fails_on_other_shapes_is_refused_in_a_line(
    runs: dict[str, eclose.Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise IndexError("out of\nrange")

    monkeypatch.setattr(BackboneSpace, "carry_over", fail)
    with pytest.raises(ConfigError, match="cannot be trained on data .*: IndexError: out of range; search on"):
        retrained(runs["backbone"], tmp_path / "again", sizes=(9, 9))


@pytest.mark.parametrize("wrong", [{"drawn_depth": 0}, {"begin": []}, {"tied": 3}, {"relaxation": {}}], ids=str)
def test_a_genotype_that_somebody_broke_is_refused_in_a_line(
    runs: dict[str, eclose.Result], tmp_path: Path, wrong: dict[str, Any]
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(runs["chrysalis"].run, broken)
    genotype = json.loads((broken / "genotype.json").read_text(encoding="utf-8"))
    genotype["choices"] |= wrong
    (broken / "genotype.json").write_text(json.dumps(genotype), encoding="utf-8")
    told = r"does not describe a network \(.*\): restore its file"
    with pytest.raises(EcloseError, match=told) as error:
        eclose.retrain(broken, epochs=1, out=tmp_path / "again", progress=False)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "again").exists()
    with pytest.raises(EcloseError, match=told):
        eclose.load(broken)


def test_by_name_on_the_command_line(runs: dict[str, eclose.Result], call: Call) -> None:
    found = runs["discrete"].run
    few = ("--set", "task.subset=40", "--set", "task.subset_eval=20")
    status, out, err = call("retrain", found, "--task", "digits", "--epochs", 1, "--out", "again", "--json", *few)
    assert status == 0, err
    result = json.loads(out)
    assert (result["task"], result["name"]) == ("digits", "lenet with mixed operations found on letters")
    config = Run.open(Path("again")).config
    assert (config.task.name, config.task.data, config.task.options) == ("digits", "", {})
    assert call("retrain", found, "--task", "nodigits")[0] == 2


def test_modifiers_stay_and_readings_do_not(runs: dict[str, eclose.Result], tmp_path: Path) -> None:
    found = eclose.retrain(runs["backbone"].run, out=tmp_path / "a", epochs=1, settings={"task.permuted": True})
    other = eclose.retrain(found.run, data=data("regression"), out=tmp_path / "b", epochs=1, progress=False)
    task, loss = other_config(other).task, other_config(other).loss
    assert (task.permuted, task.kind, task.metric, loss.name) == (True, "regression", "mse", "mse")


def other_config(result: eclose.Result) -> Config:
    return Run.open(result.run).config


def test_an_interrupted_transfer_goes_on(runs: dict[str, eclose.Result], tmp_path: Path) -> None:
    np.savez(tmp_path / "small.npz", **data(sizes=(6, 7)))
    arguments: dict[str, Any] = {"data": tmp_path / "small.npz", "epochs": 2, "progress": False}
    arguments |= {"settings": {"task.axes": 2}}
    whole = eclose.retrain(runs["chrysalis"].run, out=tmp_path / "whole", **arguments)

    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        eclose.retrain(runs["chrysalis"].run, out=tmp_path / "run", listeners=[stop], **arguments)
    resumed = eclose.resume(tmp_path / "run", progress=False)
    assert resumed.metrics["test"] == whole.metrics["test"]
    assert resumed.genotype == whole.genotype
    state = resumed.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in whole.model.state_dict().items())


def test_a_run_that_has_not_finished_is_not_carried_over(runs: dict[str, eclose.Result], tmp_path: Path) -> None:
    found = eclose.retrain(runs["backbone"].run, out=tmp_path / "run", epochs=1, progress=False)
    (found.run / "result.json").unlink()
    with pytest.raises(RunError, match="has not finished: `eclose resume .*run` first"):
        retrained(found, tmp_path / "again")


def test_the_settings_of_final_trainings_are_those_of_a_retraining() -> None:
    values = {"train.epochs": 8, "final.networks": 1, "final.train.epochs": 64, "final.optimiser.learning_rate": 0.2}
    config = for_retraining(Config().with_values({**values, "strategy.name": "supernet", "budget.trials": 3}))
    assert (config.train.epochs, config.optimiser.learning_rate, config.strategy.name) == (64, 0.2, "train")
    assert (config.final.networks, config.final.options, config.budget.trials) == (-1, {}, 0)


def test_another_optimiser_of_final_trainings_has_nothing_of_that_of_the_search() -> None:
    values = {"optimiser.name": "sgd", "optimiser.momentum": 0.5, "schedule.name": "step", "schedule.every": 3.0}
    ending = {"final.networks": 1, "final.optimiser.name": "adam", "final.optimiser.learning_rate": 0.2}
    config = for_retraining(Config().with_values({**values, **ending}))
    assert (config.optimiser.name, config.optimiser.learning_rate, config.optimiser.options) == ("adam", 0.2, {})
    assert (config.schedule.name, config.schedule.options) == ("step", {"every": 3.0})


RECIPE = """
[task]
name = "digits"
subset = 40
subset_eval = 20
[space]
name = "nos"
[space.options]
blocks = 3
cells = 4
width = 6
none = true
[strategy]
name = "bilevel"
[teacher]
network = "mine:make_net"
[optimiser]
name = "sgd"
[optimiser.options]
momentum = 0.7
[train]
epochs = 9
batch = 8
[final.optimiser]
learning_rate = 0.2
[final.train]
epochs = 1
"""


def test_a_recipe_is_task_sizes_and_settings_of_a_retraining(tmp_path: Path) -> None:
    """Those of its final trainings; its search, its teacher and what else it says of cells concern nobody."""
    sizes = {"space.blocks": 1, "space.search_cells": 3, "space.search_width": 4, "space.cells": 3, "space.width": 4}
    settings = {**SETTINGS, **sizes, "final.train.epochs": 1}
    given: dict[str, Any] = {"progress": False, "trust": False}
    found = eclose.search(data=data(), space="nos", epochs=1, out=tmp_path / "found", settings=settings, **given)
    (tmp_path / "mine.toml").write_text(RECIPE, encoding="utf-8")
    given["recipe"] = str(tmp_path / "mine.toml")
    again = eclose.retrain(found.run, out=tmp_path / "again", **given)
    config, choices = Run.open(again.run).config, again.genotype.choices
    assert (config.task.name, config.task.subset, again.metrics["epochs"]) == ("digits", 40, 1)
    assert (config.optimiser.name, config.optimiser.learning_rate, config.train.batch) == ("sgd", 0.2, 8)
    assert config.optimiser.options["momentum"] == 0.7
    assert (config.strategy.name, config.teacher.network, config.final.networks) == ("train", "", 0)
    assert (choices["cells"], choices["width"], len(choices["normal"])) == (4, 6, 1)
    assert choices["normal"] == found.genotype.choices["normal"]
    assert again.metrics["name"] == f"{found.metrics['name']} found on other data"
    own = eclose.retrain(found.run, out=tmp_path / "own", data=data(classes=2), settings={"space.width": 3}, **given)
    assert Run.open(own.run).config.task.name == ""
    assert (own.genotype.choices["cells"], own.genotype.choices["width"]) == (4, 3)
    (tmp_path / "mine.toml").write_text(RECIPE + "[final.space]\nname = 'xd'\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="final.space is no setting of a training"):
        eclose.retrain(found.run, **given)


def test_a_recipe_without_a_task_keeps_that_of_the_run(runs: dict[str, eclose.Result], tmp_path: Path) -> None:
    """Nor has a network of another space anything of its sizes."""
    (tmp_path / "mine.toml").write_text("[train]\nepochs = 1\nbatch = 5\n[space.options]\nwidth = 3\n")
    found = runs["backbone"]
    again = eclose.retrain(found.run, recipe=str(tmp_path / "mine.toml"), out=tmp_path / "again", progress=False)
    config = Run.open(again.run).config
    assert (config.task, config.train.batch) == (Run.open(found.run).config.task, 5)
    assert again.metrics["name"] == found.metrics["name"]
    assert again.genotype == found.genotype
