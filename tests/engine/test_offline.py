"""What a supernet found, judged twice: with the weights of the search, and with weights that are trained anew."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import eclose
from eclose.display.terminal.tables import result_table
from eclose.runs import Run, Trial
from tests.contracts.cases import Case, images, rows

LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}
CASE = Case(images, {**LENET, "space.depth": 2})


def headings(result: dict[str, Any]) -> list[str]:
    return [str(column.header) for column in result_table(result).shapes[0].columns]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
    return CASE.run(tmp_path_factory.mktemp("offline") / "run", "chrysalis")


def test_one_run_has_both_figures(found: eclose.Result) -> None:
    (supernet,), (offline,) = rows(found.run), rows(found.run, "final")
    result = json.loads((found.run / "result.json").read_text(encoding="utf-8"))
    assert (result["supernet"], result["offline"]) == (supernet.test, offline.test)
    assert supernet.test is not None
    assert offline.test is not None
    assert {"supernet", "offline"} <= set(headings(result))
    page = (found.run / "report.html").read_text(encoding="utf-8")
    assert ">supernet<" in page
    assert ">offline<" in page


def test_the_operation_is_the_same_and_the_weights_are_new(found: eclose.Result) -> None:
    """They learn from the training samples alone, as the supernet did, and are validated as it was."""
    (supernet,), (offline,) = rows(found.run), rows(found.run, "final")
    assert supernet.hash == offline.hash
    assert offline.seed != supernet.seed
    assert (offline.architecture_parameters, supernet.architecture_parameters > 0) == (0, True)
    assert offline.valid == offline.history[-1]["valid"] or offline.valid in [e["valid"] for e in offline.history]
    config = Run.open(found.run).config
    assert (config.final.networks, config.final.all_samples) == (1, False)


def test_the_better_one_on_validation_samples_is_the_result(tmp_path: Path, found: eclose.Result) -> None:
    def best(run: Path) -> Trial:
        (supernet,), (offline,) = rows(run), rows(run, "final")
        return offline if offline.valid >= supernet.valid else supernet

    assert found.metrics["trial"] == best(found.run).number
    crippled = {"train.epochs": 6, "final.optimiser.learning_rate": 1e-9, "final.train.epochs": 1}
    result = CASE.run(tmp_path / "run", "chrysalis", settings=crippled)
    assert len(rows(result.run, "final")) == 1, "one comparison is fair, so there is no second training"
    assert (result.metrics["trial"], result.metrics["note"]) == (
        rows(result.run)[0].number,
        "these are the searched weights: those trained anew are worse",
    )
    assert result.metrics["supernet"] == result.metrics["test"] > result.metrics["offline"]
    state = result.model.state_dict()
    assert all(torch.equal(state[f"network.{name}"], tensor) for name, tensor in result.genotype.tensors.items())


@pytest.mark.parametrize(
    ("space", "settings", "both"),
    [
        ("chrysalis", {"final.networks": 0}, False),
        ("chrysalis", {"strategy.name": "train"}, False),
        ("chrysalis", {"strategy.name": "bilevel"}, True),
        ("discrete", {}, False),
        ("discrete", {"final.networks": 1}, True),
    ],
    ids=str,
)
def test_who_has_both_figures(space: str, settings: dict[str, Any], both: bool, tmp_path: Path) -> None:
    given = LENET if space == "discrete" else CASE.settings
    result = Case(images, {**given, **settings}).run(tmp_path / "run", space).metrics
    assert ("supernet" in result, "offline" in result) == (both, both)
    assert ({"supernet", "offline"} <= set(headings(result))) == both
