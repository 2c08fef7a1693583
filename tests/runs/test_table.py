import contextlib
import dataclasses
import math
import sqlite3
import time

import pytest

from eclose.errors import RunError
from eclose.runs import Trial, TrialTable
from tests.runs.processes import kill, start

FIRST = Trial(0, "search", "resnet", "backbone", {"b": [1, {"c": None}], "a": "\u00e9"}, "abc", 2**31 - 1)
FULL = Trial(
    7,
    "baseline",
    "fno",
    "xd",
    {},
    "def",
    3,
    "done",
    valid=0.1 + 0.2,
    test=1e-300,
    parameters=2**53 + 1,
    flops=2**62,
    epochs=4,
    seconds=12.5,
    reason="a 'reason' \"quoted\"; DROP TABLE trials",
    history=[{"epoch": 1, "valid": 0.5}, {"epoch": 2, "valid": None}],
    latency=0.1 + 0.7,
    origin="crossed",
    parents=[3, 5],
    scores={"gradient": -1.5, "kernel": None},
    architecture_parameters=2**31,
    description="child of resnet18: softmax added",
)


@pytest.fixture
def table(tmp_path):
    return TrialTable(tmp_path / "trials.sqlite")


def test_round_trip(table):
    table.put(FULL)
    table.put(FIRST)
    assert table.all() == [FIRST, FULL]
    assert [trial for trial in table.all() if trial.number == 7] == [FULL]
    assert TrialTable(table.path).all() == [FIRST, FULL]


def test_tables_of_older_runs_get_the_columns_they_lack(table):
    table.put(FIRST)
    table.put(FULL)
    with contextlib.closing(sqlite3.connect(table.path)) as connection, connection:
        for column in ("latency", "origin", "parents", "architecture_parameters", "description"):
            connection.execute(f"ALTER TABLE trials DROP COLUMN {column}")
    lacking = {"latency": None, "origin": "", "parents": [], "architecture_parameters": None, "description": ""}
    old = dataclasses.replace(FULL, **lacking)
    opened = TrialTable(table.path)
    assert opened.all() == [FIRST, old]
    opened.put(FULL)
    assert TrialTable(table.path).all() == [FIRST, FULL]


def test_empty(table):
    assert table.all() == []


def test_putting_again_replaces(table):
    table.put(FIRST)
    done = dataclasses.replace(FIRST, state="done", valid=0.5)
    table.put(done)
    assert table.all() == [done]


def test_what_is_no_number_is_none(table):
    table.put(dataclasses.replace(FULL, valid=math.nan, test=None, history=[{"valid": math.inf}]))
    (trial,) = (trial for trial in table.all() if trial.number == 7)
    assert trial is not None
    assert trial.valid is None
    assert trial.test is None
    assert trial.history == [{"valid": None}]


def test_infinite_values_stay(table):
    table.put(dataclasses.replace(FULL, valid=-math.inf))
    assert table.all()[0].valid == -math.inf


WRITER = """
import sys
from pathlib import Path
from eclose.runs.table import Trial, TrialTable
table = TrialTable(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(int(sys.argv[2]), 10**9):
    table.put(Trial(number % 50, "search", str(number), "s", {"n": number}, "h", number, history=[{"n": number}] * 300))
"""


def test_killed_writers_leave_a_whole_table(table):
    following = 0
    for _ in range(4):
        process = start(WRITER, table.path, following)
        while newest(table) < following + 3:
            assert process.poll() is None
            time.sleep(0.01)
        kill(process)
        trials = table.all()
        for trial in trials:
            assert trial.name == str(trial.seed)
            assert trial.genotype == {"n": trial.seed}
            assert trial.history == [{"n": trial.seed}] * 300
        following = newest(table) + 1
        assert {trial.seed for trial in trials} == set(range(max(0, following - 50), following))


def newest(table):
    return max((trial.seed for trial in table.all()), default=-1)


def test_a_table_in_use_is_not_called_broken(table, monkeypatch):
    monkeypatch.setattr("eclose.runs.table._PATIENCE", 0.01)
    with contextlib.closing(sqlite3.connect(table.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunError) as error:
            table.all()
    text = f"the trial table {table.path} cannot be used (database is locked): another process uses it, try again"
    assert str(error.value) == text


def text_of(path, action):
    with pytest.raises(RunError) as error:
        action()
    text = str(error.value)
    assert text.startswith(f"the trial table {path} cannot be used (")
    assert text.endswith("): restore it from a copy, or start a new run")
    assert "\n" not in text
    return text


@pytest.mark.parametrize("size", [10, 100, 1500, 5000])
def test_truncated(table, size):
    for number in range(3):
        table.put(dataclasses.replace(FULL, number=number, history=[{"epoch": n} for n in range(300)]))
    content = table.path.read_bytes()
    assert len(content) > 8192
    table.path.write_bytes(content[:size])
    text_of(table.path, lambda: TrialTable(table.path).all())


def test_not_a_database(tmp_path):
    path = tmp_path / "trials.sqlite"
    path.write_text("hello " * 100)
    assert "file is not a database" in text_of(path, lambda: TrialTable(path))


def test_another_schema(tmp_path):
    path = tmp_path / "trials.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE trials (number INTEGER PRIMARY KEY)")
    connection.commit()
    connection.close()
    assert "no such column: role" in text_of(path, lambda: TrialTable(path).all())
    assert "no column named role" in text_of(path, lambda: TrialTable(path).put(FIRST))


def test_a_table_from_before_there_were_scores(table):
    table.put(FULL)
    connection = sqlite3.connect(table.path)
    connection.execute("ALTER TABLE trials DROP COLUMN scores")
    connection.commit()
    connection.close()
    older = TrialTable(table.path)
    assert older.all() == [dataclasses.replace(FULL, scores={})]
    older.put(FULL)
    assert older.all() == [FULL]


@pytest.mark.parametrize("value", ["{", b"\x00"])
def test_a_damaged_row(table, value):
    table.put(FULL)
    connection = sqlite3.connect(table.path)
    connection.execute("UPDATE trials SET history = ?", [value])
    connection.commit()
    connection.close()
    text_of(table.path, table.all)
    text_of(table.path, table.all)


def test_a_folder_that_is_gone(tmp_path):
    path = tmp_path / "gone" / "trials.sqlite"
    assert "unable to open database file" in text_of(path, lambda: TrialTable(path))


def test_a_full_disk_is_no_fault_of_the_table(table):
    class Full:
        def __init__(self, *args, **kwargs):
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eclose.runs.table.sqlite3.connect", Full)
        with pytest.raises(OSError, match="No space left on device") as error:
            table.all()
    assert error.value.errno == 28
    assert error.value.filename == str(table.path)
