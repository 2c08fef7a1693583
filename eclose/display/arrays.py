"""Predictions as a file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from eclose.errors import ConfigError
from eclose.runs import atomic_path
from eclose.tasks.own_data.files import Array


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """All arrays as ``.npz``, or the first one as ``.npy``."""
    if path.suffix not in (".npz", ".npy"):
        raise ConfigError(f"--out {path}: the name must end in .npz or .npy")
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        if path.suffix == ".npz":
            np.savez(file, **arrays)  # type: ignore[arg-type]
        else:
            np.save(file, next(iter(arrays.values())))
