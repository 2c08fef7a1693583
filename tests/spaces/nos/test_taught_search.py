"""A whole run: a teacher is trained, cells are searched under it, cut and trained anew, and explained."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import eclose
from eclose.errors import Interrupted
from eclose.signature import Signature
from eclose.spaces import assemble
from eclose.spaces.nos.layout import lay_out
from eclose.spaces.nos.operations import OPERATIONS
from eclose.spaces.nos.space import NosSpace
from eclose.spaces.nos.supernet import Choices, Supernet, WeightHistory
from eclose.train.teacher import stages
from tests.contracts.cases import Case, assert_same_run, images, rows

CELLS = {"space.blocks": 2, "space.search_cells": 3, "space.search_width": 4, "space.cells": 3, "space.width": 4}
TEACHER = {"teacher.network": "pyramidnet", "teacher.backbone.depth": 11, "teacher.backbone.alpha": 3}
CASE = Case(images, {**CELLS, **TEACHER, "teacher.train.epochs": 2, "final.train.epochs": 2})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
    return CASE.run(tmp_path_factory.mktemp("nos") / "whole", "nos")


class Killed(BaseException):
    """The end of a process."""


def test_stopped_in_every_stage_and_resumed(
    whole: eclose.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the teacher, in the search, in the derivation and in the final training."""
    derive, folder = NosSpace.derive, tmp_path / "parts"

    def killed(*arguments: object) -> None:
        monkeypatch.setattr(NosSpace, "derive", derive)
        raise Killed

    def stop(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch" and fields["trial"] == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(NosSpace, "derive", killed)
    with pytest.raises(Killed):
        CASE.interrupted(folder, "nos", (0, 1), (1, 1))
    assert [row.state for row in eclose.runs.Run.open(folder).table.all()] == ["done", "running"]
    with pytest.raises(Interrupted):
        eclose.resume(folder, data=images(), listeners=[stop], progress=False)
    parts = eclose.resume(folder, data=images(), progress=False)
    assert_same_run(parts.run, whole.run)
    assert [row.role for row in eclose.runs.Run.open(whole.run).table.all()] == ["teacher", "search", "final"]


def test_the_search_is_taught_and_the_final_stage_is_not(whole: eclose.Result) -> None:
    assert rows(whole.run)[0].attention is not None
    assert rows(whole.run, "final")[0].attention is None


def test_what_was_found_is_explained(whole: eclose.Result) -> None:
    titles = [section["title"] for section in whole.metrics["explanation"]]
    assert titles == [
        "The normal cell",
        "The reduction cell",
        "How clear the choices were",
        "Attention of the teacher and of the network",
    ]
    text = str(eclose.explain(whole.run))
    assert "cell before last" in text
    assert "Weight by the kind of what operations give, over the epochs" in text
    page = (whole.run / "report.html").read_text(encoding="utf-8")
    assert page.count("kernels, with which features are convolved") >= 2
    saved = json.loads((whole.run / "genotype.json").read_text(encoding="utf-8"))["choices"]
    for kind in ("normal", "reduction"):
        history = saved["history"][kind]
        assert len(history) == 3  # two epochs and the end
        assert all(sum(row) == pytest.approx(1, abs=0.01) for row in history)
        assert history[0] != history[-1]


def test_cells_that_were_drawn_are_explained_without_weights(tmp_path: Path) -> None:
    settings = {"strategy.name": "random", "budget.trials": 1, "train.epochs": 1}
    cells = {key: value for key, value in CELLS.items() if "search" not in key}
    result = Case(images, cells).run(tmp_path / "run", "nos", settings=settings)
    assert [section["title"] for section in result.metrics["explanation"]] == ["The normal cell", "The reduction cell"]


def test_stages_of_a_supernet_end_with_its_last_cells() -> None:
    signature = Signature("classification", 3, (32, 32), 10)
    layout = lay_out(signature, 6, 4, 2)
    supernet = Supernet(signature, layout, Choices(tuple(OPERATIONS), 2))
    found = stages(assemble(supernet, signature, None), signature)
    assert {sizes: place.module for sizes, place in found.items()} == {
        layout.places[number].after: f"network.cells.{number}" for number in layout.ends
    }


def test_the_history_is_that_of_the_begin_of_every_epoch() -> None:
    signature = Signature("classification", 1, (8, 8), 2)
    supernet = Supernet(signature, lay_out(signature, 3, 4, 2), Choices(tuple(OPERATIONS), 2))
    history = WeightHistory(supernet.architectures, 4)
    for epochs in (0.0, 0.5, 1.0, 1.5):
        history.before_step(epochs)
        with torch.no_grad():
            supernet.architectures["normal"].operations[:, 0] += 1.0
    told = history.told()
    weights = [row[0] for row in told["normal"]]
    assert len(weights) == 3
    assert weights == sorted(weights)
    torch.testing.assert_close(
        torch.tensor(weights),
        torch.tensor([0.0, 2.0, 4.0]).exp() / (torch.tensor([0.0, 2.0, 4.0]).exp() + 10),
        rtol=0,
        atol=2e-3,
    )
    assert len({row[0] for row in told["reduction"]}) == 1
