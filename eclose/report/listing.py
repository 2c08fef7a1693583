"""What there is to choose from, and what a run holds, as data and as a table for the terminal."""

from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from eclose.backbones import backbones
from eclose.errors import ConfigError
from eclose.recipes import about_recipe, recipe_names
from eclose.registry import Registry, nearest
from eclose.report.tables import trials_table
from eclose.runs import Run
from eclose.search import strategies
from eclose.spaces import spaces
from eclose.tasks import tasks

_REGISTRIES: dict[str, Registry] = {
    "tasks": tasks,
    "spaces": spaces,
    "strategies": strategies,
    "backbones": backbones,
}


def listing(what: str) -> tuple[dict[str, Any], Any]:
    """``tasks``, ``spaces``, ``strategies``, ``backbones``, ``recipes``, or a run folder."""
    if what in _REGISTRIES:
        return _members(what, _REGISTRIES[what])
    if what == "recipes":
        return _recipes()
    if Path(what).exists():
        return _run(Run.open(Path(what)))
    raise ConfigError(f"nothing to show for '{what}': no such folder; {nearest(what, [*_REGISTRIES, 'recipes'])}")


def _members(what: str, registry: Registry) -> tuple[dict[str, Any], Table]:
    data = {m.name: {"summary": m.summary, "options": dict(m.options)} for m in registry.values()}
    table = Table("name", "what it is", "options and their defaults")
    for member in registry.values():
        options = ", ".join(f"{key}={value}" for key, value in member.options.items())
        table.add_row(member.name, member.summary, options)
    return {what: data}, table


def _recipes() -> tuple[dict[str, Any], Table]:
    data = {name: about_recipe(name) for name in recipe_names()}
    table = Table("name", "what it does")
    for name, about in data.items():
        table.add_row(name, about)
    return {"recipes": data}, table


def _run(run: Run) -> tuple[dict[str, Any], Group]:
    trials = run.table.all() if (run.path / "trials.sqlite").exists() else []
    result = run.result
    state = "finished" if result else "not finished: `eclose resume` goes on"
    rows = [
        {
            "number": t.number,
            "role": t.role,
            "name": t.name,
            "hash": t.hash,
            "origin": t.origin,
            "parents": t.parents,
            "state": t.state,
            "valid": t.valid,
            "test": t.test,
            "parameters": t.parameters,
            "architecture_parameters": t.architecture_parameters,
            "flops": t.flops,
            "latency": t.latency,
            "epochs": t.epochs,
            "seconds": t.seconds,
            "reason": t.reason,
        }
        for t in trials
    ]
    data = {"run": str(run.path), "finished": bool(result), "config": run.config.as_dict(), "trials": rows}
    config = run.config
    task = config.task.name or config.task.data or "data handed in as an object"
    head = f"{run.path}: {state}\ntask {task}, space {config.space.name}, strategy {config.strategy.name}"
    return data, Group(head, trials_table(trials))
