"""Tables, one sample a row: ``.csv`` and ``.parquet`` files, data frames. One column is what is to be learned."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.plural import plural
from eclose.registry import nearest
from eclose.tasks.own_data.arrays import task_from_arrays, to_tensor
from eclose.tasks.own_data.files import Array
from eclose.tasks.own_data.reading import Reading, looks_ordered
from eclose.tasks.task import Layout, Task

Columns = dict[str, Array]  # by name; text, or numbers with NaN where there is none

SUFFIXES = (".csv", ".tsv", ".parquet")
_LABELS = ("label", "class", "target", "y")
_SPLIT = "split"
_PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_NOTHING = ("", "na", "n/a", "nan", "null", "?")
_EMPTY_SIGNS = ("NAType", "NaTType")  # of pandas, which need not be there
_TRUTH = {"true": 1.0, "false": 0.0}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def is_table(data: object) -> bool:
    """Whether ``data`` is the name of a table, or a data frame."""
    if isinstance(data, (str, Path)):
        return Path(data).suffix.lower() in SUFFIXES
    return hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, Mapping)


def read_table(data: Any, names: str = "") -> Columns:
    """The columns of a file or data frame; of text files column ``names`` stays text, also where it holds digits."""
    if not isinstance(data, (str, Path)):
        return _checked({str(name): _plain(np.asarray(data[name])) for name in data.columns}, len(data.columns), "data")
    path = Path(data)
    if not path.is_file():
        raise TaskError(f"no such file: {path}")
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path, names)


def task_from_tables(
    name: str, tables: Mapping[str, Columns], reading: Reading, label: str, chosen: Sequence[str]
) -> Task:
    """A task from the tables of its parts, or from one (``""``) that may have a column ``split``."""
    if reading.kind in ("dense", "segmentation"):
        raise TaskError(f"--kind {reading.kind} needs arrays: a table is for classification or regression")
    tables = _parts(tables)
    first = next(iter(tables.values()))
    label = _label(first, label)
    columns, doubts = _features(first, label, chosen)
    arrays: dict[str, Array] = {}
    for part, table in tables.items():
        suffix = f"_{part}" if part else ""
        arrays[f"x{suffix}"] = features(table, columns)
        arrays[f"y{suffix}"] = _column(table, label)
    table_reading = replace(reading, channels=reading.channels or "columns")
    task = task_from_arrays(name, arrays, table_reading)
    if not reading.channels and looks_ordered(to_tensor("x", next(iter(arrays.values())))):
        doubts.append(
            f"the {len(columns)} columns are read as a table, but neighbours are alike; "
            "if they are the positions of one signal, --channels none (--channels columns confirms)"
        )
    layout = replace(task.layout, columns=tuple(columns), label=label)
    return replace(task, layout=layout, doubts=(*doubts, *task.doubts))


def features(table: Columns, columns: Sequence[str]) -> Array:
    """``(rows, columns)``."""
    return np.stack([_numbers(table, name) for name in columns], axis=1)


def answers(table: Columns, layout: Layout) -> Array | None:
    """The column of labels, where the table has it and all of it."""
    values = table.get(layout.label)
    return None if values is None or _empty(values).any() else values


def _parts(tables: Mapping[str, Columns]) -> Mapping[str, Columns]:
    """Divided by the column ``split``, where there is one."""
    if set(tables) != {""}:
        return {part: tables[part] for part in ("train", "val", "test") if part in tables}
    table = tables[""]
    name = next((name for name in table if name.lower() == _SPLIT and table[name].dtype.kind == "U"), "")
    if not name:
        return tables
    parts = np.array([_PARTS.get(value.strip().lower(), value) for value in table[name].tolist()])
    unknown = sorted(set(parts.tolist()) - set(_PARTS.values()))
    if unknown or "train" not in parts:
        found = f"'{unknown[0]}'" if unknown else "no 'train'"
        raise TaskError(f"column '{name}' has {found}: it must hold train, val and test, or have another name")
    others = {key: values for key, values in table.items() if key != name}
    wanted = [part for part in ("train", "val", "test") if part in parts]
    return {part: {key: values[parts == part] for key, values in others.items()} for part in wanted}


def _label(table: Columns, asked: str) -> str:
    if asked:
        if asked not in table:
            raise TaskError(f"no column '{asked}'; {nearest(asked, list(table))}")
        return asked
    usual = (name for wanted in _LABELS for name in table if name.lower() == wanted)
    return next(usual, list(table)[-1])


def _features(table: Columns, label: str, chosen: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns to learn from, and what was left out for which reason."""
    if chosen:
        for name in chosen:
            if name not in table or name == label:
                raise TaskError(f"task.columns: no column '{name}' to learn from; {nearest(name, list(table))}")
        return list(chosen), []
    names = [name for name in table if name != label]
    counting = [name for name in names if _counts_rows(table[name]) or not name or name.startswith("Unnamed: ")]
    text = [name for name in names if table[name].dtype.kind not in "biuf" and name not in counting]
    columns = [name for name in names if name not in (*counting, *text)]
    if not columns:
        raise TaskError(f"no column of numbers beside '{label}' to learn from (columns: {', '.join(table)})")
    doubts = []
    if counting:
        doubts.append(
            f"left out, since it numbers the rows: {_quoted(counting)}; --set task.columns names those to use"
        )
    if text:
        doubts.append(f"left out, since it holds no numbers: {_quoted(text)}; write it as numbers if it matters")
    return columns, doubts


def _counts_rows(values: Array) -> bool:
    if values.dtype.kind not in "iuf" or len(values) < 3:
        return False
    return bool(np.isfinite(values).all() and (values - values[0] == np.arange(len(values))).all())


def _numbers(table: Columns, name: str) -> Array:
    values = _column(table, name)
    if values.dtype.kind not in "biuf":
        raise TaskError(f"column '{name}' holds text such as '{values[0]}', but numbers are needed")
    return values.astype(np.float64)


def _column(table: Columns, name: str) -> Array:
    if name not in table:
        raise TaskError(f"there is no column '{name}', which the network needs (columns: {', '.join(table)})")
    values = table[name]
    rows = np.flatnonzero(_empty(values))
    if len(rows):
        raise TaskError(
            f"column '{name}' has no value in row {rows[0] + 1} ({len(rows)} of {plural(len(values), 'row')}): "
            "fill it in, or leave these rows out"
        )
    return values


def _empty(values: Array) -> NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return values == "" if values.dtype.kind == "U" else np.zeros(len(values), dtype=bool)


def _read_csv(path: Path, text: str) -> Columns:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            delimiter = max(",;\t", key=header.count)
            file.seek(0)
            rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TaskError(f"{path} is not a readable table ({error}): save it as CSV in UTF-8") from None
    if len(rows) < 2:
        raise TaskError(f"{path} has no rows below its line of column names")
    names = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(names):
            counts = f"{plural(len(row), 'value')} in row {number}, but {plural(len(names), 'column')}"
            raise TaskError(f"{path} has {counts}: mend that row")
    columns = [(name, [value.strip() for value in column]) for name, *column in zip(names, *rows[1:], strict=True)]
    columns = [(name, texts) for name, texts in columns if name or any(texts)]  # each line may end in a delimiter
    if all(_number(name) is not None or name in texts for name, texts in columns):
        raise TaskError(f"{path} begins with values: its first line must name the columns, as in a,b,label")
    for name, texts in columns:
        if delimiter != "," and all(map(_DECIMAL_COMMA.fullmatch, texts)):
            raise TaskError(f"column '{name}' of {path} has decimal commas ({texts[0]}): write them as points")
    parsed = {name: np.array(texts) if name == text else _parsed(texts) for name, texts in columns}
    return _checked(parsed, len(columns), str(path))


def _parsed(texts: Sequence[str]) -> Array:
    """Numbers where all that is there are numbers, else text."""
    if all(text.lower() in _TRUTH for text in texts):
        return np.array([_TRUTH[text.lower()] for text in texts], dtype=bool)
    present = [_number(text) for text in texts if text.lower() not in _NOTHING]
    if not present or None in present:
        return np.array(texts)
    numbers = iter(present)
    values = np.array([math.nan if text.lower() in _NOTHING else next(numbers) for text in texts], dtype=np.float64)
    whole = all(text.lstrip("+-").isdigit() for text in texts) and bool((np.abs(values) < 2**53).all())
    return values.astype(np.int64) if whole else values


def _number(text: str) -> float | None:
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    try:
        return None if "_" in text else float(text)  # Python would read 1_2 as 12
    except ValueError:
        return None


def _read_parquet(path: Path) -> Columns:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TaskError(f"reading {path} needs pyarrow: pip install pyarrow, or save the table as .csv") from None
    if int(pyarrow.__version__.split(".")[0]) < 15:  # earlier ones may run code that a file contains
        raise TaskError(f"pyarrow {pyarrow.__version__} is not safe with files of others: pip install -U pyarrow")
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise TaskError(f"{path} is not a readable .parquet file ({reason})") from None
    names = [str(name) for name in table.column_names]
    columns = {name: _plain(np.array(table.column(i).to_pylist(), dtype=object)) for i, name in enumerate(names)}
    return _checked(columns, len(names), str(path))


def _plain(values: Array) -> Array:
    """Numbers or text; whatever else a column may hold stays an array of objects."""
    if values.dtype.kind in "SUT":
        return values.astype(str)
    if values.dtype.kind != "O":
        return values
    items = values.tolist()
    nothing = [_is_nothing(item) for item in items]
    present = [item for item, gone in zip(items, nothing, strict=True) if not gone]
    if present and all(isinstance(item, str) for item in present):
        return np.array(["" if gone else item for item, gone in zip(items, nothing, strict=True)])
    if present and all(isinstance(item, (bool, int, float, np.number)) for item in present):
        return np.array([math.nan if gone else item for item, gone in zip(items, nothing, strict=True)])
    return values


def _is_nothing(item: object) -> bool:
    """Whether a cell is empty: None, NaN, or the signs that frames have for it."""
    if isinstance(item, (float, np.floating)):
        return bool(np.isnan(item))
    return item is None or type(item).__name__ in _EMPTY_SIGNS


def _checked(columns: Columns, count: int, source: str) -> Columns:
    if len(columns) != count:
        raise TaskError(f"{source} has two columns of one name: rename one")
    if any(values.ndim != 1 for values in columns.values()) or len({len(values) for values in columns.values()}) != 1:
        raise TaskError(f"{source} is no table: every column must have one value a row")
    if not len(next(iter(columns.values()))):
        raise TaskError(f"{source} has no rows")
    return columns


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
