"""Progress: bars on a terminal and in a notebook, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from eclose.display.terminal.console import Terminal
from eclose.display.terminal.tables import significant
from eclose.errors import readable
from eclose.events import Listener
from eclose.plural import plural


@contextlib.contextmanager
def progress_listener(stream: TextIO | None = None) -> Iterator[Listener]:
    """A listener that shows a run under way on ``stream`` (standard error), or in the notebook that calls."""
    stream = stream or sys.stderr
    console = Terminal(file=stream)
    if console.is_jupyter:
        with _notebook(_bars(console)) as listener:
            yield listener
    elif console.is_terminal:
        with _bars(console) as bars:
            yield _prompt(_Bars(bars))
    else:
        yield _prompt(_Lines(stream))


def _bars(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    # What the user prints meanwhile goes above the bars, unless it goes to a file.
    return Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty())


@contextlib.contextmanager
def _notebook(bars: Progress) -> Iterator[Listener]:
    """Bars that are drawn anew in place: rich's own way needs ipywidgets, which many notebooks do not have."""
    from IPython.display import display

    shown, drawn_at = None, 0.0
    listener = _prompt(_Bars(bars))

    def listen(event: str, fields: dict[str, Any]) -> None:
        nonlocal shown, drawn_at
        listener(event, fields)
        if shown is None:
            shown = display(bars, display_id=True)
        elif time.monotonic() - drawn_at > 0.2:
            shown.update(bars)
            drawn_at = time.monotonic()

    try:
        yield listen
    finally:
        if shown is not None:
            shown.update(bars)


def _prompt(listener: Listener) -> Listener:
    """Without the epochs of trials beside others: workers tell them all at once, when a trial has ended."""
    beside: set[int] = set()

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "begin" and fields["of"] > 1:
            beside.add(fields["trial"])
        if event not in ("trial", "epoch") or fields["trial"] not in beside:
            listener(event, fields)

    return listen


class _Bars:
    """One bar a training, counted in epochs or in time; one bar for a search of several, counted in trials."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.rows: dict[str, TaskID] = {}
        self.under_way: dict[int, dict[str, Any]] = {}  # the `trial` events

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        if event == "prepare":
            self._update(f"prepare {fields['what']}", fields["done"], fields["total"], "")
        elif event == "trial":
            self.under_way[fields["trial"]] = fields
            self._training(fields, 0.0, "")
        elif event == "step":
            trial, done = self.under_way[fields["trial"]], fields["epoch"] - 1 + fields["step"] / fields["steps"]
            self._training(trial, _share(trial, done, fields.get("seconds", 0.0)), None)
        elif event == "epoch":
            trial = self.under_way[fields["trial"]]
            self._training(trial, _share(trial, fields["epoch"], fields.get("seconds", 0.0)), _figures(fields))
        elif event == "begin":
            together = {**fields, "running": fields["running"] + 1}
            self._update(_title(fields), fields["ended"], fields["of"], _best(together))
        elif event == "trial_end" and fields["of"] > 1:
            self._update(_title(fields), fields["ended"], fields["of"], _best(fields))
        for line in _said(event, fields):
            self.bars.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _training(self, trial: dict[str, Any], share: float, figures: str | None) -> None:
        """How far a training has come, alone or as one of many."""
        if trial["of"] > 1:
            done = trial["place"] - 1 + min(share, 1 - 1e-6)  # the next number is the next trial's
            self._update(_title(trial), done, trial["of"], _best(trial))
        else:
            self._update(_title(trial), share * trial["epochs"], trial["epochs"], figures)

    def _update(self, name: str, done: float, total: int, figures: str | None) -> None:
        if name not in self.rows:
            self.rows[name] = self.bars.add_task(name, total=total, figures="")
        changes: dict[str, Any] = {} if figures is None else {"figures": figures}
        self.bars.update(self.rows[name], completed=done, total=total, **changes)


class _Lines:
    """A line at the start and end of every training, and in between at most one in five seconds.

    Of a search of several trainings each has one line, at its end.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.under_way: dict[int, dict[str, Any]] = {}
        self.told_at = 0.0

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        for line in _said(event, fields):
            self._say(line)
        if event == "prepare" and self._due():
            self._say(f"prepare {fields['what']}: {fields['done']} of {fields['total']}")
        elif event == "trial":
            self.under_way[fields["trial"]] = fields
            if fields["of"] == 1:
                self._say(f"{_title(fields)}: {fields['parameters']:,} parameters, {_length(fields)}")
        elif event == "epoch":
            self._epoch(self.under_way[fields["trial"]], fields)
        elif event == "trial_end" and fields["of"] > 1:
            self._say(f"{_place(fields)}: {_outcome(fields)}; {_best(fields)}")
        elif event == "trial_end" and fields["reason"]:
            self._say(f"{_title(fields)}: {fields['state']}: {fields['reason']}")

    def _epoch(self, trial: dict[str, Any], fields: dict[str, Any]) -> None:
        last = trial["of"] == 1 and _share(trial, fields["epoch"], fields.get("seconds", 0.0)) >= 1
        if self._due() or last:
            title = _place(trial) if trial["of"] > 1 else _title(trial)
            of = "" if trial.get("allowed") else f" of {fields['epochs']}"
            self._say(f"{title}: epoch {fields['epoch']}{of}, {_figures(fields)}")

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self.told_at < 5:
            return False
        self.told_at = now
        return True

    def _say(self, line: str) -> None:
        print(readable(line), file=self.stream, flush=True)


def _said(event: str, fields: dict[str, Any]) -> list[str]:
    """Events that are told in words."""
    if event == "data":
        return [fields["text"], *(f"please check: {doubt}" for doubt in fields["doubts"])]
    if event == "to_beat":
        rows = ", ".join(f"{row['name']} {significant(row['valid'])}" for row in fields["rows"])
        return [f"to beat, without training: {rows} (validation)"]
    if event == "comparison":
        return [f"search {fields['place']} of {fields['of']}: {fields['run']}"]
    return [fields["text"]] if event == "notice" else []


def _share(trial: dict[str, Any], epochs: float, seconds: float) -> float:
    """How far a training has come: by its epochs, or by its time if that ends it sooner."""
    allowed = trial.get("allowed")
    return min(1.0, max(epochs / trial["epochs"], seconds / allowed if allowed else 0.0))


def _length(trial: dict[str, Any]) -> str:
    allowed = trial.get("allowed")
    return f"{allowed:.3g} s" if allowed else plural(trial["epochs"], "epoch")


def _figures(fields: dict[str, Any]) -> str:
    return f"loss {significant(fields['train_loss'])}, valid {significant(fields.get('valid'))}"


def _title(trial: dict[str, Any]) -> str:
    if trial["of"] > 1:
        return "search"
    stage = "final" if trial["role"] == "final" else trial.get("origin")
    return f"{trial['name']}, {stage}" if stage else str(trial["name"])


def _place(trial: dict[str, Any]) -> str:
    return f"trial {trial['trial']} ({trial['place']} of {trial['of']}), {trial['name']}"


def _best(trial: dict[str, Any]) -> str:
    best = [f"best {significant(trial['best'])}"] if trial["best"] is not None else []
    return ", ".join([*best, *([f"{trial['running']} running"] if trial["running"] else [])])


def _outcome(fields: dict[str, Any]) -> str:
    if fields["state"] == "failed":
        return f"failed: {fields['reason']}"
    size = f"{fields['parameters']:,} parameters, " if fields["parameters"] is not None else ""
    early = " (collapsed)" if fields.get("collapsed") else " (stopped early)" if fields["reason"] else ""
    return f"{size}valid {significant(fields['valid'])}{early}"
