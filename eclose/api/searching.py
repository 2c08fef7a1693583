"""What users begin: search, resume, retrain, and the result that comes back."""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from torch import nn

from eclose.api.using import Backbone, consent_of, load, signature_of
from eclose.backbones.consent import Consent, consenting
from eclose.backbones.reference import hand_in
from eclose.config import Config, TaskSection, from_dict
from eclose.display import study_listener, write_page
from eclose.display.notebook import as_html, as_text, page_link
from eclose.display.terminal.tables import result_table, significant
from eclose.engine.plan import without_replaced
from eclose.engine.saved_networks import saved_genotype
from eclose.engine.transfer import for_other_data, for_retraining, task_name, with_recipe
from eclose.errors import ConfigError
from eclose.events import Events, Listener
from eclose.launch import attended, check_data, continue_run, start_run
from eclose.recipes import DEFAULT, read_recipe
from eclose.runs import Run
from eclose.spaces import Genotype, space_class
from eclose.spaces.portfolio import PortfolioSpace
from eclose.tasks import Data
from eclose.train import usual_torch

_NAME_CODE = ("backbone.name", "teacher.network", "compare.baselines")  # settings


@dataclass(frozen=True, repr=False)
class Result:
    """What came out of a search."""

    run: Path
    metrics: dict[str, Any]  # the content of result.json
    backbone: Any = None  # the code that was agreed to, or a network that was handed in as an object
    trust: bool = False

    @functools.cached_property
    def model(self) -> nn.Module:
        """The found network with its weights, on the CPU, ready for prediction."""
        return load(self.run, backbone=self.backbone, trust=self.trust)

    @functools.cached_property
    def genotype(self) -> Genotype:
        """The found network as data."""
        return Genotype.load(self.run)

    def __repr__(self) -> str:
        figures = ", ".join(f"{split} {significant(self.metrics[split])}" for split in ("valid", "test"))
        return f"<Result of {self.run}: {self.metrics['name']}, {self.metrics['metric']['name']}: {figures}>"

    def __str__(self) -> str:
        return f"{as_text(result_table(self.metrics))}\nrun     {self.run}\nreport  {self.run / 'report.html'}"

    def _repr_html_(self) -> str:
        return as_html(result_table(self.metrics)) + page_link(self.run / "report.html")


@usual_torch()
def search(
    *,
    task: str = "",
    data: str | Path | Data | None = None,
    space: str = "",
    backbone: Backbone = "",
    strategy: str = "",
    recipe: str = "",
    epochs: int | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "",
    workers: int | None = None,
    ray_address: str = "",
    out: str | Path = "",
    kind: str = "",
    tokens: bool = False,
    axes: int = 0,
    channels: str = "",
    label: str = "",
    data_dir: str = "",
    teacher: str | Path = "",
    baselines: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] = (),
) -> Result:
    """Find a network for a task.

    ``data`` is a file, a mapping of arrays (``x_train, y_train, ...`` or ``x, y``), a ``Dataset`` of pairs, a data
    frame (``label`` names its column of answers), or a mapping of datasets or frames (``train, val, test``).
    ``backbone`` is a name, ``package.module:attribute``, a network, or what makes one. ``teacher`` is an earlier run,
    whose attention the search is to have. ``settings`` holds any further
    value as ``{"section.key": value}``. Without task, data and recipe the default recipe runs. Code and hosts that a
    recipe from a file names need ``trust``, or to be given here as well. ``progress`` shows bars in a terminal and in
    a notebook, and lines elsewhere; ``listeners`` are told of every event (see :mod:`eclose.events`).
    """
    given = {
        "task.name": task,
        "task.data_dir": data_dir,
        **reading(kind, tokens, axes, channels, label),
        "space.name": space,
        "strategy.name": strategy,
        "train.epochs": epochs,
        "budget.trials": trials,
        "budget.minutes": minutes,
        "run.seed": seed,
        "run.device": device,
        "run.workers": workers,
        "run.ray_address": ray_address,
        "teacher.run": str(teacher),
        "compare.baselines": _names(baselines),
    }
    asked = ask(given, data, backbone, recipe, settings, trust)
    with consenting(asked.consent):
        ended = start_run(asked.config, out, listeners, progress, asked.data, start=None)
    return Result(*ended, None if isinstance(backbone, str) else backbone, trust)


@dataclass(frozen=True)
class Asked:
    """What a user asks for, before the data decides what is left open."""

    config: Config
    data: Data | None  # handed in as objects
    consent: Consent


def ask(
    given: Mapping[str, Any],
    data: str | Path | Data | None,
    backbone: Backbone,
    recipe: str,
    settings: Mapping[str, Any] | None,
    trust: bool,
) -> Asked:
    """The configuration of a search. ``given``: settings by key as the user's arguments say them, or nothing."""
    from_file = isinstance(data, (str, Path))
    files = {"task.data": _file_name(data) if from_file else ""}
    network = {"backbone.name": backbone if isinstance(backbone, str) else hand_in(backbone)}
    changes = _said({**given, **files, **network})
    named = data is not None or bool({"task.name", "task.data"} & {*changes, *(settings or {})})
    if not (named or recipe):
        recipe = DEFAULT
    base = from_dict(read_recipe(recipe)) if recipe else Config()
    if not (recipe or {"space.name", "strategy.name"} & set(changes)):
        base = base.with_values({"space.name": PortfolioSpace.name})
    if named and recipe:
        # The user's data replaces the recipe's task and with it the options that belong to that one.
        base = dataclasses.replace(base, task=dataclasses.replace(base.task, name="", data="", options={}))
    base = without_replaced(base, changes)
    changes |= settings or {}
    config = _changed(base, changes)
    typed = config
    if recipe.endswith(".toml"):  # a file, unlike the recipes of this package
        typed = Config().with_values({key: changes[key] for key in _NAME_CODE if key in changes})
        if "run.ray_address" not in changes and not trust:
            _check_host(base, recipe, "--set run.ray_address=")
    consent = Consent(dict.fromkeys(_references(typed), os.getcwd()), everything=trust)
    return Asked(config, None if from_file else data, consent)  # type: ignore[arg-type]


@usual_torch()
def resume(
    run: str | Path,
    *,
    workers: int | None = None,
    ray_address: str | None = None,
    data: Data | None = None,
    backbone: Backbone = "",
    trust: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] = (),
) -> Result:
    """Go on with a run that was interrupted; a finished one is returned as it is.

    ``workers`` and ``ray_address`` may be others than before; one worker alone is this process. ``data`` and
    ``backbone`` are needed again if they were handed in as objects. A run that did not begin here calls no code and
    connects to no host that it names, unless they are given here, or with ``trust``.
    """
    opened = Run.open(Path(run))
    if workers == 1 and ray_address is None:
        ray_address = ""
    given = {"run.workers": workers, "run.ray_address": ray_address}
    opened.config = opened.config.with_values({key: value for key, value in given.items() if value is not None})
    consent = consent_of(opened, backbone, trust)
    if opened.result is not None:
        if not (opened.path / "report.html").exists():
            write_page(opened)
        if opened.config.run.dashboard:
            with attended(listeners, progress) as (_, _, listeners):
                study_listener(opened, Events(listeners))("result", {})
        return Result(opened.path, opened.result, backbone or None, trust)
    if opened.agreed is None and ray_address is None and not trust:
        _check_host(opened.config, opened.path, "--ray-address ''")
    with consenting(consent):
        ended = continue_run(opened, listeners, progress, data)
    return Result(*ended, backbone or None, trust)


@usual_torch()
def retrain(
    run: str | Path,
    *,
    task: str = "",
    data: str | Path | Data | None = None,
    recipe: str = "",
    kind: str = "",
    tokens: bool = False,
    axes: int = 0,
    channels: str = "",
    label: str = "",
    data_dir: str = "",
    trial: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    device: str = "",
    out: str | Path = "",
    settings: Mapping[str, Any] | None = None,
    backbone: Backbone = "",
    trust: bool = False,
    progress: bool = True,
    listeners: Sequence[Listener] = (),
) -> Result:
    """Train the network that a run found from scratch, in a new run; by default with the next seed.

    With ``task`` or ``data`` it is trained on other data: what was found stays as it is, its weights are new. How these
    are read (``kind`` to ``label``) is said as for a search. With ``recipe`` it has the settings of training of that
    recipe, its sizes where a network can have others, and its task if none is given here. With ``trial`` it is the
    network of that trial, whether its weights were kept or not.
    """
    found = Run.open(Path(run))
    genotype = saved_genotype(found, trial)
    _check_retraining(found, genotype, settings or {})
    from_file = isinstance(data, (str, Path))
    planned = from_dict(read_recipe(recipe)) if recipe else Config()
    config = for_retraining(found.config)
    if recipe:
        config = with_recipe(config, planned, genotype)
    config, other = _with_task(config, planned.task, task, data)
    before = signature_of(found) if other or found.result else None
    if genotype.augment and (other or recipe or "augment.names" in (settings or {})):
        genotype = genotype.on_changed_samples({})
    elif genotype.augment:  # from now on they are a setting
        config, genotype = config.with_augmentation(genotype.augment), dataclasses.replace(genotype, augment={})
    if other:
        genotype = genotype.named(f"{genotype.label} found on {task_name(found.config.task)}")
    given = {
        "task.name": task,
        "task.data": _file_name(data) if from_file else "",
        **reading(kind, tokens, axes, channels, label),
        "task.data_dir": data_dir,
        "train.epochs": epochs,
        "budget.minutes": minutes,
        "run.seed": found.config.run.seed + 1 if seed is None else seed,
        "run.device": device,
    }
    config = _changed(config, {**_said(given), **(settings or {})})
    objects = None if from_file else data
    if objects is None:
        check_data(config, found.path, "give it with --data FILE, or from Python as data=...")
    with consenting(consent_of(found, backbone, trust)):
        ended = start_run(config, out, listeners, progress, objects, genotype, before)  # type: ignore[arg-type]
    return Result(*ended, backbone or None, trust)


def _with_task(config: Config, recipe: TaskSection, task: str, data: str | Path | Data | None) -> tuple[Config, bool]:
    """On the data that the user names, or else a recipe, and whether they are others than those of the run."""
    section, own, other = config.task, config.task, False
    if task or data is not None:
        other = bool(task or own.name or own.data)
        section = for_other_data(own) if other else own
    elif recipe.name or recipe.data:
        other = (recipe.name, recipe.data) != (own.name, own.data)
        section = dataclasses.replace(recipe, data_dir=recipe.data_dir or own.data_dir)
    return dataclasses.replace(config, task=section), other


def _check_retraining(found: Run, genotype: Genotype, settings: Mapping[str, Any]) -> None:
    """Refuse what no training made, and settings that would change the network."""
    if genotype.choices.get("fitted"):
        raise ConfigError(
            f"the {genotype.label} of {found.path} was fitted, not trained: `eclose search` on the data fits it anew, "
            "--trial N names a network to train"
        )
    sizes = {f"space.{option}" for option in space_class(genotype.space).sizes_of_a_retraining}
    for key in settings:
        if key.startswith(("backbone.", "space.", "strategy.")) and key not in sizes:
            raise ConfigError(f"'{key}' cannot be set: retrain trains the network that was found, as it is")


def reading(kind: str, tokens: bool, axes: int, channels: str, label: str) -> dict[str, Any]:
    """How the user says that the data is to be read."""
    reading = {"kind": kind, "tokens": tokens, "axes": axes or None, "channels": channels, "label": label}
    return {f"task.{name}": value for name, value in reading.items()}


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given at all."""
    for key in ("train.epochs", "budget.trials"):  # where 0 is what is usual, which nobody asks for
        value = given.get(key)
        if isinstance(value, Real) and value < 1:
            raise ConfigError(f"{key} is {value}, but must be at least 1")
    return {key: value for key, value in given.items() if value is not None and value is not False and value != ""}


def _changed(config: Config, changes: Mapping[str, Any]) -> Config:
    config = config.with_values(changes)
    if "budget.minutes" in changes and not config.budget.minutes > 0:
        raise ConfigError(
            f"budget.minutes is {config.budget.minutes:g}, but must be above 0: leave it out, or say how long the run "
            "may take"
        )
    return config


def _references(config: Config) -> list[str]:
    return [name for name in (config.backbone.name, config.teacher.network, *config.compare.baselines) if ":" in name]


def _check_host(config: Config, origin: object, without: str) -> None:
    """Refuse to connect to a host only because a file says so."""
    if address := config.run.ray_address:
        raise ConfigError(
            f"{origin} names the Ray cluster {address}, to which eclose does not connect by itself: "
            f"agree with --ray-address {address}, or stay on this machine with {without}"
        )


def _names(baselines: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(baselines, str):
        return tuple(name.strip() for name in baselines.split(",") if name.strip())
    return None if baselines is None else tuple(baselines)


def _file_name(data: object) -> str:
    if not str(data):
        raise ConfigError("the name of the data file is empty")
    return str(data)
