"""Everything a run depends on, as data: sections with defaults, read from and written to TOML.

A section has a few fields of its own and, where it names a member of a registry, the free ``options`` of
that member. Recipes and ``--set section.key=value`` change single values; what is written into a run folder
is complete, every default included.
"""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eclose.errors import ConfigError
from eclose.registry import coerce, nearest, words_of

FORMAT = 1

Standardise = bool | Literal["channels", "levels", "pointwise"]
"""Whether values are scaled: by the mean and deviation of a channel, or of every point of a grid by itself.

``levels``: and inputs of very different size are brought nearer. ``True``: where classes of such are told apart.
"""


@dataclass(frozen=True)
class TaskSection:
    """What to learn."""

    name: str = ""  # a registered task; empty with `data`
    data: str = ""  # a user's .npz file, folder of .npy files, .csv or .parquet table
    kind: str = ""  # empty: from y
    tokens: bool = False
    axes: int = 0  # space axes of x; 0: from its shape
    channels: str = ""  # where x has them: first, last, none or columns (a table); empty: from its shape
    label: str = ""  # the column of a table that is to be learned; empty: by its name, else the last one
    columns: tuple[str, ...] = ()  # the columns of a table to learn from; empty: all that hold numbers
    data_dir: str = ""  # where image files lie; empty: $ECLOSE_DATA, then the user's cache
    metric: str = ""  # empty: by kind
    standardise: Standardise = True
    permuted: bool = False
    permuted_seed: int = 0
    subset: int = 0  # training samples kept; 0: all
    subset_eval: int = 0  # validation and test samples kept; 0: all
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BackboneSection:
    """The network a search starts from."""

    name: str = ""  # empty: by kind
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SpaceSection:
    """What may be chosen."""

    name: str = "backbone"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StrategySection:
    """How to move."""

    name: str = ""  # empty: the space's own
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LossSection:
    """What a training makes small."""

    name: str = ""  # empty: by kind
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OptimiserSection:
    """How weights are updated."""

    name: str = "adamw"
    learning_rate: float = 0.0  # 0: the optimiser's usual one, with what keeps it safe: `widest`, `clip` and `warmup`
    widest: int = 0  # inputs of a unit beyond which its rate falls in proportion; 0: never
    weight_decay: float = 0.01
    decay_vectors: bool = False  # biases and norm scales decay too
    clip: float = 0.0  # largest gradient norm; 0: none
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleSection:
    """How the learning rate moves."""

    name: str = "cosine"
    warmup: float = 0.0  # share of the training in which the rate rises from a tenth
    warmup_epochs: float = 0.0  # instead of a share: epochs in which it rises from zero
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AugmentSection:
    """Random changes of the training samples: crop, flip, cutout, scale, jitter, mix, patch."""

    names: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainSection:
    """One training."""

    epochs: int = 0  # 0: 30; where time is limited, at most as many as it takes to learn
    batch: int = 0  # 0: by the number of samples
    precision: str = "auto"  # float32, tf32, bfloat16, float16; auto: tf32 on a GPU, float32 on a CPU
    graph: str = "auto"  # replay steps as a CUDA graph: on, off, or auto (where it can be)
    keep: str = "best"  # weights kept: best (on validation) or last
    evaluate_every: int = 1  # epochs; on a clock a fiftieth of its time goes by at least
    ema: float = 0.0  # share of the training so far that averaged weights look back on; 0: no average
    patience: int = 0  # epochs without a better validation after which it ends; 0: never


@dataclass(frozen=True)
class FinalSection:
    """Trainings after the search, of what it chose; options are settings of training: `final.train.epochs`."""

    networks: int = -1  # how many of the best are trained anew; -1: one where the search is no training of its own
    all_samples: bool = True  # on training and validation samples together, if there are test samples
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TeacherSection:
    """A trained network whose attention the search is to have; none unless a run or a network is named.

    Options: those of the network (``teacher.backbone.depth``), settings of its training (``teacher.train.epochs``).
    """

    run: str = ""  # the folder of an earlier run
    network: str = ""  # a backbone; without weights it is trained before the search
    weights: str = ""  # a .safetensors file for the network
    weight: float = 1.0  # of the distance from the teacher's attention, beside the loss
    final: bool = False  # whether it teaches in final trainings, too
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BudgetSection:
    """When to stop; every space reads it in its own way."""

    trials: int = 0
    minutes: float = 0.0  # wall-clock time of the whole run; 0: as long as it takes
    training_seconds: float = 0.0  # of each training, whose schedule then ends with them; 0: as long as it takes

    def need_epochs(self, setting: str, what: str) -> None:
        """Refuse a setting that follows the epochs where trainings end with a time, mostly long before these do."""
        if self.minutes or self.training_seconds:
            raise ConfigError(f"{setting} {what} the epochs, not a time: give --epochs and no --minutes")


@dataclass(frozen=True)
class RunSection:
    """Where and how it runs."""

    seed: int = 0
    device: str = "auto"
    threads: int = 0  # CPU threads; 0: as many as torch takes
    checkpoint_seconds: float = 20.0
    deterministic: bool = False  # bit for bit the same on a GPU, too; on a CPU always so
    tensorboard: bool = False
    dashboard: bool = False  # mirror the trials of a search for Optuna's dashboard
    workers: int = 1  # trials at a time, of strategies that try many networks
    ray_address: str = ""  # of the cluster that the workers run on; empty: on this machine


@dataclass(frozen=True)
class CompareSection:
    """Networks trained beside the found one, with the same settings; options are those of all that have them."""

    baselines: tuple[str, ...] = ()
    start: bool | Literal["auto"] = "auto"  # the network that a search begins with; auto: where minutes limit the run
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """One search, complete."""

    format: int = FORMAT
    task: TaskSection = TaskSection()
    backbone: BackboneSection = BackboneSection()
    space: SpaceSection = SpaceSection()
    strategy: StrategySection = StrategySection()
    loss: LossSection = LossSection()
    optimiser: OptimiserSection = OptimiserSection()
    schedule: ScheduleSection = ScheduleSection()
    augment: AugmentSection = AugmentSection()
    train: TrainSection = TrainSection()
    final: FinalSection = FinalSection()
    teacher: TeacherSection = TeacherSection()
    budget: BudgetSection = BudgetSection()
    run: RunSection = RunSection()
    compare: CompareSection = CompareSection()

    def with_values(self, changes: Mapping[str, Any]) -> "Config":
        """A copy with ``{"section.key": value}`` changed.

        A key that is no field is an option of the section's member; ``section.options.key`` always is one, and
        ``section.options`` takes several as a mapping. One way to say a warm-up replaces the other.
        """
        config = self
        for key, value in changes.items():
            config = _changed(config, key, value)
        for key, value in changes.items():
            other = _other_warmup(key)
            if value and other and other not in changes:
                config = _changed(config, other, 0.0)
        return config

    def with_augmentation(self, options: Mapping[str, Mapping[str, Any]]) -> "Config":
        """A copy with these changes of training samples, and no others."""
        return self.with_sections({"augment": {"names": tuple(options), "options": options}})

    def with_sections(self, sections: Mapping[str, Mapping[str, Any]]) -> "Config":
        """A copy with whole sections in place of its own: nothing of another member's options stays."""
        fresh = dataclasses.replace(self, **{name: type(getattr(self, name))() for name in sections})
        return fresh.with_values({f"{name}.{key}": v for name, values in sections.items() for key, v in values.items()})

    def with_stage(self, stage: str, sections: Mapping[str, Any]) -> "Config":
        """A copy with what the sections of a stage change; another member has nothing of the options of the first."""
        config = self
        for name, values in sections.items():
            if name not in OF_TRAINING or not isinstance(values, Mapping):
                raise ConfigError(f"{stage}.{name} is no setting of a training; {nearest(name, OF_TRAINING)}")
            section = getattr(config, name)
            if "name" in values and values["name"] != section.name:
                config = dataclasses.replace(config, **{name: type(section)()})
            config = config.with_values({f"{name}.{key}": value for key, value in values.items()})
        return config

    def as_dict(self) -> dict[str, Any]:
        """Nested plain data."""
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """Complete TOML text."""
        sections = {k: _without_empty_options(v) if isinstance(v, dict) else v for k, v in self.as_dict().items()}
        return to_toml(sections)


SECTIONS = tuple(f.name for f in dataclasses.fields(Config) if f.name != "format")
OF_TRAINING = ("loss", "optimiser", "schedule", "augment", "train")  # sections that a stage of its own may change


def _other_warmup(key: str) -> str:
    """The setting that says the same as ``key`` in another way; empty where there is none."""
    section, _, name = key.rpartition(".")
    others = {"warmup": "warmup_epochs", "warmup_epochs": "warmup"}
    return f"{section}.{others[name]}" if name in others and section.split(".")[-1] == "schedule" else ""


def _changed(config: Config, key: str, value: Any) -> Config:
    section_name, _, name = key.partition(".")
    if section_name not in SECTIONS:
        raise ConfigError(f"unknown setting '{key}': no section '{section_name}'; {nearest(section_name, SECTIONS)}")
    section = getattr(config, section_name)
    fields = {f.name: getattr(section, f.name) for f in dataclasses.fields(section)}
    option = name.removeprefix("options.")
    if name == "options" and name in fields:
        section = dataclasses.replace(section, options={**section.options, **coerce(value, {}, key)})
    elif name in fields:
        words = next(words_of(f.type) for f in dataclasses.fields(section) if f.name == name)
        section = dataclasses.replace(section, **{name: coerce(value, _default(section, name), key, words)})
    elif option and "options" in fields and not difflib.get_close_matches(name, fields, cutoff=0.85):
        section = dataclasses.replace(section, options=_with_option(section.options, option, value))
    else:
        raise ConfigError(f"unknown setting '{key}' of [{section_name}]; {nearest(name, fields)}")
    return dataclasses.replace(config, **{section_name: section})


def _with_option(options: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    outer, dot, inner = name.partition(".")
    if not dot:
        return {**options, name: value}
    nested = options.get(outer)
    return {**options, outer: _with_option(nested if isinstance(nested, Mapping) else {}, inner, value)}


def _without_empty_options(section: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != "options" or value}


def _default(section: Any, name: str) -> Any:
    # The empty tuple says nothing about its items; all our tuples hold names.
    value = getattr(type(section)(), name)
    return ("",) if value == () else value


def from_dict(data: Mapping[str, Any]) -> Config:
    """A configuration from nested data (a parsed TOML file); what is not there keeps its default."""
    changes: dict[str, Any] = {}
    for section, values in data.items():
        if section == "format":
            if type(values) is not int or values != FORMAT:
                raise ConfigError(
                    f"format {values!r} is not {FORMAT}: written by another version of eclose; use that version"
                )
            continue
        if section not in SECTIONS:
            raise ConfigError(f"unknown section [{section}]; {nearest(section, SECTIONS)}")
        if not isinstance(values, Mapping):
            raise ConfigError(f"'{section}' is {values!r}, but must be a section: [{section}] with its settings below")
        changes.update({f"{section}.{key}": value for key, value in values.items()})
    return Config().with_values(changes)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """``["train.epochs=3", "space.name=xd"]`` as values; what is no TOML number, truth value, list ... is text."""
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {pair!r} is not of the form section.key=value, e.g. train.epochs=10")
        changes[key.strip()] = _override(text.strip())
    return changes


def _override(text: str) -> Any:
    try:
        data = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    plain = isinstance(data["value"], (bool, int, float, str, list, dict))  # a date is a name that looks like one
    return data["value"] if plain and len(data) == 1 else text


def to_toml(data: Mapping[str, Any]) -> str:
    """TOML text of nested dicts of plain values."""
    lines: list[str] = []
    _write_table(data, (), lines)
    return "\n".join(lines).strip() + "\n"


def _write_table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    values = {k: v for k, v in table.items() if not isinstance(v, Mapping)}
    tables = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    if path and (values or not tables):
        lines.append(f"\n[{'.'.join(map(_key, path))}]")
    lines.extend(f"{_key(k)} = {_value(v)}" for k, v in values.items())
    for key, inner in tables.items():
        _write_table(inner, (*path, key), lines)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # what Python makes of a file name that is no text
            raise ConfigError(f"{value!a} cannot be written as TOML: it is not valid Unicode; rename it") from None
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(float(value))  # inf and nan are valid TOML
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):  # inside a list
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    raise ConfigError(f"{value!r} ({type(value).__name__}) cannot be written as TOML")
