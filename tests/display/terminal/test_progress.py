"""Progress of one training and of a search with many, as lines and as bars."""

import io
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from eclose.display.terminal import progress
from eclose.display.terminal.progress import progress_listener


def trial(number: int, of: int, best: float | None = None, **fields: Any) -> dict[str, Any]:
    place = {"trial": number, "role": "search", "name": "net", "place": number + 1, "of": of, "best": best}
    return {**place, "ended": number, "running": 0, "epochs": 4, "steps": 10, "parameters": 12345, **fields}


def epoch(number: int, epoch: int, **fields: Any) -> dict[str, Any]:
    return {"trial": number, "epoch": epoch, "epochs": 4, "train_loss": 0.25, "valid": 0.5, **fields}


def end(number: int, of: int, best: float | None, **fields: Any) -> dict[str, Any]:
    begun = trial(number, of, best, ended=number + 1)
    return {**begun, "state": "done", "valid": 0.5, "test": None, "reason": "", **fields}


MANY = [
    ("trial", trial(0, 3)),
    ("epoch", epoch(0, 1)),
    ("epoch", epoch(0, 4)),
    ("trial_end", end(0, 3, 0.5)),
    ("trial", trial(1, 3, 0.5)),
    ("trial_end", end(1, 3, 0.5, state="failed", valid=None, parameters=None, reason="too hot")),
    ("trial", trial(2, 3, 0.5)),
    ("epoch", epoch(2, 1)),
    ("trial_end", end(2, 3, 0.75, valid=0.75, reason="stopped after epoch 1: ...")),
    ("trial", trial(3, 1, 0.75, role="final")),
    ("epoch", epoch(3, 4, valid=None)),
    ("trial_end", end(3, 1, 0.75, role="final")),
]


def test_a_search_is_one_line_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1.0)  # no time passes
    stream = io.StringIO()
    with progress_listener(stream) as listen:
        for event, fields in MANY:
            listen(event, fields)
    assert stream.getvalue().splitlines() == [
        "trial 0 (1 of 3), net: 12,345 parameters, valid 0.5; best 0.5",
        "trial 1 (2 of 3), net: failed: too hot; best 0.5",
        "trial 2 (3 of 3), net: 12,345 parameters, valid 0.75 (stopped early); best 0.75",
        "net, final: 12,345 parameters, 4 epochs",
        "net, final: epoch 4 of 4, loss 0.25, valid -",
    ]


def test_what_files_say_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    doubt = ("data", {"text": "mine.csv", "doubts": ["left out: '\x1b[2J'"]})
    stream = io.StringIO()
    with progress_listener(stream) as listen:
        listen(*doubt)
    assert stream.getvalue() == "mine.csv\nplease check: left out: '?[2J'\n"
    bars = io.StringIO()
    monkeypatch.setattr(bars, "isatty", lambda: True)
    with progress_listener(bars) as listen:
        listen(*doubt)
    assert "?[2J" in bars.getvalue()
    assert "\x1b[2J" not in bars.getvalue()


def test_one_training_is_told_by_its_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1.0)
    stream = io.StringIO()
    with progress_listener(stream) as listen:
        for event, fields in [("trial", trial(0, 1)), ("epoch", epoch(0, 1)), ("epoch", epoch(0, 4))]:
            listen(event, fields)
        listen("trial_end", end(0, 1, None, state="failed", reason="too hot"))
    assert stream.getvalue().splitlines() == [
        "net: 12,345 parameters, 4 epochs",
        "net: epoch 4 of 4, loss 0.25, valid 0.5",
        "net: failed: too hot",
    ]


def test_what_is_to_beat_is_told_before_a_training() -> None:
    rows = [{"name": "most frequent class", "valid": 0.1123}, {"name": "linear model", "valid": None}]
    stream = io.StringIO()
    with progress_listener(stream) as listen:
        listen("to_beat", {"rows": rows})
    line = "to beat, without training: most frequent class 0.1123, linear model - (validation)"
    assert stream.getvalue().splitlines() == [line]


def test_a_search_is_one_bar_that_counts_trials() -> None:
    bars = Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO()))
    listen = progress._Bars(bars)
    seen = []
    for event, fields in MANY[:9]:
        listen(event, fields)
        (row,) = bars.tasks
        assert (row.description, row.total) == ("search", 3)
        seen.append((int(row.completed), row.fields["figures"]))
    assert seen[0] == (0, "")
    assert seen[2] == (0, ""), "a trial counts when it has ended"
    assert seen[3:5] == [(1, "best 0.5"), (1, "best 0.5")]
    assert seen[5] == (2, "best 0.5")
    assert seen[8] == (3, "best 0.75")
    for event, fields in MANY[9:]:
        listen(event, fields)
    assert [(row.description, row.completed, row.total) for row in bars.tasks] == [
        ("search", 3, 3),
        ("net, final", 4, 4),
    ]


def test_notices_are_shown_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=200)
    bars, stream = Progress(console=console), io.StringIO()
    with progress_listener(stream) as lines:
        for listen in (progress._Bars(bars), lines):
            listen("notice", {"text": "pip install 'eclose[dashboard]'"})
    assert console.file.getvalue() == stream.getvalue() == "pip install 'eclose[dashboard]'\n"


def test_trials_that_run_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)  # lines between the ends would be due
    bars = Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO()))
    listen, stream, seen = progress._prompt(progress._Bars(bars)), io.StringIO(), []
    with progress_listener(stream) as lines:
        for event, fields in [
            ("begin", trial(0, 3)),
            ("begin", trial(1, 3, ended=0, running=1)),
            ("trial", trial(1, 3, ended=0, running=1)),
            ("epoch", epoch(1, 4)),
            ("trial_end", {**end(1, 3, 0.5), "ended": 1, "running": 1}),
            ("begin", trial(2, 3, 0.5, ended=1, running=1)),
        ]:
            listen(event, fields)
            lines(event, fields)
            (row,) = bars.tasks
            seen.append((row.completed, row.fields["figures"]))
    assert seen[:4] == [(0, "1 running"), *3 * [(0, "2 running")]]
    assert seen[4:] == [(1, "best 0.5, 1 running"), (1, "best 0.5, 2 running")]
    assert stream.getvalue().splitlines() == [
        "trial 1 (2 of 3), net: 12,345 parameters, valid 0.5; best 0.5, 1 running"
    ]
