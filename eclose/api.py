"""What users call: search, resume, retrain, load, predict, explain, report, export. The command line calls the same."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from eclose.backbones.consent import Consent, consenting
from eclose.backbones.reference import hand_in
from eclose.config import Config, from_dict
from eclose.display import study_listener, write_page, write_study
from eclose.display.notebook import Description, Explanation, Page, as_html, as_text, page_link
from eclose.display.terminal.tables import result_table, significant
from eclose.engine import build_network, explained, load_network
from eclose.engine.plan import without_replaced
from eclose.engine.taken import Taken, network_of, saved_explanation, take
from eclose.engine.transfer import for_other_data, for_retraining, task_name
from eclose.errors import ConfigError, RunError, TaskError
from eclose.events import Events, Listener
from eclose.exports import write_export
from eclose.launch import attended, check_data, continue_run, start_run
from eclose.plural import plural
from eclose.recipes import DEFAULT, read_recipe
from eclose.runs import Run
from eclose.signature import Signature
from eclose.spaces import Genotype, space_class
from eclose.spaces.architecture import architecture
from eclose.spaces.found import found_operations
from eclose.spaces.portfolio import PortfolioSpace
from eclose.spaces.relax import relax
from eclose.spaces.xd_explanation import explain_operations
from eclose.tasks import (
    Data,
    Layout,
    answers,
    features,
    input_tensor,
    is_table,
    read_arrays,
    read_table,
    target_tensor,
)
from eclose.tasks.own_data.files import Array
from eclose.train import choose_device
from eclose.train import predict as outputs_of
from eclose.train.metrics import make_metric
from eclose.train.module_hooks import one_pass, takes_any_sizes

__all__ = [
    "Predictions",
    "Result",
    "architecture",
    "describe",
    "explain",
    "export",
    "load",
    "one_pass",
    "predict",
    "relax",
    "report",
    "resume",
    "retrain",
    "search",
]

Backbone = str | nn.Module | Callable[..., nn.Module]

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


class Predictions(dict[str, Array]):
    """Arrays by name. ``score`` is the run's metric where the true answers were at hand, else None."""

    metric: str = ""
    score: float | None = None


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
    from_file = isinstance(data, (str, Path))
    named = bool(task or data is not None or {"task.name", "task.data"} & set(settings or {}))
    if not (named or recipe):
        recipe = DEFAULT
    base = from_dict(read_recipe(recipe)) if recipe else Config()
    if not (recipe or space or strategy):
        base = base.with_values({"space.name": PortfolioSpace.name})
    if named and recipe:
        # The user's data replaces the recipe's task and with it the options that belong to that one.
        base = dataclasses.replace(base, task=dataclasses.replace(base.task, name="", data="", options={}))
    given = {
        "task.name": task,
        "task.data": _file_name(data) if from_file else "",
        **_reading(kind, tokens, axes, channels, label),
        "task.data_dir": data_dir,
        "space.name": space,
        "strategy.name": strategy,
        "backbone.name": backbone if isinstance(backbone, str) else hand_in(backbone),
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
    changes = _said(given, epochs)
    base = without_replaced(base, changes)
    changes |= settings or {}
    config = _changed(base, changes)
    typed = config
    if recipe.endswith(".toml"):  # a file, unlike the recipes of this package
        typed = Config().with_values({key: changes[key] for key in _NAME_CODE if key in changes})
        if "run.ray_address" not in changes and not trust:
            _check_host(base, recipe, "--set run.ray_address=")
    objects = None if from_file or data is None else data
    with consenting(Consent(dict.fromkeys(_references(typed), os.getcwd()), everything=trust)):
        ended = start_run(config, out, listeners, progress, objects, start=None)  # type: ignore[arg-type]
    return Result(*ended, None if isinstance(backbone, str) else backbone, trust)


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
    consent = _consent(opened, backbone, trust)
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


def retrain(
    run: str | Path,
    *,
    task: str = "",
    data: str | Path | Data | None = None,
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
    are read (``kind`` to ``label``) is said as for a search. With ``trial`` it is the network of that trial, whether
    its weights were kept or not.
    """
    found = Run.open(Path(run))
    genotype = network_of(found, trial)
    if genotype.choices.get("fitted"):
        raise ConfigError(
            f"the {genotype.label} of {found.path} was fitted, not trained: `eclose search` on the data fits it anew, "
            "--trial N names a network to train"
        )
    sizes = {f"space.{option}" for option in space_class(genotype.space).sizes_of_a_retraining}
    for key in settings or {}:
        if key.startswith(("backbone.", "space.", "strategy.")) and key not in sizes:
            raise ConfigError(f"'{key}' cannot be set: retrain trains the network that was found, as it is")
    from_file = isinstance(data, (str, Path))
    config, before = for_retraining(found.config), _signature(found) if found.result else None
    own = config.task
    if task or (data is not None and (own.name or own.data)):
        before = _signature(found)
        config = dataclasses.replace(config, task=for_other_data(own))
        genotype = genotype.named(f"{genotype.label} found on {task_name(own)}")
    given = {
        "task.name": task,
        "task.data": _file_name(data) if from_file else "",
        **_reading(kind, tokens, axes, channels, label),
        "task.data_dir": data_dir,
        "train.epochs": epochs,
        "budget.minutes": minutes,
        "run.seed": found.config.run.seed + 1 if seed is None else seed,
        "run.device": device,
    }
    config = _changed(config, {**_said(given, epochs), **(settings or {})})
    objects = None if from_file else data
    if objects is None:
        check_data(config, found.path, "give it with --data FILE, or from Python as data=...")
    with consenting(_consent(found, backbone, trust)):
        ended = start_run(config, out, listeners, progress, objects, genotype, before)  # type: ignore[arg-type]
    return Result(*ended, backbone or None, trust)


def load(
    run: str | Path, *, trial: int | None = None, backbone: Backbone | None = None, trust: bool = False
) -> nn.Module:
    """The found network of a run (or of an exported bundle) with its weights: a plain ``nn.Module`` in eval mode.

    With ``trial`` it is the network of that trial, if its weights were kept. A network of your own code is given
    again as ``backbone`` where the run did not begin here; ``trust`` calls whatever code its files name.
    """
    opened = Run.open(Path(run))
    with consenting(_consent(opened, backbone, trust)):
        return _network(opened, take(opened, trial))


def predict(
    run: str | Path,
    x: str | Path | Array | torch.Tensor,
    *,
    y: Array | torch.Tensor | None = None,
    trial: int | None = None,
    device: str = "auto",
    backbone: Backbone | None = None,
    trust: bool = False,
) -> Predictions:
    """What the found network, or that of a trial, says about ``x``: an array, a file with ``x`` (else ``x_test``),
    or a table.

    Classification and segmentation give ``label`` (as the training data had them) and ``probability``, the others
    ``prediction``, without the axis of outputs where there is only one; this axis is last where x has its channels
    last. With ``y``, given or in the file, the answer also has a ``score`` by the ``metric`` of the run (by mse, if
    that is a relative error and some target is zero).
    """
    opened = Run.open(Path(run))
    signature = _signature(opened)
    layout = Layout.from_dict((opened.result or {}).get("layout"), signature)
    name, inputs, found = _inputs(x, layout)
    model = load(run, trial=trial, backbone=backbone, trust=trust)
    other = takes_any_sizes(model.get_submodule("network")) and opened.config.task.standardise != "pointwise"
    given, y = input_tensor(name, inputs, signature, layout, any_sizes=other), found if y is None else y
    signature = dataclasses.replace(signature, sizes=tuple(given.shape[-signature.axes :]))
    target = None if y is None else target_tensor(name.replace("x", "y"), y, signature, layout)
    if target is not None and len(target) != len(given):
        raise TaskError(f"x has {plural(len(given), 'sample')}, but y has {len(target)}: they must be as many")
    place = choose_device(device)
    output = outputs_of(model.to(place), given, place)
    told = _answer(output, signature, layout)
    if target is not None:
        metric = make_metric(_judge(opened.config.task.metric, target))
        meter = metric.meter()
        meter.update(output, target)
        told.metric, told.score = metric.name, meter.value()
    return told


def _judge(metric: str, target: torch.Tensor) -> str:
    """The metric of the run; as in a search, no error is relative to a target that is zero."""
    zero = metric == "relative_l2" and not target.flatten(1).any(1).all()
    return "mse" if zero else metric


def _answer(output: torch.Tensor, signature: Signature, layout: Layout) -> Predictions:
    """Outputs in the user's terms."""

    def placed(values: torch.Tensor) -> Array:
        return (values.movedim(1, -1) if layout.channels == "last" else values).numpy()

    if not signature.labels:
        return Predictions(prediction=output.squeeze(1).numpy() if signature.outputs == 1 else placed(output))
    numbers = output.argmax(1).numpy()
    labels = np.array(layout.classes)[numbers] if layout.classes else numbers
    return Predictions(label=labels, probability=placed(output.softmax(1)))


def report(run: str | Path, *, dashboard: bool = False) -> Page:
    """Write (again) the page of a run; its path, which a notebook shows as the page itself.

    With ``dashboard`` also the study for Optuna's dashboard.
    """
    opened = Run.open(Path(run))
    if dashboard:
        with opened.locked():
            write_study(opened, anew=True)
    return Page(write_page(opened))


def export(
    run: str | Path,
    to: str | Path,
    *,
    trial: int | None = None,
    format: str = "bundle",
    backbone: Backbone | None = None,
    trust: bool = False,
) -> list[Path]:
    """Write the found network (or that of a ``trial``) for use elsewhere; the files written.

    ``bundle``: JSON, TOML and safetensors that :func:`load` reads. ``pt2``: a ``torch.export`` program that runs
    without eclose, for any batch size.
    """
    opened = Run.open(Path(run))
    taken = take(opened, trial)
    with consenting(_consent(opened, backbone, trust)):
        return write_export(opened, taken, _network(opened, taken), _signature(opened), Path(to), format)


def explain(
    run: str | Path, *, trial: int | None = None, backbone: Backbone | None = None, trust: bool = False
) -> Explanation:
    """What a run found, or what the network of a trial is: sentences, pictures, a table.

    It prints as text and a notebook draws it. What the run itself says of its network is shown as it stands; else the
    network is loaded, as :func:`load` does.
    """
    opened = Run.open(Path(run))
    told = saved_explanation(opened) if trial is None else None
    if told is None:
        genotype = network_of(opened, trial)
        with consenting(_consent(opened, backbone, trust)):
            if genotype.tensors:  # what it is lies in its weights too
                network = _network(opened, take(opened, trial)).get_submodule("network")
            else:
                network = build_network(opened, genotype, _signature(opened), seed=0)
            told = explained(opened, genotype, network)
    return Explanation(told)


def describe(network: nn.Module) -> Description:
    """Every XD-operation of a network: how far it moved from its start, and the known operations nearest to it.

    A list that is printed, and that a notebook shows, as :func:`explain` shows a run.
    """
    found = found_operations(network)
    return Description(found, Explanation(explain_operations(network, found)))


def _reading(kind: str, tokens: bool, axes: int, channels: str, label: str) -> dict[str, Any]:
    """How the user says that the data is to be read."""
    reading = {"kind": kind, "tokens": tokens, "axes": axes or None, "channels": channels, "label": label}
    return {f"task.{name}": value for name, value in reading.items()}


def _said(given: Mapping[str, Any], epochs: int | None) -> dict[str, Any]:
    """What was given at all."""
    if epochs is not None and epochs < 1:
        raise ConfigError(f"train.epochs is {epochs}, but must be at least 1")
    return {key: value for key, value in given.items() if value is not None and value is not False and value != ""}


def _changed(config: Config, changes: Mapping[str, Any]) -> Config:
    config = config.with_values(changes)
    if "budget.minutes" in changes and not config.budget.minutes > 0:
        raise ConfigError(
            f"budget.minutes is {config.budget.minutes:g}, but must be above 0: leave it out, or say how long the run "
            "may take"
        )
    return config


def _network(run: Run, taken: Taken) -> nn.Module:
    return load_network(run, taken.genotype, _signature(run), taken.weights, taken.seed)


def _consent(run: Run, backbone: Backbone | None, trust: bool) -> Consent:
    """What the user agreed to when the run began here, and agrees to now."""
    code, objects, name = dict(run.agreed or {}), {}, run.config.backbone.name
    if isinstance(backbone, str) and ":" in backbone:
        code[backbone] = os.getcwd()
    elif backbone is not None and backbone != "":
        if ":" not in name or isinstance(backbone, str):
            made_with = f"with the backbone '{name}' of eclose" if name else "without a backbone"
            raise ConfigError(f"{run.path} was made {made_with}: leave backbone out")
        if name.startswith("python:"):
            code[hand_in(backbone, name)] = ""
        else:
            objects[name] = backbone
    return Consent(code, objects, trust)


def _references(config: Config) -> list[str]:
    return [name for name in (config.backbone.name, config.teacher.network, *config.compare.baselines) if ":" in name]


def _check_host(config: Config, origin: object, without: str) -> None:
    """Refuse to connect to a host only because a file says so."""
    if address := config.run.ray_address:
        raise ConfigError(
            f"{origin} names the Ray cluster {address}, to which eclose does not connect by itself: "
            f"agree with --ray-address {address}, or stay on this machine with {without}"
        )


def _signature(run: Run) -> Signature:
    if run.result is None:
        raise RunError(f"{run.path} has not finished: `eclose resume {run.path}` first")
    return Signature.from_dict(run.result["signature"])


def _inputs(
    x: str | Path | Array | torch.Tensor, layout: Layout
) -> tuple[str, Array | torch.Tensor, Array | torch.Tensor | None]:
    """The name of the inputs, the inputs, and the true answers where the file has them."""
    if is_table(x):
        if not layout.columns:
            raise TaskError("the run did not learn from a table: give x as an array, or as .npz or .npy")
        table = read_table(x, layout.label if isinstance(next(iter(layout.classes), 0), str) else "")
        return "x", features(table, layout.columns), answers(table, layout)
    if not isinstance(x, (str, Path)):
        return "x", x, None
    arrays = read_arrays(Path(x), ("x", "x_test", "y", "y_test"))
    for part in ("", "_test"):
        if f"x{part}" in arrays:
            return f"x{part}", arrays[f"x{part}"], arrays.get(f"y{part}")
    raise ConfigError(f"{x} has no array 'x' (or 'x_test') to predict from")


def _names(baselines: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(baselines, str):
        return tuple(name.strip() for name in baselines.split(",") if name.strip())
    return None if baselines is None else tuple(baselines)


def _file_name(data: object) -> str:
    if not str(data):
        raise ConfigError("the name of the data file is empty")
    return str(data)
