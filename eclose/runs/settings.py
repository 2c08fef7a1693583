"""A run goes on with the settings it began with: another rate, seed or batch would make a run of two halves."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from eclose.config import Config, from_dict, read_toml
from eclose.errors import ConfigError, RunError
from eclose.runs.earlier_versions import as_named_now
from eclose.runs.files import plain, write_text
from eclose.runs.run import Run

_FILE = "settings.toml"
_FREE = {  # what may change: who trains and who looks on, and where the data lies, which is compared by itself
    *("run.workers", "run.ray_address", "run.checkpoint_seconds", "run.tensorboard", "run.dashboard"),
    *("task.data", "task.data_dir"),
}


def write_settings(run: Run) -> None:
    """Keep those with which the run begins."""
    write_text(run.path / _FILE, run.config.to_toml())


def check_same_settings(run: Run) -> None:
    """Refuse a configuration that somebody has changed; runs of earlier versions do not know theirs."""
    path = run.path / _FILE
    if not path.is_file():
        return
    try:
        before = dict(_settings(from_dict(as_named_now(read_toml(path)))))
    except ConfigError as error:
        raise RunError(f"{path} is damaged ({error}): restore it from a copy, or begin a new run") from None
    now = dict(_settings(run.config))
    for key in [*before, *now]:
        old, new = (repr(each[key]) if key in each else "not set" for each in (before, now))
        if old != new and key not in _FREE:
            raise RunError(
                f"{key} of {run.path} is {new:.80}, but was {old:.80} when the run began: put it back in config.toml, "
                "or begin a new run"
            )


def _settings(config: Config) -> Iterator[tuple[str, Any]]:
    """``section.key`` and value; options as they are typed, without a section of their own."""

    def walk(where: str, value: Any) -> Iterator[tuple[str, Any]]:
        if not isinstance(value, dict):
            yield where, value
            return
        for key, inner in value.items():
            yield from walk(where if key == "options" else f"{where}.{key}", inner)

    for name, section in plain(dataclasses.asdict(config)).items():
        yield from walk(name, section)
