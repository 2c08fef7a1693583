"""Tables of the terminal."""

from rich.console import Console

from eclose.report.tables import result_table, trials_table
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


def text(table: object) -> str:
    console = Console(width=200, markup=False)
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


def test_reasons_take_room_only_where_there_are_some() -> None:
    trial = Trial(0, "search", "cnn", "backbone", {}, "a", 1, state="done", valid=0.5)
    assert "reason" not in text(trials_table([trial]))
    failed = Trial(1, "search", "cnn", "backbone", {}, "a", 1, state="failed", reason="too hot")
    assert "too hot" in text(trials_table([trial, failed]))


def test_a_search_says_how_many_it_tried() -> None:
    search = {"failed": 2, "stopped": 0, "best": 0.04, "mean": 0.4}
    assert "best of 40 networks, 2 failed" in text(result_table({**RESULT, "trials": 40, "search": search}))
    assert "best of" not in text(result_table(RESULT))


def test_how_well_scores_foretold_the_trainings() -> None:
    search = {"failed": 0, "stopped": 2, "best": 0.1, "mean": 0.2}
    correlation = {"trials": 12, "gradient": 0.4149, "kernel": None, "both": -0.2}
    assert "rank correlation" not in text(result_table({**RESULT, "trials": 14, "search": search}))
    shown = text(result_table({**RESULT, "trials": 14, "search": {**search, "rank_correlation": correlation}}))
    assert "best of 14 networks, 2 stopped" in shown
    words = " ".join(shown.split())
    assert "12 trials to the end: gradient +0.41, kernel -, both -0.20" in words
