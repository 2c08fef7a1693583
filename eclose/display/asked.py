"""What a run was asked to do, in words: task, space, strategy, training, budget."""

from collections.abc import Sequence
from pathlib import PureWindowsPath
from typing import Any

from eclose.backbones import backbones
from eclose.backbones.reference import own_label
from eclose.config import Config
from eclose.display.wording import duration, finite, listed, shortened
from eclose.engine import strategies
from eclose.plural import plural
from eclose.registry import Registry
from eclose.signature import Signature
from eclose.spaces import spaces
from eclose.tasks import Layout

_KINDS = {
    "classification": "classification",
    "regression": "regression",
    "dense": "dense prediction",
    "segmentation": "segmentation",
}
_NAMED = 12  # classes and columns, one by one
_SPACES = {"backbone": "no search, one given network", "portfolio": "plain networks and what the other spaces offer"}
_SPLITS = {"train": "for training", "val": "for validation", "test": "for the test"}


def asked(
    config: Config, result: dict[str, Any] | None, signature: Signature | None, layout: Layout
) -> list[tuple[str, str]]:
    """Terms and their descriptions, in reading order; of options those that are not the default."""
    about = dict((result or {}).get("about") or {})
    samples, compare = about.pop("samples", {}), config.compare
    rows = [
        ("Task", _task(config)),
        ("Samples", _samples(samples)),
        ("Input", _input(signature, layout)),
        ("Output", _output(signature, layout)),
        ("To check", _doubts(result)),
        ("Data", _facts({key: value for key, value in about.items() if samples.get(key) != value})),
        ("Space", _member(config.space.name, config.space.options, spaces, _SPACES)),
        ("Backbone", _member(own_label(config.backbone.name), config.backbone.options, backbones)),
        ("Strategy", _member(config.strategy.name, config.strategy.options, strategies)),
        ("Training", _training(config)),
        ("Budget", _budget(config)),
        ("Baselines", _member(listed(list(compare.baselines)), compare.options if compare.baselines else {})),
    ]
    return [(term, text) for term, text in rows if text]


def task_name(config: Config, result: dict[str, Any] | None) -> str:
    """The task's name; a user's file gives its stem."""
    own = PureWindowsPath(config.task.data).stem  # reads both kinds of separators
    return str((result or {}).get("task") or config.task.name or own or "data")


def _task(config: Config) -> str:
    name = config.task.name or PureWindowsPath(config.task.data).name or "data handed in from Python"
    kind = _KINDS.get(config.task.kind, config.task.kind)
    return f"{name}, {kind}" if kind else name


def _samples(samples: Any) -> str:
    if not isinstance(samples, dict):
        return ""
    parts = [f"{size:,} {_SPLITS.get(part, part)}" for part, size in samples.items() if isinstance(size, int)]
    return listed(parts)


def _input(signature: Signature | None, layout: Layout) -> str:
    if signature is None:
        return ""
    if layout.channels == "columns":
        return f"a table of {plural(signature.channels, 'column')}{_names(layout.columns)}"
    if signature.tokens:
        return f"a sequence of {plural(signature.sizes[0], 'token')} out of {signature.vocabulary:,}"
    return f"{plural(signature.channels, 'channel')} {_grid(signature)}"


def _output(signature: Signature | None, layout: Layout) -> str:
    if signature is None:
        return ""
    each = {1: " at each position", 2: " at each pixel", 3: " at each voxel"}.get(signature.axes, "")
    if signature.labels:
        text = f"one of {plural(signature.outputs, 'class')}{'' if signature.pooled else each}"
        return text + _names(layout.classes) + _column(layout)
    return f"{plural(signature.outputs, 'number')}{'' if signature.pooled else each}{_column(layout)}"


def _column(layout: Layout) -> str:
    return f", column '{layout.label}'" if layout.label else ""


def _names(names: Sequence[int | str]) -> str:
    """Of classes or columns, those that say more than their number."""
    if not names or names == tuple(range(len(names))):
        return ""
    shown = [shortened(str(name), 40) for name in names[:_NAMED]]
    return f": {listed(shown)}" if len(shown) == len(names) else f": {', '.join(shown)}, …"


def _doubts(result: dict[str, Any] | None) -> str:
    """Guesses about the data that the user was asked to check."""
    data = (result or {}).get("data")
    doubts = data.get("doubts") if isinstance(data, dict) else None
    return " ".join(f"{str(doubt)[:1].upper()}{str(doubt)[1:]}." for doubt in doubts or [])


def _grid(signature: Signature) -> str:
    if signature.axes == 1:
        return f"on {plural(signature.sizes[0], 'position')}"
    return f"on a grid of {' × '.join(f'{size:,}' for size in signature.sizes)}"


def _member(
    name: str, options: dict[str, Any], known: Registry | None = None, remarks: dict[str, str] | None = None
) -> str:
    defaults = known[name].options if known is not None and name in known else {}
    told = {key: value for key, value in options.items() if key not in defaults or not _same(value, defaults[key])}
    remark = (remarks or {}).get(name, "")
    return f"{name}{f' ({remark})' if remark else ''}{f': {_facts(told)}' if told else ''}"


def _same(value: Any, default: Any) -> bool:
    """Files have lists where defaults are tuples."""
    return list(value) == list(default) if isinstance(default, tuple) and isinstance(value, list) else value == default


def _training(config: Config) -> str:
    train, optimiser, schedule = config.train, config.optimiser, config.schedule
    parts = [
        f"{optimiser.name} with learning rate {optimiser.learning_rate:g}" if optimiser.learning_rate else "",
        f"{schedule.name} schedule" if schedule.name else "",
        f"batches of {train.batch}" if train.batch else "",
        f"loss {config.loss.name}" if config.loss.name else "",
        train.precision,
        f"augmentation by {listed(list(config.augment.names))}" if config.augment.names else "",
        "weights of the best epoch kept" if train.keep == "best" else "weights of the last epoch kept",
    ]
    return ", ".join(filter(None, parts))


def _budget(config: Config) -> str:
    parts = [
        f"{'at most ' if config.budget.minutes else ''}{plural(config.train.epochs, 'epoch')} a training",
        plural(config.budget.trials, "trial") if config.budget.trials else "",
        f"at most {duration(config.budget.training_seconds)}" if config.budget.training_seconds else "",
        f"{duration(60 * config.budget.minutes)} in all" if config.budget.minutes else "",
    ]
    return ", ".join(filter(None, parts))


def _facts(values: dict[str, Any]) -> str:
    return ", ".join(f"{str(key).replace('_', ' ')} {_fact(value)}" for key, value in values.items())


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and finite(value):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, (list, tuple)):
        return " ".join(_fact(item) for item in value) or "none"
    if isinstance(value, dict):
        return f"({_facts(value)})"
    return "none" if value in ("", None) else str(value)
