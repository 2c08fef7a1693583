"""A run: the folder that holds everything about one search.

::

    config.toml            complete, every default written out
    settings.toml          the same as the run began with it, never edited
    events.jsonl           what happened, line by line
    trials.sqlite          one row for every training
    trials/N/              checkpoint and weights of training N
    genotype.json          the found network as data (and genotype.safetensors, where it has tensors)
    weights.safetensors    its trained weights
    result.json            the figures
    samples.safetensors    a few test samples with every network's predictions, for the page
    report.html            the page
"""

import contextlib
import functools
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from eclose.config import Config, from_dict, read_toml
from eclose.errors import ConfigError, RunError, typed
from eclose.runs.earlier_versions import as_named_now, result_as_named_now
from eclose.runs.figures import FIGURES
from eclose.runs.files import fits_memory, parse_json, plain, write_json, write_text
from eclose.runs.foreign import check_foreign, recall, remember
from eclose.runs.table import TrialTable
from eclose.signature import Signature

RUNS = Path("runs")
"""Where run folders lie, seen from where the user is, unless told otherwise."""

COMPARISON = "comparison.json"
"""In a folder of runs that are compared: their names, and what came out once all have ended."""

_END = "\n# end of the configuration\n"  # without it a file that was cut off could pass for a shorter one
_RESULT = {
    "task": str,
    "space": str,
    "strategy": str,
    "metric": dict,
    "name": str,
    "signature": dict,
    "baselines": list,
    "trials": int,
}
_OPTIONAL = {"about": dict, "versions": dict, "search": dict, "unbeaten": list, "explanation": list}
_LARGEST = 1e300  # sums of figures stay numbers
_NUMBERS = (*(figure.name for figure in FIGURES), "trial_seconds")


class Run:
    """A run folder, opened."""

    def __init__(self, path: Path, config: Config, agreed: Mapping[str, str] | None = None) -> None:
        """``agreed``: the calls of code that its user agreed to when the run began here; None: it is foreign."""
        self.path = path
        self.config = config
        self.agreed = agreed

    @functools.cached_property
    def table(self) -> TrialTable:
        """The trials; the file is made when it is first needed."""
        return TrialTable(self.path / "trials.sqlite")

    @classmethod
    def create(cls, path: Path, config: Config, agreed: Mapping[str, str] | None = None) -> "Run":
        """Make the folder and write the configuration; refuses a folder that holds anything."""
        check_empty(path)
        write_configuration(path, config, agreed or {})
        return cls(path, config, agreed or {})

    @classmethod
    def open(cls, path: Path) -> "Run":
        """An existing run; the error says what is wrong with a folder that is none, or that reaches out of itself."""
        if not path.is_dir():
            raise RunError(f"{path} is not a run folder: {'it is a file' if path.exists() else 'no such folder'}")
        if (path / COMPARISON).is_file():
            way_out = f"`eclose compare {typed(path)}` goes on with them, or name one of them"
            raise RunError(f"{path} holds several runs: {way_out}")
        if not (path / "config.toml").is_file():
            raise RunError(f"{path} is not a run folder: it has no config.toml")
        try:
            data = read_toml(path / "config.toml")
        except ConfigError as error:
            raise RunError(f"{error}: restore it from a copy, or start a new run") from None
        if "format" not in data:
            raise RunError(f"{path} is not a run folder: its config.toml was not written by eclose")
        text = (path / "config.toml").read_text(encoding="utf-8")
        if not text.rstrip().endswith(_END.strip()):
            raise RunError(f"{path / 'config.toml'} is cut off: restore it from a copy, or start a new run")
        agreed = recall(path, text)
        if agreed is None:
            check_foreign(path)
        try:
            return cls(path, from_dict(as_named_now(data)), agreed)
        except ConfigError as error:
            raise RunError(f"{path / 'config.toml'}: {error}") from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for writing; a second process is refused. The lock dies with the process."""
        with locked(self.path):
            yield

    @property
    def in_use(self) -> bool:
        """Whether a process holds the run."""
        if not (self.path / ".lock").exists():
            return False
        try:
            address = f"{(self.path / '.lock').resolve().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(address, timeout=0, uri=True)) as lock:
                lock.execute("SELECT * FROM sqlite_master").fetchall()
        except sqlite3.DatabaseError as error:
            return "locked" in str(error)
        return False

    def trial_folder(self, number: int) -> Path:
        """Where training ``number`` keeps its files."""
        return self.path / "trials" / str(number)

    @property
    def result(self) -> dict[str, Any] | None:
        """The content of ``result.json``, or None before the run has ended."""
        path = self.path / "result.json"
        if not path.is_file():
            return None
        try:
            data = parse_json(path.read_text(encoding="utf-8"))
            _check_result(data)
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(f"{path} is damaged ({error}): delete it and `eclose resume {typed(self.path)}`") from None
        return result_as_named_now(data)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write ``result.json``: from here on the run counts as finished."""
        write_json(self.path / "result.json", result)

    def log(self, event: str, fields: dict[str, Any]) -> None:
        """Listener that appends events to ``events.jsonl``."""
        if event == "step":
            return
        line = json.dumps({"event": event, **plain(fields)}, default=str)
        with open(self.path / "events.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")


def check_empty(path: Path) -> None:
    """Refuse a place for a new run where something is, and say how to go on with what is there."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    ways = {COMPARISON: "compare", "config.toml": "resume"}
    go_on = next((f", or `eclose {verb} {typed(path)}`" for name, verb in ways.items() if (path / name).is_file()), "")
    raise RunError(f"{path} exists and is not an empty folder: choose another --out{go_on}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder of one or of several runs for writing; a second process is refused."""
    # SQLite's own file locks work on every system and are released when the process dies.
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(contextlib.closing(sqlite3.connect(folder / ".lock", timeout=0)))
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise RunError(f"{folder} is in use by another process: wait for it, or stop it") from None
            raise RunError(f"{folder / '.lock'} cannot be used ({error}): make the folder writable") from None
        yield


def _check_result(data: Any) -> None:
    if not isinstance(data, dict):
        raise ValueError("it holds no object")
    for key, kind in _RESULT.items():
        if not isinstance(data.get(key), kind):
            raise ValueError(f"'{key}' is missing or of the wrong type")
    for key, kind in _OPTIONAL.items():
        if not isinstance(data.get(key), (kind, type(None))):
            raise ValueError(f"'{key}' is of the wrong type")
    if not isinstance(data["metric"].get("name"), str) or data["metric"].get("goal") not in ("min", "max"):
        raise ValueError("'metric' has no name or no goal")
    for row in (data, *data["baselines"]):
        _check_row(row)
    signature = Signature.from_dict(data["signature"])
    sizes = (signature.channels, *signature.sizes, signature.outputs)
    if not all(isinstance(value, int) for value in (*sizes, signature.vocabulary)):
        raise ValueError("'signature' is of the wrong type")
    values = max(math.prod(signature.input_shape(1)), math.prod(signature.output_shape(1)))
    if min(*sizes, signature.vocabulary + 1) < 1 or not fits_memory(4 * values):
        raise ValueError("'signature' has sizes that no network has")
    layout = data.get("layout", {})
    if not (isinstance(layout, dict) and all(isinstance(layout.get(key, []), list) for key in ("classes", "columns"))):
        raise ValueError("'layout' is of the wrong type")


def _check_row(row: Any) -> None:
    """The figures of the found network, or of one beside it."""
    if not (isinstance(row, dict) and isinstance(row.get("name"), str)):
        raise ValueError("'baselines' has a row without a name")
    if not (isinstance(row.get("kind", ""), str) and isinstance(row.get("trial"), (int, type(None)))):
        raise ValueError(f"'kind' or 'trial' of {row['name']} is of the wrong type")
    for key in _NUMBERS:
        value = row.get(key)
        if value is not None and not (isinstance(value, (int, float)) and -_LARGEST < value < _LARGEST):
            raise ValueError(f"'{key}' of {row['name']} is no number")
    for key in ("valid", "test"):
        if key not in row:
            raise ValueError(f"'{key}' of {row['name']} is missing")


def write_configuration(folder: Path, config: Config, agreed: Mapping[str, str]) -> None:
    """Write ``config.toml``, and remember that it was written here, with the calls of code that were agreed to."""
    text = config.to_toml() + _END
    remember(folder, text, agreed)  # before there is something to resume
    write_text(folder / "config.toml", text)


def new_folder(root: Path, label: str) -> Path:
    """The first free ``root/DATE-label``, ``root/DATE-label-2``, ..."""
    stem = f"{date.today().isoformat()}-{label}"
    number = 1
    while True:
        path = root / (stem if number == 1 else f"{stem}-{number}")
        try:
            os.makedirs(path)
        except FileExistsError:
            number += 1
        else:
            return path
