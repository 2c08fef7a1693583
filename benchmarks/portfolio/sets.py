"""Sets with labels and sets of fields, real, made and of physics, as a user would hand them in.

They have ``x_train, y_train, x_test, y_test``, some ``x_val, y_val`` too. Files are those of ``$ECLOSE_DATA`` or
``../shared/data``; a set without its file is left out. Those of physics are generated, and kept in the cache.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.portfolio.fields import FIELDS, make_fields
from benchmarks.portfolio.made import MADE, make_set
from eclose.tasks.source import Context, tasks

Arrays = dict[str, np.ndarray]
Loader = Callable[[], Arrays]

PHYSICS = ("Burgers", "Darcy", "Plucked string", *FIELDS)  # from fields to fields; the others have labels
SAMPLES = {"train": 10_000, "val": 2_000, "test": 5_000}  # of sets that are generated or cut


def load_sets(folder: Path, files: Sequence[Path] = ()) -> dict[str, Loader]:
    """The loader of every set whose file is there, by name; further files are named as they are called."""
    known = {name: loader for name, (file, loader) in _loaders(folder).items() if not file or (folder / file).is_file()}
    return known | {file.stem: partial(_series, file) for file in files}


def set_names() -> list[str]:
    """Of all sets, whether their files are there or not."""
    return list(_loaders(Path()))


def _loaders(folder: Path) -> dict[str, tuple[str, Loader]]:
    series = {name: f"timeseries/{name}.npz" for name in ("ECG5000", "JapaneseVowels", "ElectricDevices", "Crop")}
    return {
        **{name: (file, partial(_series, folder / file)) for name, file in series.items()},
        "digits": ("", partial(_task, folder, "digits")),
        "Language": ("language_words/six_letter_words.npz", partial(_task, folder, "language", **SAMPLES)),
        "Gutenberg": ("gutenberg/gutenberg_phrases.npz", partial(_cut, partial(_task, folder, "gutenberg"))),
        "AddNIST": ("mnist/mnist.npz", partial(_task, folder, "addnist", **SAMPLES)),
        "CIFAR-10 permuted": ("cifar10/cifar10_train2.npz", partial(_permuted_cifar, folder)),
        **{name: ("", partial(make_set, name)) for name in MADE},
        "Burgers": ("", partial(_fields, folder, "burgers", points=256, viscosity=0.01)),
        "Darcy": ("", partial(_fields, folder, "darcy", points=43)),
        "Plucked string": ("", partial(_fields, folder, "plucked-string")),
        **{name: ("", partial(make_fields, name)) for name in FIELDS},
    }


def _series(path: Path) -> Arrays:
    """UCR and UEA signals; those of one channel get an axis for it."""
    data = np.load(path, allow_pickle=False)
    arrays = {key: data[key] for key in ("x_train", "y_train", "x_test", "y_test")}
    return {key: value[:, None] if key[0] == "x" and value.ndim == 2 else value for key, value in arrays.items()}


def _task(folder: Path, name: str, **options: int) -> Arrays:
    """A task of the package; images of one channel get an axis for it."""
    arrays = tasks[name].make(Context(folder, lambda done, total: None), **options).arrays
    return {key: np.asarray(value)[:, None] if value.ndim == 3 else np.asarray(value) for key, value in arrays.items()}


def _fields(folder: Path, name: str, **options: float) -> Arrays:
    """Inputs and solutions of a physics task, with an axis for their channel."""
    arrays = tasks[name].make(Context(folder, lambda done, total: None), **options).arrays
    return {key: np.asarray(value)[:, None] for key, value in arrays.items()}


def _cut(loader: Loader) -> Arrays:
    """The first samples in a fixed random order."""
    arrays, rng = loader(), np.random.default_rng(0)
    chosen = {part: rng.permutation(len(arrays[f"y_{part}"]))[:number] for part, number in SAMPLES.items()}
    return {f"{kind}_{part}": arrays[f"{kind}_{part}"][rows] for part, rows in chosen.items() for kind in "xy"}


def _permuted_cifar(folder: Path) -> Arrays:
    """CIFAR-10 with rows and columns in one random order."""
    arrays, rng = _cut(partial(_task, folder, "cifar10", shards=2)), np.random.default_rng(0)
    rows, columns = rng.permutation(32), rng.permutation(32)
    return {key: value[:, :, rows][:, :, :, columns] if key[0] == "x" else value for key, value in arrays.items()}
