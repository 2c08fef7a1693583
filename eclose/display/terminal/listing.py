"""What there is to choose from, and what recipes and runs hold, as data and as a table for the terminal."""

from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Column, Table

from eclose.backbones import backbones
from eclose.config import to_toml
from eclose.display.asked import task_name
from eclose.display.networks import metric_of
from eclose.display.terminal.tables import significant, trials_table
from eclose.display.under_way import trials_so_far
from eclose.display.wording import finite
from eclose.engine import strategies
from eclose.errors import ConfigError, RunError
from eclose.recipes import about_recipe, read_recipe, recipe_names
from eclose.registry import Registry, nearest
from eclose.runs import COMPARISON, FIGURES, RUNS, Run
from eclose.spaces import spaces
from eclose.tasks import tasks

_REGISTRIES: dict[str, tuple[str, Registry]] = {  # with the section of their options
    "backbones": ("backbone", backbones),
    "spaces": ("space", spaces),
    "strategies": ("strategy", strategies),
    "tasks": ("task", tasks),
}


def listing(what: str) -> tuple[dict[str, Any], Any]:
    """``tasks``, ``spaces``, ``strategies``, ``backbones``, ``recipes``, ``runs``, one recipe, or one run folder."""
    if what in _REGISTRIES:
        return _members(what, *_REGISTRIES[what])
    if what == "recipes":
        return _recipes()
    if what == "runs":
        return _runs(RUNS)
    if what in recipe_names() or what.endswith(".toml"):
        return _recipe(what)
    if what.strip() and Path(what).exists():
        return _run(Run.open(Path(what)))
    lists = sorted([*_REGISTRIES, "recipes", "runs"])
    known = nearest(what, [*lists, *recipe_names()], f"{', '.join(lists)}, and those of `eclose show recipes`")
    raise ConfigError(f"nothing to show for '{what}': no such folder or recipe; {known}")


def _members(what: str, section: str, registry: Registry) -> tuple[dict[str, Any], Table]:
    data = {m.name: {"summary": m.summary, "options": m.settable} for m in registry.values()}
    table = Table("name", "what it is", "options and their defaults", caption=f"to set one: --set {section}.NAME=VALUE")
    for member in registry.values():
        options = [line.replace(" = ", "=", 1) for line in to_toml(member.settable).splitlines()]
        table.add_row(member.name, member.summary, ", ".join(options))
    return {what: data}, table


def _recipes() -> tuple[dict[str, Any], Table]:
    data = {name: about_recipe(name) for name in recipe_names()}
    table = Table("name", "what it does")
    for name, about in data.items():
        table.add_row(name, about)
    return {"recipes": data}, table


def _recipe(name: str) -> tuple[dict[str, Any], str]:
    """Its settings, those of its base among them: a file to start one's own from."""
    about, settings = about_recipe(name), read_recipe(name)
    text = to_toml({"about": about, **settings})
    return {"recipe": name, "about": about, "settings": settings}, text.rstrip()


def _runs(folder: Path) -> tuple[dict[str, Any], Any]:
    """The run folders in ``folder``, those that were begun last at the end."""
    compared = [path.parent for path in folder.glob(f"*/{COMPARISON}")]
    found = [path.parent for place in (folder, *compared) for path in place.glob("*/config.toml")]
    rows = sorted((_summary(path) for path in found), key=lambda row: str(row["begun"]))
    if not rows:
        return {"runs": []}, f"no runs in {folder.absolute()}: `eclose search` makes one"
    whole: list[Column | str] = [
        Column("run", no_wrap=True, overflow="fold"),
        "task",
        "space",
        Column("state", no_wrap=True),
    ]
    table = Table(
        *whole, "valid", "test", Column("begun", no_wrap=True), box=None, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for row in rows:
        figures = [significant(row["valid"]), significant(row["test"])]
        table.add_row(
            row["run"], row["task"], row["space"], row["state"], *figures, row["begun"][5:]
        )  # without the year
    return {"runs": rows}, table


def _summary(path: Path) -> dict[str, Any]:
    begun = datetime.fromtimestamp((path / "config.toml").stat().st_mtime).isoformat(" ", "minutes")
    try:
        run = Run.open(path)
        result = run.result or {}
    except RunError:
        names, state, result = ("", ""), "damaged", {}
    else:
        names = (task_name(run.config, result), run.config.space.name)
        state = "running" if run.in_use else "finished" if result else "stopped"
    figures = {name: value if finite(value := result.get(name)) else None for name in ("valid", "test")}
    return {"run": str(path), "task": names[0], "space": names[1], "state": state, **figures, "begun": begun}


def _run(run: Run) -> tuple[dict[str, Any], Group]:
    result = run.result
    begun = (run.path / "trials.sqlite").exists()
    trials = trials_so_far(run, metric_of(run.config, result)) if begun else []
    state = "finished" if result else "not finished: `eclose resume` goes on"
    rows = [
        {
            "number": t.number,
            "role": t.role,
            "name": t.name,
            "hash": t.hash,
            "origin": t.origin,
            "parents": t.parents,
            "description": t.description,
            **dict.fromkeys(figure.name for figure in FIGURES),
            **t.outcome(),
        }
        for t in trials
    ]
    data = {"run": str(run.path), "finished": bool(result), "config": run.config.as_dict(), "trials": rows}
    config = run.config
    task = config.task.name or config.task.data or "data handed in as an object"
    head = f"{run.path}: {state}\ntask {task}, space {config.space.name}, strategy {config.strategy.name}"
    return data, Group(head, trials_table(trials))
