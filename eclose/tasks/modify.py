"""Modifiers that work on any task: a fixed permutation of the space axes, and fewer samples."""

from dataclasses import replace

import torch

from eclose.errors import ConfigError
from eclose.tasks.scale import measure_scale
from eclose.tasks.task import Split, Task


def permuted(task: Task, seed: int) -> Task:
    """Every sample with rows, columns, ... in one fixed random order (XD paper, section 4).

    The target of a dense task moves along. Locality is lost, nothing else.
    """
    if not 0 <= seed < 2**63:
        raise ConfigError(f"task.permuted_seed is {seed}, but must lie between 0 and 2**63 - 1")
    generator = torch.Generator().manual_seed(seed)
    orders = tuple(torch.randperm(size, generator=generator) for size in task.signature.sizes)
    dense = not task.signature.pooled
    changed = {name: replace(split, orders=orders, dense=dense) for name, split in task.splits.items()}
    return replace(task.with_splits(changed), about={**task.about, "permuted": seed})


def subset(task: Task, train: int, evaluation: int) -> Task:
    """At most ``train`` training and ``evaluation`` validation and test samples; 0 keeps all."""
    limits = {"train": train, "val": evaluation, "test": evaluation}
    changed = {name: _first(split, limits[name]) for name, split in task.splits.items()}
    scale = measure_scale(changed["train"], task.signature) if task.scale else None
    samples = {name: len(split) for name, split in changed.items()}
    return replace(task.with_splits(changed), scale=scale, about={**task.about, "samples": samples})


def _first(split: Split, count: int) -> Split:
    if not 0 < count < len(split):
        return split
    keep = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))[:count]
    return split.select(keep.sort().values)
