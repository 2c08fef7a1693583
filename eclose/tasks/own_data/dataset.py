"""Any ``torch.utils.data.Dataset`` of ``(x, y)`` pairs as arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from eclose.errors import TaskError
from eclose.tasks.own_data.arrays import to_tensor
from eclose.tasks.own_data.files import Array

_PARTS = ("", "train", "val", "test")


def arrays_from_datasets(datasets: Mapping[str, Dataset[Any]]) -> dict[str, Array | Tensor]:
    """``{"train": dataset, "val": ...}`` (or ``{"": dataset}``) as ``x_train, y_train, ...``."""
    arrays: dict[str, Array | Tensor] = {}
    for part, dataset in datasets.items():
        if part not in _PARTS:
            raise TaskError(f"unknown part '{part}' of the data; known: train, val, test")
        suffix = f"_{part}" if part else ""
        arrays[f"x{suffix}"], arrays[f"y{suffix}"] = _stack(dataset, part or "data")
    return arrays


def _stack(dataset: Dataset[Any], name: str) -> tuple[Tensor, Array | Tensor]:
    try:
        count = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise TaskError(f"the dataset '{name}' has no length: hand in a map-style Dataset") from None
    pairs = [dataset[index] for index in range(count)]
    if not pairs or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise TaskError(f"the dataset '{name}' must hold at least one item, and every item must be a pair (x, y)")
    try:
        x = torch.stack([_tensor(pair[0]) for pair in pairs])
        if all(isinstance(pair[1], str) for pair in pairs):
            return x, np.array([pair[1] for pair in pairs])
        y = torch.stack([_tensor(pair[1]) for pair in pairs])
    except (RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TaskError(f"the items of dataset '{name}' cannot be stacked: {reason}") from None
    return x, y


def _tensor(value: Any) -> Tensor:
    return to_tensor("item", value) if isinstance(value, np.ndarray) else torch.as_tensor(value)
