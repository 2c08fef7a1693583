"""From the task section of a configuration to a task; permutations and subsets, which any task can have."""

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from eclose.config import TaskSection
from eclose.errors import ConfigError, TaskError
from eclose.registry import nearest
from eclose.tasks.own_data.arrays import NAME_THEM, task_from_arrays
from eclose.tasks.own_data.dataset import arrays_from_datasets
from eclose.tasks.own_data.files import NAMES, Array, names_in, read_arrays
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.own_data.table import is_table, read_table, task_from_tables
from eclose.tasks.scale import measure_scale, standardise_of
from eclose.tasks.source import Context, Progress, data_folder, tasks
from eclose.tasks.task import Split, Task, random_orders

Data = Mapping[str, "Array | Tensor | Dataset[Any]"] | Dataset[Any]  # or a data frame, or a mapping of them


def complete_task(section: TaskSection) -> TaskSection:
    """The section with every option of the named task written out."""
    if section.name and section.data:
        raise ConfigError(f"--task {section.name} and --data {section.data}: give one of them")
    section = replace(section, data=_absolute(section.data), data_dir=_absolute(section.data_dir))
    if section.data or not section.name:
        if section.options:
            key, known = next(iter(section.options)), {field.name for field in fields(section)} - {"name", "options"}
            raise ConfigError(f"task.{key} is no setting of a user's own data; {nearest(key, known)}")
        return section
    return replace(section, options=tasks[section.name].complete(section.options, "task"))


def _absolute(path: str) -> str:
    # A run is resumed from anywhere. Links are not followed, so that loops of them stay harmless.
    return os.path.abspath(os.path.expanduser(path)) if path else ""


def load_task(section: TaskSection, progress: Progress, data: Data | None = None) -> Task:
    """The task: a registered one, a file, or the Python object ``data``."""
    section = complete_task(section)
    if data is not None:
        if section.name or section.data:
            raise ConfigError(f"data is given twice: as an object and as '{section.name or section.data}'; give one")
        task = _from_object(data, section)
    elif section.data:
        task = _from_file(Path(section.data), section)
    elif section.name:
        task = _registered(section, progress)
    else:
        raise ConfigError("no task: give --task NAME or --data FILE (`eclose show tasks` lists the names)")
    if section.permuted:
        task = permuted(task, section.permuted_seed)
    if section.subset or section.subset_eval:
        task = subset(task, section.subset, section.subset_eval)
    return task


def _registered(section: TaskSection, progress: Progress) -> Task:
    _refuse_columns(section)
    source = tasks[section.name].make(Context(data_folder(section.data_dir), progress), **section.options)
    _check_reading(section, source.reading)
    reading = replace(source.reading, standardise=section.standardise)
    task = task_from_arrays(section.name, source.arrays, reading)
    if section.channels not in ("", task.layout.channels):
        raise ConfigError(
            f"task.channels is '{section.channels}', but that of task '{section.name}' is '{task.layout.channels}'"
        )
    return replace(task, about={**task.about, **section.options}, doubts=())


def _check_reading(section: TaskSection, reading: Reading) -> None:
    for name in ("kind", "tokens", "axes"):
        value, actual = getattr(section, name), getattr(reading, name)
        if value and value != actual:
            raise ConfigError(f"task.{name} is {value!r}, but that of task '{section.name}' is always {actual!r}")


def _reading(section: TaskSection) -> Reading:
    return Reading(section.kind, section.tokens, section.axes, section.standardise, section.channels)


def _from_file(path: Path, section: TaskSection) -> Task:
    if is_table(path):
        table = read_table(path)
        try:
            task = task_from_tables(path.stem, {"": table}, _reading(section), section.label, section.columns)
        except TaskError as error:
            raise TaskError(f"{path}: {error}") from None
        return replace(task, source=path.name)
    _refuse_columns(section)
    arrays = read_arrays(path)
    if not {"x", "x_train"} & set(arrays):
        names = ", ".join(names_in(path)) or "none"
        raise TaskError(f"{path} has no array 'x' or 'x_train' (found: {names}); {NAME_THEM}")
    for name in names_in(path):
        if name.startswith(("x_", "y_")) and name not in NAMES:
            raise TaskError(f"{path} has an array '{name}'; {nearest(name, NAMES)}; rename it, or leave it out")
    try:
        return replace(task_from_arrays(path.stem, arrays, _reading(section)), source=path.name)
    except TaskError as error:
        raise TaskError(f"{path}: {error}") from None


def _from_object(data: Data, section: TaskSection) -> Task:
    frames = {"": data} if is_table(data) else data
    if isinstance(frames, Mapping) and frames and all(is_table(frame) for frame in frames.values()):
        if unknown := set(frames) - {"", "train", "val", "test"}:
            raise TaskError(f"unknown part '{min(map(str, unknown))}' of the data; known: train, val, test")
        tables = {part: read_table(frame) for part, frame in frames.items()}
        return task_from_tables("data", tables, _reading(section), section.label, section.columns)
    _refuse_columns(section)
    return task_from_arrays("data", _arrays(data), _reading(section))


def _refuse_columns(section: TaskSection) -> None:
    for name in ("label", "columns"):
        if getattr(section, name):
            raise ConfigError(
                f"task.{name} names columns of a table (.csv, .parquet, a data frame): leave it out for arrays"
            )


def _arrays(data: Data) -> Mapping[str, "Array | Tensor"]:
    if isinstance(data, Dataset):
        return arrays_from_datasets({"": data})
    if not isinstance(data, Mapping):
        raise TaskError(
            f"data is a {type(data).__name__}: "
            "hand in a file, a mapping such as {'x': x, 'y': y}, a data frame or a Dataset"
        )
    if any(isinstance(value, Dataset) for value in data.values()):
        return arrays_from_datasets(data)  # type: ignore[arg-type]
    return data  # type: ignore[return-value]


def permuted(task: Task, seed: int) -> Task:
    """Every sample with rows, columns, ... in one fixed random order (Roberts et al. 2021, section 4).

    The target of a dense task moves along. Locality is lost, nothing else.
    """
    orders = random_orders(task.signature.sizes, seed, "task.permuted_seed")
    dense = not task.signature.pooled
    changed = {name: replace(split, orders=orders, dense=dense) for name, split in task.splits.items()}
    scale = task.scale
    if scale is not None and scale.pointwise:  # points have other places now
        scale = measure_scale(changed["train"], task.signature, "pointwise")
    return replace(task.with_splits(changed), scale=scale, about={**task.about, "permuted": seed})


def subset(task: Task, train: int, evaluation: int) -> Task:
    """At most ``train`` training and ``evaluation`` validation and test samples; 0 keeps all."""
    limits = {"train": train, "val": evaluation, "test": evaluation}
    changed = {name: _first(split, limits[name]) for name, split in task.splits.items()}
    scale = measure_scale(changed["train"], task.signature, standardise_of(task.scale))
    samples = {name: len(split) for name, split in changed.items()}
    return replace(task.with_splits(changed), scale=scale, about={**task.about, "samples": samples})


def _first(split: Split, count: int) -> Split:
    if not 0 < count < len(split):
        return split
    keep = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))[:count]
    return split.select(keep.sort().values)
