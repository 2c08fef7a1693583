"""Teachers from a run, from a file and trained first; searches under them, stopped and resumed."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import eclose
from eclose.backbones.consent import Consent, consenting
from eclose.config import Config
from eclose.display.explanation.html import as_fragment
from eclose.engine import complete, make_strategy
from eclose.engine.teaching import load_teacher
from eclose.errors import ConfigError, EcloseError, RunError
from eclose.runs import Run
from eclose.spaces.architecture import named_architecture
from eclose.spaces.explanation import Map, Picture, Section
from eclose.tasks import load_task
from tests.contracts.cases import AROUND, Case, assert_same_run, fields, images, rows, signals

SMALL = {"backbone.name": "resnet20", "backbone.width": 2}
FIRST = {"teacher.network": "resnet20", "teacher.backbone.width": 3, "teacher.train.epochs": 1}
TINY = {"backbone.name": "resnet", "backbone.width": 4}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that others learn from."""
    folder = tmp_path_factory.mktemp("teacher") / "run"
    Case(images, {"backbone.name": "resnet20", "backbone.width": 3}).run(folder, "backbone")
    return folder


def test_an_earlier_run_teaches(earlier: Path, tmp_path: Path) -> None:
    taught = Case(images, SMALL).run(tmp_path / "taught", "backbone", teacher=earlier)
    alone = Case(images, SMALL).run(tmp_path / "alone", "backbone")
    ours, theirs = rows(taught.run)[0], rows(alone.run)[0]
    assert ours.attention is not None
    assert 0 < ours.attention < 3
    assert theirs.attention is None
    assert [entry["attention"] for entry in ours.history][-1] > 0
    assert all("attention" not in entry for entry in theirs.history)
    assert ours.history[0]["train_loss"] > theirs.history[0]["train_loss"]
    assert taught.metrics["attention"] == ours.attention
    section = next(
        each for each in taught.metrics["explanation"] if each["title"].startswith("Attention of the teacher")
    )
    assert [picture["title"] for picture in section["pictures"]] == [
        "features of 8 x 8 points",
        "features of 4 x 4 points",
        "features of 2 x 2 points",
    ]
    assert "Attention of the teacher" in str(eclose.explain(taught.run))
    assert "from the teacher" in (taught.run / "report.html").read_text(encoding="utf-8")


def test_a_larger_weight_brings_the_attention_nearer(earlier: Path, tmp_path: Path) -> None:
    apart = []
    for weight in (0.0, 30.0):
        settings = {"teacher.weight": weight, "train.epochs": 4, "train.keep": "last"}
        run = Case(images, SMALL).run(tmp_path / str(weight), "backbone", teacher=earlier, settings=settings)
        apart.append(run.metrics["attention"])
    assert apart[1] < 0.8 * apart[0]


@pytest.mark.parametrize(
    ("space", "more"),
    [
        ("xd", {}),
        ("discrete", {}),
        ("discrete", {"strategy.name": "bilevel"}),
        ("discrete", {"strategy.name": "bilevel", "strategy.order": 2}),
    ],
)
def test_searches_are_taught_on_every_level(space: str, more: dict[str, Any], earlier: Path) -> None:
    """The gradient of the step is that of loss plus distance, for weights and architecture alike.

    Weights by themselves are those of a warm-up: otherwise they follow an architecture that was taught.
    """
    changed, own = changed_by_a_teacher(space, earlier, more)
    assert changed & own
    changed, own = changed_by_a_teacher(space, earlier, {**more, "strategy.warmup_epochs": 0.5})
    assert changed
    assert not changed & own


def changed_by_a_teacher(space: str, earlier: Path, more: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Which parameters a step moves elsewhere under a teacher, and which are those of the architecture."""
    case = Case(images, {**SMALL, "optimiser.name": "sgd", "teacher.run": str(earlier), **more})
    search = case.search(space=space)
    teacher = load_teacher(None, search, None, AROUND.device)
    assert teacher is not None
    moved = []
    for taught in (False, True):
        torch.manual_seed(0)
        inner = replace(search, teacher=teacher if taught else None)
        prepared = make_strategy(search.config).prepare(inner, search.start, AROUND, "search")
        assert (prepared.lesson is not None) == taught
        x, y = prepared.task.train.take(torch.arange(8))
        prepared.model.train()
        prepared.step.set_rate(1.0, 0.0)
        prepared.step(x, y, 8)
        moved.append({name: value.detach().clone() for name, value in prepared.model.named_parameters()})
    changed = {name for name in moved[0] if not torch.equal(moved[0][name], moved[1][name])}
    return changed, set(named_architecture(prepared.model))


def volumes() -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(24, 1, 6, 5, 4)).astype(np.float32)
    return {"x": x, "y": np.arange(24) % 2}


@pytest.mark.parametrize(
    ("data", "network"),
    [(signals, "resnet"), (volumes, "resnet"), (fields, "fno")],
)
def test_a_teacher_is_trained_first(data: Any, network: str, tmp_path: Path) -> None:
    settings = {"backbone.name": network, "backbone.width": 4, "train.epochs": 1}
    first = {"teacher.network": network, "teacher.backbone.width": 6, "teacher.train.epochs": 2}
    result = Case(data, {**settings, **first}).run(tmp_path / "run", "backbone")
    teacher, student = rows(result.run, "teacher")[0], rows(result.run)[0]
    assert (teacher.number, student.number) == (0, 1)
    assert (teacher.epochs, student.epochs) == (2, 1)
    assert teacher.attention is None
    assert student.attention is not None
    assert [row["name"] for row in result.metrics["baselines"]][0] == f"{network} (teacher)"
    assert result.metrics["trials"] == 1


def test_killed_in_teacher_and_search_and_resumed(tmp_path: Path) -> None:
    """Bit for bit; rows 0 and 1 are the teacher and the search."""
    case = Case(images, {**SMALL, **FIRST, "teacher.train.epochs": 2})
    whole = case.run(tmp_path / "whole", "discrete", strategy="bilevel")
    parts = case.interrupted(tmp_path / "parts", "discrete", (0, 1), (1, 1), strategy="bilevel")
    assert_same_run(parts.run, whole.run)


def test_another_teacher_is_noticed(earlier: Path, tmp_path: Path) -> None:
    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch":
            raise KeyboardInterrupt

    teacher, folder = tmp_path / "teacher", tmp_path / "run"
    shutil.copytree(earlier, teacher)
    with pytest.raises(KeyboardInterrupt):
        Case(images, SMALL).run(folder, "backbone", teacher=teacher, listeners=[stop], trust=True)
    weights = load_file(teacher / "weights.safetensors")
    save_file({name: value + 1 for name, value in weights.items()}, teacher / "weights.safetensors")
    with pytest.raises(RunError, match=r"the teacher's .*weights.safetensors has changed since .*run began"):
        eclose.resume(folder, data=images(), progress=False, trust=True)
    (teacher / "weights.safetensors").unlink()
    with pytest.raises(EcloseError, match=r"weights.safetensors"):
        eclose.resume(folder, data=images(), progress=False, trust=True)
    shutil.copy(earlier / "weights.safetensors", teacher)
    assert eclose.resume(folder, data=images(), progress=False, trust=True).metrics["epochs"]


def test_the_final_stage_learns_alone_unless_told(earlier: Path, tmp_path: Path) -> None:
    for told in (False, True):
        settings = {"final.networks": 1, "final.all_samples": False, "teacher.final": told}
        run = Case(images, SMALL).run(tmp_path / str(told), "backbone", teacher=earlier, settings=settings)
        assert (rows(run.run, "final")[0].attention is not None) == told


def test_baselines_and_retrained_networks_have_no_teacher(earlier: Path, tmp_path: Path) -> None:
    case = Case(images, SMALL)
    result = case.run(tmp_path / "run", "backbone", teacher=earlier, baselines=["lenet"])
    assert rows(result.run, "baseline")[0].attention is None
    again = eclose.retrain(result.run, data=images(), out=tmp_path / "again", progress=False)
    assert "attention" not in again.metrics


def test_weights_from_a_file(earlier: Path, tmp_path: Path) -> None:
    """Those of a network alone, or as a run keeps them: the same teacher."""
    whole = load_file(earlier / "weights.safetensors")
    alone = {name.removeprefix("network."): value for name, value in whole.items() if name.startswith("network.")}
    save_file(alone, tmp_path / "alone.safetensors")
    named = {**SMALL, "teacher.network": "resnet20", "teacher.backbone.width": 3}
    weights = []
    for path in (earlier / "weights.safetensors", tmp_path / "alone.safetensors"):
        search = Case(images, {**named, "teacher.weights": str(path)}).search(space="backbone")
        teacher = load_teacher(None, search, None, AROUND.device)
        assert teacher is not None
        weights.append(teacher.model.get_submodule("network").state_dict())
    assert all(torch.equal(weights[0][name], value) for name, value in weights[1].items())


class Wrapped(nn.Module):
    """A part of it has the name that a run gives to the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)


def test_weights_of_a_network_that_has_one_called_network(tmp_path: Path) -> None:
    given, path = Wrapped().state_dict(), tmp_path / "teacher.safetensors"
    save_file(given, path)
    settings = {**SMALL, "teacher.network": f"{__name__}:Wrapped", "teacher.weights": str(path)}
    with consenting(Consent(everything=True)):
        teacher = load_teacher(None, Case(images, settings).search(space="backbone"), None, AROUND.device)
    assert teacher is not None
    loaded = teacher.model.get_submodule("network").state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in given.items())


def refused(settings: dict[str, Any], data: Any = images) -> str:
    with pytest.raises((ConfigError, RunError)) as refusal:
        Case(data, {**SMALL, **settings}).run(Path("never"), "backbone")
    assert not Path("never").exists()
    return str(refusal.value)


def test_refusals(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = {"teacher.network": "resnet20"}
    run = {"teacher.run": str(earlier)}
    assert refused({**network, **run}) == "teacher.run and teacher.network name two teachers: leave one out"
    assert refused({"teacher.weights": "a.safetensors"}) == (
        "teacher.weights is given, but no teacher: name teacher.run or teacher.network"
    )
    assert refused({**run, "teacher.train.epochs": 2}) == (
        f"teacher.train does not concern the teacher {earlier}: leave it out"
    )
    assert refused({**network, "teacher.weight": -1.0}) == "teacher.weight is -1.0, but must be at least 0"
    assert refused({**network, "teacher.trains.epochs": 2}).startswith(
        "teacher.trains is no setting of a training; did"
    )
    assert refused({**network, "teacher.train.epochs": -1}) == "[teacher] train.epochs is -1, but must be at least 0"
    assert refused({**network, "teacher.backbone.wide": 2}).startswith("backbone: 'resnet20' has no option 'wide'")
    assert refused({**network, "teacher.backbone": "resnet"}) == (
        "teacher.backbone is 'resnet', but must be a table of options: the name is teacher.network"
    )
    assert refused({**network, "teacher.weights": "w.pt"}) == (
        f"teacher.weights is {tmp_path}/w.pt, but must be a .safetensors file: write one with "
        "safetensors.torch.save_file(network.state_dict(), 'teacher.safetensors')"
    )
    assert refused({**network, "teacher.weights": "w.safetensors"}) == (
        f"teacher.weights is {tmp_path}/w.safetensors, but there is no such file"
    )
    save_file({"nothing": torch.zeros(1)}, tmp_path / "w.safetensors")
    told = refused({**network, "teacher.weights": "w.safetensors"})
    assert told.startswith(f"teacher.weights {tmp_path}/w.safetensors does not fit the network 'resnet20': ")
    assert told.endswith("; say which network it belongs to, and its teacher.backbone options")
    assert refused({"teacher.run": "nowhere"}) == (
        f"{tmp_path}/nowhere is not a run folder: no such folder; the teacher is to lie there: put it back, or begin "
        "with another --teacher"
    )
    assert refused({**TINY, **run}, signals) == (
        f"the teacher {earlier} looks at inputs of 1 x 8x8, but those of this task are 2 x 8: "
        "name a run on data of this shape"
    )


class Flat(nn.Module):
    """No features over space at all."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1))


def test_a_network_without_stages_is_refused_before_the_run_begins(earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        eclose.search(
            data=images(), space="backbone", backbone=Flat, teacher=earlier, out=tmp_path / "run", progress=False
        )
    assert str(refusal.value) == (
        "no stage of the teacher (features of 8x8, 4x4, 2x2 points) has about the sizes of one of the network (none): "
        "choose another teacher, or leave it out"
    )
    assert not (tmp_path / "run").exists()


def test_an_unfinished_run_is_no_teacher(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "result", None)
    assert refused({"teacher.run": str(earlier)}) == (
        f"the teacher {earlier} has not finished: `eclose resume {earlier}` first"
    )


def test_a_stage_may_have_another_schedule_than_the_search(tmp_path: Path) -> None:
    """Whose options are not those of the first; also where they come from a file."""
    step = {"schedule.name": "step", "schedule.factor": 0.5, "schedule.every": 1.0}
    settings = {f"{stage}.{key}": value for stage in ("teacher", "final") for key, value in step.items()}
    case = Case(images, {**SMALL, **FIRST, **settings, "final.networks": 1, "final.augment.names": ["crop"]})
    result = case.interrupted(tmp_path / "run", "backbone", (1, 1))
    rates = {role: [entry["rate"] for entry in rows(result.run, role)[0].history] for role in ("search", "final")}
    assert rates["final"] == [1.0, 0.5]
    assert rates["search"] != rates["final"]


def test_the_settings_are_complete() -> None:
    config = Config().with_values({**SMALL, "space.name": "backbone", **FIRST})
    task = load_task(config.task, lambda done, total: None, images())
    section = complete(config, task).teacher
    assert section.options["backbone"] == {"width": 3}
    assert section.options["train"]["epochs"] == 1
    assert section.options["train"].keys() == vars(config.train).keys()


def test_code_that_a_recipe_names_as_teacher_is_not_called(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[space]\nname = "backbone"\n[teacher]\nnetwork = "elsewhere:Net"\n')
    with pytest.raises(ConfigError, match=r"^a file names the code 'elsewhere:Net'"):
        eclose.search(data=images(), recipe=str(recipe), out=tmp_path / "run", progress=False)


def test_maps_are_drawn_without_what_they_have_not() -> None:
    maps = tuple(Map(who, ((0.0, 0.5), (0.2, 0.1))) for who in ("teacher", "network"))
    shown = as_fragment([Section("Attention", pictures=(Picture("a stage", maps=maps, columns=2),))])
    assert "impulse" not in shown
    assert "hatched" not in shown
