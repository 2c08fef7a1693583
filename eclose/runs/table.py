"""The trial table: one SQLite row for every training of a run, safe against sudden death."""

import dataclasses
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

from eclose.errors import RunError
from eclose.runs.earlier_versions import role_now
from eclose.runs.figures import FIGURES, Figures
from eclose.runs.files import plain

STAGES = ("short", "long", "again")
"""Origins of the trials of a portfolio: trainings of one network that differ in their length or their seed."""

_PATIENCE = 30  # seconds, while another process writes
_LATER = {  # tables of older runs get these columns when they are opened
    "origin": "TEXT NOT NULL DEFAULT ''",
    "parents": "TEXT NOT NULL DEFAULT '[]'",
    "scores": "TEXT NOT NULL DEFAULT '{}'",
    "description": "TEXT NOT NULL DEFAULT ''",
    "collapsed": "INTEGER NOT NULL DEFAULT 0",
    "note": "TEXT NOT NULL DEFAULT ''",
    "goes_on": "INTEGER",
    **{figure.name: figure.column for figure in FIGURES},
}
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS trials (
    number INTEGER PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, space TEXT NOT NULL,
    genotype TEXT NOT NULL, hash TEXT NOT NULL, seed INTEGER NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL, history TEXT NOT NULL,
    {", ".join(f"{name} {kind}" for name, kind in _LATER.items())}
)
"""


@dataclass(frozen=True)
class Trial(Figures):
    """One evaluated genotype."""

    number: int
    role: str  # teacher, fitted (in closed form), search, final or baseline
    name: str  # as shown in tables
    space: str
    genotype: dict[str, Any]
    hash: str
    seed: int
    state: str = "running"  # running, done or failed
    _: KW_ONLY
    reason: str = ""  # of a failure, or of an early end
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry an epoch
    origin: str = ""  # how the search came to it: drawn, mutated, crossed, seed
    parents: list[int] = field(default_factory=list)  # numbers of trials
    scores: dict[str, float | None] = field(default_factory=dict)  # by name, from before the training
    description: str = ""  # in words, where the space has some: ``child of resnet18: softmax added``
    collapsed: bool = False  # it answers the same whatever it is shown
    note: str = ""  # what else is to be said, such as that it was trained twice
    goes_on: int | None = None  # the trial with whose weights its training begins; None: with new ones

    @property
    def label(self) -> str:
        """Its name, with the stage of a portfolio."""
        return f"{self.name}, {self.origin}" if self.origin in STAGES else self.name

    def outcome(self) -> dict[str, Any]:
        """How it ended, for events and results: its state, its figures and what there is to say of them."""
        told = {"reason": self.reason, "collapsed": self.collapsed, "note": self.note}
        return {"state": self.state, **self.figures(), **told}


def with_earlier(trial: Trial, trials: Sequence[Trial]) -> Trial:
    """With the epochs and seconds of the trainings that it went on from: what its weights have cost."""
    known, last = {each.number: each for each in trials}, trial
    while last.goes_on in known and last.goes_on < last.number:
        last = known[last.goes_on]
        epochs, seconds = (trial.epochs or 0) + (last.epochs or 0), (trial.seconds or 0.0) + (last.seconds or 0.0)
        trial = replace(trial, epochs=epochs, seconds=seconds)
    return trial


_COLUMNS = [f.name for f in dataclasses.fields(Trial)]
_AS_JSON = {"genotype": dict, "history": list, "parents": list, "scores": dict}
_KINDS: dict[str, type | tuple[type, ...]] = {  # a number that is a text would make the path of a trial's folder
    **dict.fromkeys(("number", "seed", "collapsed"), int),
    **dict.fromkeys(("role", "name", "space", "hash", "state", "reason", "origin", "description", "note"), str),
    **{figure.name: (int, NoneType) if figure.column == "INTEGER" else (float, int, NoneType) for figure in FIGURES},
    "goes_on": (int, NoneType),
    **_AS_JSON,
}
_ITEMS = {"history": dict, "parents": int}


class TrialTable:
    """Trials by number; every change is one committed transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._check_content()
        self._execute(_SCHEMA)
        there = {row[1] for row in self._execute("PRAGMA table_info(trials)")}
        for name in _LATER.keys() - there:
            self._execute(f"ALTER TABLE trials ADD COLUMN {name} {_LATER[name]}")

    def _check_content(self) -> None:
        """Refuse views and triggers, which would do more than hold what is written."""
        for kind, name in self._execute("SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')"):
            raise self._unusable(ValueError(f"it has a {kind} '{name}'"))

    def put(self, trial: Trial) -> None:
        """Insert or replace a trial."""
        row = [getattr(trial, name) for name in _COLUMNS]
        row[_COLUMNS.index("genotype")] = json.dumps(trial.genotype, sort_keys=True)
        row[_COLUMNS.index("history")] = json.dumps(plain(trial.history))
        row[_COLUMNS.index("parents")] = json.dumps(trial.parents)
        row[_COLUMNS.index("scores")] = json.dumps(plain(trial.scores))
        marks = ", ".join("?" * len(row))
        self._execute(f"INSERT OR REPLACE INTO trials ({', '.join(_COLUMNS)}) VALUES ({marks})", row)

    def all(self) -> list[Trial]:
        """Every trial in order."""
        rows = self._execute(f"SELECT {', '.join(_COLUMNS)} FROM trials ORDER BY number")
        return [self._trial(row) for row in rows]

    def _execute(self, statement: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as connection, connection:
                return connection.execute(statement, values or []).fetchall()
        except sqlite3.DatabaseError as error:
            if "full" in str(error):
                raise OSError(28, "No space left on device", str(self.path)) from None
            raise self._unusable(error) from None

    def _trial(self, row: tuple[Any, ...]) -> Trial:
        values = dict(zip(_COLUMNS, row, strict=True))
        try:
            values |= {name: json.loads(values[name]) for name in _AS_JSON}
            for name, kind in _KINDS.items():
                if not isinstance(values[name], kind):
                    raise TypeError(f"'{name}' is {values[name]!r:.60}")
            for name, kind in _ITEMS.items():
                if not all(isinstance(item, kind) for item in values[name]):
                    raise TypeError(f"'{name}' is {values[name]!r:.60}")
        except (ValueError, TypeError, RecursionError) as error:
            raise self._unusable(error) from None
        return Trial(**values | {"role": role_now(values["role"]), "collapsed": bool(values["collapsed"])})

    def _unusable(self, error: Exception) -> RunError:
        whole = "locked" in str(error)
        way_out = "another process uses it, try again" if whole else "restore it from a copy, or start a new run"
        return RunError(f"the trial table {self.path} cannot be used ({error}): {way_out}")
