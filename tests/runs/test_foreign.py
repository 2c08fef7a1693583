import os

import pytest

from eclose.runs import cache_folder, foreign
from eclose.runs.foreign import recall, remember

AGREED = {'nets:make {"width": 3}': "/home/me"}


@pytest.fixture(autouse=True)
def _new_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ECLOSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(foreign, "_BEGUN", {})


def another_process():
    foreign._BEGUN.clear()


def test_a_run_is_known_by_its_place_and_its_configuration(tmp_path):
    remember(tmp_path / "run", "text", AGREED)
    another_process()
    assert recall(tmp_path / "run", "text") == AGREED
    assert recall(tmp_path / "run", "text ") is None
    assert recall(tmp_path / "copy", "text") is None


def test_by_whatever_name_it_is_reached(tmp_path, monkeypatch):
    remember(tmp_path / "run", "text", AGREED)
    another_process()
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path)
    assert recall(tmp_path / "link", "text") == AGREED
    assert recall(tmp_path.relative_to(tmp_path) / "run", "text") == AGREED


def test_no_code_is_not_the_same_as_not_begun_here(tmp_path):
    remember(tmp_path / "run", "text", {})
    another_process()
    assert recall(tmp_path / "run", "text") == {}


def test_what_somebody_else_wrote_into_a_shared_cache_does_not_count(tmp_path, monkeypatch):
    remember(tmp_path / "run", "text", AGREED)
    another_process()
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert recall(tmp_path / "run", "text") is None


@pytest.mark.parametrize("content", ["", "[]", '{"agreed": 3}', "{}", "\x00", "[" * 100_000])
def test_a_damaged_record_is_none(tmp_path, content):
    remember(tmp_path / "run", "text", AGREED)
    another_process()
    (record,) = (cache_folder() / "begun").iterdir()
    record.write_text(content)
    assert recall(tmp_path / "run", "text") is None


def test_without_a_home(tmp_path, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("ECLOSE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", homeless)
    remember(tmp_path / "run", "text", AGREED)
    assert recall(tmp_path / "run", "text") == AGREED
    another_process()
    assert recall(tmp_path / "run", "text") is None
