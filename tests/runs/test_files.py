import json
import math
import os
import stat

import pytest

from eclose.runs import atomic_path, write_json, write_text
from eclose.runs.files import plain


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_whole(tmp_path):
    path = tmp_path / "deep" / "er" / "a.txt"
    with atomic_path(path) as temporary:
        assert temporary.parent == path.parent  # a rename is atomic within a folder only
        temporary.write_text("half")
        assert not path.exists()
        temporary.write_text("whole")
    assert path.read_text() == "whole"
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("old", ["old", None])
def test_failure_in_the_middle_leaves_what_was_there(tmp_path, error, old):
    path = tmp_path / "a.txt"
    if old is not None:
        path.write_text(old)

    def write():
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == (["a.txt"] if old else [])
    assert old is None or path.read_text() == old


def test_failure_of_the_rename_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(source, target):
        raise OSError(5, "no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_writer_that_replaces_the_file_keeps_its_permissions(tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    with atomic_path(tmp_path / "a") as temporary:
        temporary.unlink()
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_text_is_utf8(tmp_path):
    write_text(tmp_path / "a", "\u00e9\U0001f98b\n")
    assert (tmp_path / "a").read_bytes() == "\u00e9\U0001f98b\n".encode()


def test_json_has_no_nan(tmp_path):
    data = {"a": (1, math.nan, [math.inf, -math.inf]), 3: {"b": None, "c": True, "d": -0.0}}
    write_json(tmp_path / "a.json", data)
    text = (tmp_path / "a.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text) == {"a": [1, None, [None, None]], "3": {"b": None, "c": True, "d": 0.0}}


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == 1
    assert names(tmp_path) == ["a.json"]


def test_plain_leaves_other_values_alone():
    assert plain(["x", 3, 2.5, None, True]) == ["x", 3, 2.5, None, True]
    assert plain(2**70) == 2**70
