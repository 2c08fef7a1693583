"""Sizes that follow the time: chosen by what a step takes, kept where a user set them or a run goes on."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import eclose
from eclose import launch
from eclose.config import Config
from eclose.engine import Search, complete, sized, sizes
from eclose.engine.clock import for_trainings
from eclose.engine.sizes import ENOUGH, Stage
from eclose.runs import Run
from eclose.spaces import make_space
from eclose.spaces.nos.space import NosSpace
from eclose.tasks import Task, load_task
from tests.contracts.cases import QUICK, images, rows, signals

SIZES = ("blocks", "search_cells", "search_width", "cells", "width")
USUAL = {"blocks": 4, "search_cells": 5, "search_width": 16, "cells": 8, "width": 32, "auxiliary": 0.4}


def task() -> Task:
    return load_task(Config().task, lambda done, total: None, images())


class Timed:
    """Steps that take so many seconds for every channel of every block of every cell, of which ``made`` are timed."""

    def __init__(self, seconds: float, made: int = 0) -> None:
        self.seconds, self.asked, self.made, self.gone = seconds, list[tuple[str, float]](), made, 0.0

    def __call__(self, config: Config, task: Task, stage: Stage) -> float:
        options, prefix = config.space.options, "search_" if stage.what == "search" else ""
        make_space(config)
        size = options["blocks"] * options[f"{prefix}cells"] * options[f"{prefix}width"]
        self.asked.append((stage.what, size))
        self.gone += self.made * self.seconds * size
        return self.seconds * size


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    minutes: float = 10.0,
    device: str = "cpu",
    made: int = 0,
    **given: Any,
) -> tuple[dict[str, Any], list[str], Timed]:
    """The options of the space, what is told of them, and what was timed."""
    timed, now = Timed(seconds, made), time.perf_counter()
    monkeypatch.setattr(sizes, "_step_seconds", timed)
    monkeypatch.setattr(sizes.time, "perf_counter", lambda: now + timed.gone)
    monkeypatch.setattr(sizes, "choose_device", lambda name: torch.device(device))
    options = {f"space.{name}": value for name, value in given.items()}
    config = Config().with_values({**QUICK, "space.name": "nos", "budget.minutes": minutes, **options})
    learned = task()
    config, told = sized(complete(config, learned), config.space.options, learned)
    return config.space.options, told, timed


def test_with_time_they_are_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    options, told, _ = chosen(monkeypatch, 1e-6)
    assert {name: options[name] for name in USUAL} == USUAL
    (line,) = told
    assert line.startswith("sizes follow from the time: space.blocks=4 space.search_cells=5 ")


def test_with_less_time_they_are_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = []
    for seconds in (1e-6, 1e-3, 3e-3, 1e-2, 3e-2, 1.0):
        options, _, timed = chosen(monkeypatch, seconds)
        search, final = (options["blocks"] * options[f"{p}cells"] * options[f"{p}width"] for p in ("search_", ""))
        areas.append((search, final))
        for what, size in zip(("search", "final"), areas[-1], strict=True):
            share = for_trainings(600) / 4 * (1 if what == "search" else 3)
            least = min(each for name, each in timed.asked if name == what)
            assert size == least or size * seconds <= share / ENOUGH
    assert areas == sorted(areas, reverse=True)
    assert len(set(areas)) > 3
    assert areas[-1] == (1 * 3 * 4, 1 * 3 * 8)


def test_too_little_time_is_said_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told, _ = chosen(monkeypatch, 0.1)
    assert [bool(re.search(r"give it some \d+ --minutes, or leave --space out$", line)) for line in told] == [
        False,
        True,
        True,
    ]
    assert told[1].startswith("the search is too short to tell operations apart")
    minutes = int(re.findall(r"some (\d+) --minutes", told[1])[0])
    assert not any(line.startswith("the search") for line in chosen(monkeypatch, 0.1, minutes + 1.0)[1])


def test_those_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    options, told, _ = chosen(monkeypatch, 1.0, search_cells=5, width=32, auxiliary=0.4)
    assert (options["search_cells"], options["width"], options["auxiliary"]) == (5, 32, 0.4)
    assert (options["blocks"], options["search_width"], options["cells"]) == (1, 4, 3)
    assert "search_cells" not in told[0]
    given = {**USUAL, "blocks": 3}
    options, told, timed = chosen(monkeypatch, 1.0, **given)
    assert {name: options[name] for name in given} == given
    assert (told, timed.asked) == ([], [])


def test_without_minutes_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    options, told, timed = chosen(monkeypatch, 1.0, minutes=0.0)
    assert {name: options[name] for name in USUAL} == USUAL
    assert (told, timed.asked) == ([], [])


def test_a_gpu_begins_with_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    options, _, timed = chosen(monkeypatch, 1e-6, device="cuda")
    assert {name: options[name] for name in USUAL} == USUAL
    assert timed.asked == [("search", 4 * 5 * 16), ("final", 4 * 8 * 32)]
    for seconds in (1e-3, 1.0):
        assert chosen(monkeypatch, seconds, device="cuda")[0] == chosen(monkeypatch, seconds)[0]


def test_the_time_that_measuring_takes_is_no_time_for_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU measures the large ones first, a few steps each. No size takes just as long as it may."""
    _, told, timed = chosen(monkeypatch, 0.7e-3, 2.0, "cuda")
    steps = [int(each) for each in re.findall(r"about (\d+) steps", told[0])]
    _, told, other = chosen(monkeypatch, 0.7e-3, 2.0, "cuda", made=30)
    fewer = [int(each) for each in re.findall(r"about (\d+) steps", told[0])]
    assert timed.asked == other.asked
    assert 10 < other.gone < 60
    left = 1 - other.gone / for_trainings(120)
    assert fewer == pytest.approx([left * each for each in steps], abs=1)


@pytest.mark.parametrize("allowed", [1e-9, 1e9])
def test_steps_that_take_much_too_long_are_few(monkeypatch: pytest.MonkeyPatch, allowed: float) -> None:
    config = Config().with_values({**QUICK, "space.name": "nos", "budget.minutes": 1.0})
    learned = task()
    search = Search.of(complete(config, learned), learned)
    stage = Stage("final", "final", allowed, time.perf_counter() + 1000)
    assert len(list(sizes._steps(search, stage, torch.device("cpu")))) == (1 if allowed < 1 else 3)


def test_sizes_that_other_options_refuse_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    options, _, timed = chosen(monkeypatch, 1.0, partial=8)
    assert options["search_width"] == 8
    assert ("search", 1 * 3 * 4) not in timed.asked


def test_drawn_networks_have_the_sizes_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config().with_values(
        {**QUICK, "space.name": "nos", "strategy.name": "random", "budget.minutes": 1.0, "budget.trials": 4}
    )
    timed, learned = Timed(1.0), task()
    monkeypatch.setattr(sizes, "_step_seconds", timed)
    options = sized(complete(config, learned), config.space.options, learned)[0].space.options
    assert {name for name, _ in timed.asked} == {"final"}
    assert (options["cells"], options["width"], options["search_width"]) == (3, 8, 16)


def test_memory_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate much")

    monkeypatch.setattr(NosSpace, "build", full)
    config = Config().with_values({**QUICK, "space.name": "nos", "budget.minutes": 1.0})
    learned = task()
    monkeypatch.setattr(NosSpace, "_try", lambda *_: None)
    stage = Stage("final", "final", 1.0, time.perf_counter() + 10)
    assert sizes._step_seconds(complete(config, learned), learned, stage) == float("inf")


def run(folder: Path, **given: Any) -> eclose.Result:
    """A search of two epochs, which could take twelve seconds."""
    settings = {"run.threads": 1, "run.checkpoint_seconds": 0.0}
    shown = {"progress": False, "epochs": 1, "minutes": 0.2, "settings": settings}
    return eclose.search(data=signals(), space="nos", out=folder, **shown, **given)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[eclose.Result, list[str]]:
    told: list[str] = []

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "notice":
            told.append(fields["text"])

    return run(tmp_path_factory.mktemp("whole") / "run", listeners=[listen]), told


def test_a_run_measures_says_what_it_chose_and_keeps_it(whole: tuple[eclose.Result, list[str]]) -> None:
    result, told = whole
    options = Run.open(result.run).config.space.options
    assert tuple(options[name] for name in SIZES[:3]) == (1, 3, 4)
    assert told[0].startswith("sizes follow from the time: space.blocks=1 ")
    assert told[0] in (result.run / "events.jsonl").read_text(encoding="utf-8")
    assert (result.genotype.choices["cells"], result.genotype.choices["width"]) == (options["cells"], options["width"])
    assert len(result.model.network.cells) == options["cells"]


def test_what_gives_the_weights_has_most_of_the_time(whole: tuple[eclose.Result, list[str]]) -> None:
    (search,), (final,) = rows(whole[0].run), rows(whole[0].run, "final")
    assert rows(whole[0].run, "baseline") == [], "plain cells would take as long as the final training"
    assert final.allowed > 2 * search.allowed


def test_a_run_that_goes_on_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", listeners=[stop])
    before = Run.open(tmp_path / "run").config.space.options
    monkeypatch.setattr(launch, "sized", None)
    result = eclose.resume(tmp_path / "run", data=signals(), progress=False)
    assert Run.open(tmp_path / "run").config.space.options == before
    assert result.genotype.choices["width"] == before["width"]


def test_a_retraining_keeps_the_sizes_that_were_found(
    whole: tuple[eclose.Result, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "sized", None)
    given: dict[str, Any] = {"data": signals(), "minutes": 0.1, "epochs": 1, "progress": False}
    again = eclose.retrain(whole[0].run, out=tmp_path / "run", **given)
    assert again.genotype == whole[0].genotype
