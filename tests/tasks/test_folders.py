from pathlib import Path

from eclose.runs import cache_folder
from eclose.tasks import data_folder


def test_cache(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("ECLOSE_CACHE", "~/there")
    assert cache_folder() == Path("/home/me/there")
    monkeypatch.setenv("ECLOSE_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/eclose")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path("/home/me/.cache/eclose")


def test_data(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("ECLOSE_CACHE", "/c")
    assert data_folder() == Path("/c/data")
    monkeypatch.setenv("ECLOSE_DATA", "~/d")
    assert data_folder() == Path("/home/me/d")
    assert data_folder("~/e") == Path("/home/me/e")
