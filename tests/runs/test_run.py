import json
import math
import re
from datetime import date

import pytest

from eclose.config import Config
from eclose.engine.saved_networks import saved_genotype
from eclose.errors import RunError
from eclose.runs import Run, Trial, new_folder
from eclose.signature import Signature
from tests.runs.processes import kill, start

CONFIG = Config().with_values({"task.name": "digits", "backbone.width": 8, "augment.names": ["crop"]})


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", CONFIG)


def error_of(action):
    with pytest.raises(RunError) as error:
        action()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_create_and_open(run):
    opened = Run.open(run.path)
    assert opened.config == CONFIG
    assert opened.result is None
    assert opened.trial_folder(12) == run.path / "trials" / "12"
    assert [path.name for path in run.path.iterdir()] == ["config.toml"]


def test_the_table_is_made_when_needed(run):
    run.table.put(Trial(0, "search", "a", "b", {}, "h", 1))
    assert [trial.name for trial in Run.open(run.path).table.all()] == ["a"]


def test_a_command_in_a_message_can_be_typed(tmp_path):
    path = tmp_path / "my run"
    Run.create(path, CONFIG)
    assert error_of(lambda: Run.create(path, CONFIG)).endswith(f"or `eclose resume '{path}'`")
    assert error_of(lambda: saved_genotype(Run.open(path), None)).endswith(f"`eclose resume '{path}'` first")


def test_create_takes_an_empty_folder_only(tmp_path):
    (tmp_path / "empty").mkdir()
    Run.create(tmp_path / "empty", CONFIG)
    (tmp_path / "file").touch()
    for folder, content in (("notes", "mine.txt"), ("compared", "comparison.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / content).touch()
    for name, verb in (("empty", "resume"), ("compared", "compare"), ("notes", ""), ("file", "")):
        path = tmp_path / name
        text = error_of(lambda path=path: Run.create(path, CONFIG))
        go_on = f", or `eclose {verb} {path}`" if verb else ""
        assert text == f"{path} exists and is not an empty folder: choose another --out{go_on}"


def test_open_nothing(tmp_path):
    path = tmp_path / "none"
    assert error_of(lambda: Run.open(path)) == f"{path} is not a run folder: no such folder"
    path.touch()
    assert error_of(lambda: Run.open(path)) == f"{path} is not a run folder: it is a file"


def test_open_a_foreign_folder(tmp_path):
    assert error_of(lambda: Run.open(tmp_path)) == f"{tmp_path} is not a run folder: it has no config.toml"
    (tmp_path / "config.toml").write_text("[server]\nport = 3\n")
    text = error_of(lambda: Run.open(tmp_path))
    assert text == f"{tmp_path} is not a run folder: its config.toml was not written by eclose"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"format = 1\n[tas", " is not valid TOML: "),
        (b"\xff\xfe\x00", " is not valid TOML: "),
        (b"format = 2\n", ": format 2 is not 1: written by another version of eclose; use that version"),
        (b"format = 1\n[sever]\n", ": unknown section [sever]; "),
        (b"format = 1\n[train]\nepochs = 'x'\n", ": train.epochs is 'x', but must be a whole number"),
    ],
)
def test_open_a_damaged_configuration(run, content, text):
    path = run.path / "config.toml"
    path.write_bytes(content + b"# end of the configuration\n")
    assert error_of(lambda: Run.open(run.path)).startswith(f"{path}{text}")


def test_result(run):
    signature = Signature("regression", 1, (3, 4), 1)
    metric = {"name": "mse", "goal": "min"}
    whole = {**dict.fromkeys(("task", "space", "strategy", "name"), "a"), "metric": metric, "baselines": []}
    run.write_result({**whole, "trials": 1, "test": 0.5, "valid": math.nan, "signature": signature.as_dict()})
    result = run.result
    assert result["test"] == 0.5
    assert result["valid"] is None
    assert Signature.from_dict(result["signature"]) == signature


@pytest.mark.parametrize("keep", [0, 40, 200])
def test_a_configuration_that_was_cut_off(run, keep):
    path = run.path / "config.toml"
    text = path.read_text()
    at = text.index("\n[", keep)  # what is left is valid TOML
    path.write_text(text[:at])
    assert error_of(lambda: Run.open(run.path)) == f"{path} is cut off: restore it from a copy, or start a new run"


@pytest.mark.parametrize("content", [b"", b"{", b"{'a': 1}", b"\xff", b"[1]", b"3", b"null", b"{}", b'{"task": "a"}'])
def test_a_damaged_result(run, content):
    path = run.path / "result.json"
    path.write_bytes(content)
    text = error_of(lambda: Run.open(run.path).result)
    assert re.fullmatch(
        re.escape(f"{path} is damaged (") + r".+" + re.escape(f"): delete it and `eclose resume {run.path}`"), text
    )


def test_events_are_lines(run):
    run.log("run", {"path": "a\nb", "value": math.nan, "odd": run})
    run.log("step", {"step": 1})
    run.log("end", {})
    lines = (run.path / "events.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first == {"event": "run", "path": "a\nb", "value": None, "odd": str(run)}
    assert second == {"event": "end"}


HOLDER = """
import sys
from pathlib import Path
from eclose.runs import Run
with Run.open(Path(sys.argv[1])).locked():
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_killed(run):
    process = start(HOLDER, run.path)
    try:

        def hold():
            with run.locked():
                pytest.fail("two processes hold the run")

        assert error_of(hold) == f"{run.path} is in use by another process: wait for it, or stop it"
        assert Run.open(run.path).config == CONFIG  # reading needs no lock
    finally:
        kill(process)
    with run.locked():
        pass


def test_the_lock_is_free_again_after_an_error(run):
    with pytest.raises(ValueError, match="inner"), run.locked():
        raise ValueError("inner")
    with run.locked(), pytest.raises(RunError, match="in use"), run.locked():
        pass


def test_a_lock_that_cannot_be_made(run):
    (run.path / ".lock").mkdir()

    def hold():
        with run.locked():
            pytest.fail("locked")

    text = f"{run.path / '.lock'} cannot be used (unable to open database file): make the folder writable"
    assert error_of(hold) == text


def test_new_folders_are_numbered(tmp_path):
    stem = f"{date.today().isoformat()}-mnist"
    made = [new_folder(tmp_path / "runs", "mnist") for _ in range(3)]
    assert [path.name for path in made] == [stem, f"{stem}-2", f"{stem}-3"]
    assert all(path.is_dir() for path in made)


def test_a_new_folder_does_not_take_the_place_of_a_file(tmp_path):
    (tmp_path / f"{date.today().isoformat()}-a").touch()
    assert new_folder(tmp_path, "a").name.endswith("-a-2")
    (tmp_path / "runs").touch()
    with pytest.raises(NotADirectoryError):
        new_folder(tmp_path / "runs", "a")
