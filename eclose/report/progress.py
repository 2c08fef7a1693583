"""Progress on the terminal: bars where there is one, plain lines where there is not."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from eclose.events import Listener
from eclose.report.tables import number


@contextlib.contextmanager
def progress_listener(stream: TextIO | None = None) -> Iterator[Listener]:
    """A listener for the terminal behind ``stream`` (standard error)."""
    stream = stream or sys.stderr
    console = Console(file=stream)
    if not console.is_terminal:
        yield _Lines(stream)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with Progress(*columns, console=console) as bars:
        yield _Bars(bars)


class _Bars:
    """One bar a training, counted in epochs."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.rows: dict[Any, TaskID] = {}
        self.names: dict[int, str] = {}

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        if event == "prepare":
            self._update(f"prepare {fields['what']}", fields["done"], fields["total"], "")
        elif event == "trial":
            self.names[fields["trial"]] = fields["name"]
            self._update(fields["name"], 0, fields["epochs"], "")
        elif event == "step":
            done = fields["epoch"] - 1 + fields["step"] / fields["steps"]
            self._update(self.names[fields["trial"]], done, None, None)
        elif event == "epoch":
            self._update(self.names[fields["trial"]], fields["epoch"], fields["epochs"], _figures(fields))

    def _update(self, name: str, done: float, total: int | None, figures: str | None) -> None:
        if name not in self.rows:
            self.rows[name] = self.bars.add_task(name, total=total, figures="")
        row = self.rows[name]
        changes: dict[str, Any] = {"completed": done}
        if total is not None:
            changes["total"] = total
        if figures is not None:
            changes["figures"] = figures
        self.bars.update(row, **changes)


class _Lines:
    """A line at the start and end of every training, and in between at most one in five seconds."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.names: dict[int, str] = {}
        self.told_at = 0.0

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        if event == "prepare" and self._due():
            self._say(f"prepare {fields['what']}: {fields['done']} of {fields['total']}")
        elif event == "trial":
            self.names[fields["trial"]] = fields["name"]
            self._say(f"{fields['name']}: {fields['parameters']:,} parameters, {fields['epochs']} epochs")
        elif event == "epoch" and (self._due() or fields["epoch"] == fields["epochs"]):
            name = self.names[fields["trial"]]
            self._say(f"{name}: epoch {fields['epoch']} of {fields['epochs']}, {_figures(fields)}")
        elif event == "trial_end" and fields["reason"]:
            self._say(f"{fields['name']}: {fields['state']}: {fields['reason']}")

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self.told_at < 5:
            return False
        self.told_at = now
        return True

    def _say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


def _figures(fields: dict[str, Any]) -> str:
    return f"loss {number(fields['train_loss'])}, valid {number(fields.get('valid'))}"
