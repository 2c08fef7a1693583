"""Tables of the terminal."""

from typing import Any

import pytest
from rich.console import Console

from eclose.display.terminal.tables import result_table, trials_table
from eclose.runs import Trial

RESULT = {
    "task": "burgers",
    "name": "cnn (xd)",
    "metric": {"name": "relative_l2", "goal": "min"},
    "valid": 0.04,
    "test": 0.03,
    "parameters": 518849,
    "seconds": 118.0,
    "trial_seconds": 75.3,
    "baselines": [
        {"name": "cnn", "valid": 0.8, "test": 0.9, "parameters": 3, "seconds": 28.5, "state": "done"},
        {"name": "[/x]", "valid": None, "test": None, "parameters": 3, "seconds": 14.2, "state": "failed"},
    ],
}


def text(table: object, width: int = 200) -> str:
    console = Console(width=width, markup=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_every_row_shows_its_own_seconds() -> None:
    shown = text(result_table(RESULT))
    assert "lower is better" in shown
    assert "75.3" in shown
    assert "118.0" not in shown
    assert "[/x] (failed)" in shown
    assert "518,849" in shown


def test_all_headings_fit_a_terminal() -> None:
    """A search with an architecture that is judged twice has the most columns."""
    figures = {"valid": 0.99621, "test": 0.91672, "supernet": 0.91673, "offline": 0.92001}
    sizes = {"parameters": 132_186, "architecture_parameters": 110_800, "trial_seconds": 534.2}
    result = {**RESULT, **figures, **sizes, "name": "lenet with K-operations"}
    lines = text(result_table(result), 80).splitlines()
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    for word in ("supernet", "offline", "parameters", "architecture", "seconds", "K-operations", "110,800", "0.92"):
        assert word in shown


def test_predictors_stand_below_a_rule_and_are_said_to_be_unbeaten() -> None:
    linear = {"name": "linear model", "kind": "fitted", "valid": 0.02, "test": 0.01, "parameters": 9, "seconds": 0.1}
    rows = [*({**row, "kind": "network"} for row in RESULT["baselines"]), linear]
    lines = text(result_table({**RESULT, "baselines": rows, "unbeaten": ["linear model"]}), 80).splitlines()
    assert [line[0] for line in lines[1:10]] == list("┏┃┡│││├│└")
    assert "cnn (xd) is no better than the linear model, which needs no training" in " ".join(" ".join(lines).split())
    both = text(result_table({**RESULT, "baselines": rows, "unbeaten": ["linear model", "copy of the input"]}))
    assert "cnn (xd) is no better than the linear model and the copy of the input, which need no training" in " ".join(
        both.split()
    )
    assert "is no better than" not in text(result_table({**RESULT, "baselines": rows, "unbeaten": []}))


def test_architecture_parameters_have_a_column_where_there_are_some() -> None:
    cnn, failed = RESULT["baselines"]
    searched = {
        **RESULT,
        "architecture_parameters": 215040,
        "baselines": [{**cnn, "architecture_parameters": 0}, failed],
    }
    lines = text(result_table(searched), 80).splitlines()
    columns = [[cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]] for line in lines if line[0] in "┃│"]
    assert [row[3:5] for row in columns] == [
        ["parameters", "architecture"],
        ["518,849", "215,040"],
        ["3", "0"],
        ["3", "-"],
    ]
    assert "architecture" not in text(result_table({**RESULT, "architecture_parameters": 0}))
    assert "architecture" not in text(result_table(RESULT)), "a result from before they were counted"


def test_a_long_search_fits_a_terminal() -> None:
    figures = {"parameters": 275802, "epochs": 30, "seconds": 18.04, "latency": 0.06382}
    rows = [
        Trial(0, "search", "drawn 1fa3", "einspace", {}, "a", 1, state="done", valid=0.09667, **figures),
        Trial(498, "search", "crossed a105", "einspace", {}, "b", 1, parents=[397, 455], **figures),
        Trial(499, "search", "crossed b105", "einspace", {}, "c", 1, parents=[7, 7], state="done", reason="stopped"),
        Trial(500, "search", "mutated 12ab", "einspace", {}, "d", 1, parents=[3], state="failed", reason="too hot"),
        Trial(501, "final", "drawn 1fa3", "einspace", {}, "a", 1, state="done", valid=0.0967, test=0.8333),
    ]
    lines = [line.rstrip() for line in text(trials_table(rows), 80).splitlines()]
    assert lines == [
        "trial network                  state     valid   test  params     ms epochs    s",
        "    0 drawn 1fa3               done    0.09667      - 275,802 0.0638     30 18.0",
        "  498 crossed a105 of 397, 455 running       -      - 275,802 0.0638     30 18.0",
        "  499 crossed b105 of 7        stopped       -      -       -      -      -    -",
        "  500 mutated 12ab of 3        failed        -      -       -      -      -    -",
        "  501 drawn 1fa3, final        done     0.0967 0.8333       -      -      -    -",
        "500 failed: too hot",
    ]
    assert " ms " not in text(trials_table([Trial(0, "search", "cnn", "backbone", {}, "a", 1)]))


def test_names_of_descendants_leave_the_figures_their_place() -> None:
    figures = {"parameters": 275802, "epochs": 30, "seconds": 18.04, "latency": 0.06382, "valid": 0.09667}
    child = Trial(3, "search", "child of resnet18 1fa3", "einspace", {}, "a", 1, parents=[0], **figures)
    later = Trial(499, "search", "descendant of resnet18 12ab", "einspace", {}, "b", 1, parents=[397, 455], **figures)
    lines = text(trials_table([child, later]), 80).splitlines()
    assert [line.split()[-6:] for line in lines[1:3]] == 2 * [["0.09667", "-", "275,802", "0.0638", "30", "18.0"]]
    assert "child of resnet18 1fa3 (0) running" in " ".join(lines[1].split())
    assert "descendant of resnet18" in lines[2]
    assert lines[3].split() == ["12ab", "(397,", "455)"]
    assert max(map(len, lines)) <= 80


def test_a_search_says_how_many_it_tried() -> None:
    search = {"failed": 2, "stopped": 0, "best": 0.04, "mean": 0.4}
    assert "best of 40 networks, 2 failed" in text(result_table({**RESULT, "trials": 40, "search": search}))
    assert "best of" not in text(result_table(RESULT))
    alone = text(result_table({**RESULT, "trials": 1, "search": {**search, "failed": 0}}))
    assert "the only network that was tried" in alone
    assert "best of" not in alone


def test_a_portfolio_says_how_far_it_is_ahead() -> None:
    search = {"failed": 0, "stopped": 0, "networks": 5, "ahead": 0.02, "rival": "narrow resnet", "seeds_apart": 0.03}

    def said(**changes: Any) -> str:
        return " ".join(text(result_table({**RESULT, "trials": 9, "search": {**search, **changes}})).split())

    assert "best of 5 networks in 9 trainings" in said()
    told = (
        "ahead of the best plain network, narrow resnet, by 0.02 on validation samples, no more than two seeds of one"
    )
    assert told in said()
    assert "ahead of the best found network, narrow resnet, by 0.02" in said(plain=True)
    as_good = "as good as the best {} network, narrow resnet, on validation samples: {}"
    assert as_good.format("plain", "its validation loss is lower") in said(ahead=0.0)
    assert as_good.format("found", "of equals a plain network is preferred") in said(ahead=0.0, plain=True)
    assert "by 0 " not in said(ahead=0.0)
    behind = said(ahead=-0.01, plain=True)
    assert "one right answer behind the best found network, narrow resnet, on validation samples, which is" in behind
    assert "the run was too short to try nos and xd, which space.spaces names" in said(missed=["nos", "xd"])


def test_how_well_scores_foretold_the_trainings() -> None:
    search = {"failed": 0, "stopped": 2, "best": 0.1, "mean": 0.2}
    correlation = {"trials": 12, "gradient": 0.4149, "kernel": None, "both": -0.2}
    assert "rank correlation" not in text(result_table({**RESULT, "trials": 14, "search": search}))
    shown = text(result_table({**RESULT, "trials": 14, "search": {**search, "rank_correlation": correlation}}))
    assert "best of 14 networks, 2 stopped" in shown
    words = " ".join(shown.split())
    assert "12 trials to the end: gradient +0.41, kernel -, both -0.20" in words


@pytest.mark.parametrize(("width", "headings"), [(80, 6), (60, 5), (50, 4), (34, 3)])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_figures(width: int, headings: int) -> None:
    figures = {"architecture_parameters": 215040, "valid": 0.39384, "test": 0.02939}
    lines = text(result_table({**RESULT, **figures}), width).splitlines()
    assert max(map(len, lines)) <= width
    heading = next(line for line in lines if "valid" in line)
    assert len(heading.replace("┃", " ").split()) == headings
    assert all(figure in "".join(lines) for figure in ("0.3938", "0.02939"))
    assert not any("…" in line for line in lines)
