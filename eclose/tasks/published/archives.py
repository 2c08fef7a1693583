"""MNIST and CIFAR as they are usually downloaded: idx files, python and binary archives, packed or not.

torchvision keeps the same files: ``MNIST/raw/*-ubyte`` and ``cifar-10-batches-py`` under its root.
"""

import gzip
import math
import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array
from eclose.tasks.published.pickled import read_pickle
from eclose.tasks.source import Context, Pairs

_LARGEST = 512 * 2**20  # bytes of a single unpacked file; those meant have at most 154 million
_IMAGE = (3, 32, 32)
_DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)


@dataclass(frozen=True)
class Edition:
    """Names that the files of one of the CIFAR sets have, and where their labels are."""

    name: str
    folders: tuple[str, str]  # python, binary
    archives: tuple[str, str]
    parts: dict[str, tuple[str, ...]]  # without the suffix .bin
    key: str  # of the labels in a python file
    labels: int  # bytes before an image in a binary file, the last of which counts

    def first(self, shards: int) -> "dict[str, tuple[str, ...]]":
        """The parts with the first files of training only."""
        return {part: names[:shards] if part == "train" else names for part, names in self.parts.items()}


CIFAR10 = Edition(
    "CIFAR-10",
    ("cifar-10-batches-py", "cifar-10-batches-bin"),
    ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
    {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    "labels",
    1,
)
CIFAR100 = Edition(
    "CIFAR-100",
    ("cifar-100-python", "cifar-100-binary"),
    ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
    {"train": ("train",), "test": ("test",)},
    "fine_labels",
    2,
)


def find_cifar(context: Context, edition: Edition, shards: int = 5) -> Pairs | None:
    """``train`` and ``test`` from the first form of the set that the data folder has: images and classes."""
    found = _find(context.data_folder, edition)
    if found is None:
        return None
    path, binary = found
    parts = edition.first(shards)
    files = [name for names in parts.values() for name in names]
    read: dict[str, tuple[Array, Array]] = {}
    try:
        for name, content in _contents(path, files, ".bin" if binary else ""):
            context.progress(len(read), len(files))
            read[name] = _binary(content, edition) if binary else _python(content, edition)
    except _DAMAGED as error:
        reason = " ".join(str(error).split())  # tarfile lists what it tried, line by line
        raise TaskError(f"{path} is not a readable part of {edition.name} ({reason}): download it again") from None
    if missing := [name for name in files if name not in read]:
        raise TaskError(f"{path} has no file '{missing[0]}': it is not all of {edition.name}")
    joined = {part: [read[name] for name in names] for part, names in parts.items()}
    return {part: (_joined([x for x, _ in all_]), _joined([y for _, y in all_])) for part, all_ in joined.items()}


def _find(folder: Path, edition: Edition) -> tuple[Path, bool] | None:
    """Where the set lies, and whether it is the binary one."""
    for place in (folder, folder / edition.name.lower().replace("-", ""), folder / edition.name.lower()):
        for binary, (unpacked, archive) in enumerate(zip(edition.folders, edition.archives, strict=True)):
            if (place / unpacked).is_dir():
                return place / unpacked, bool(binary)
            if (place / archive).is_file():
                return place / archive, bool(binary)
    if folder.name in edition.folders:
        return folder, folder.name == edition.folders[1]
    return None


def _contents(path: Path, files: list[str], suffix: str) -> Iterator[tuple[str, bytes]]:
    """The wanted files of a folder or an archive, one after the other."""
    if path.is_dir():
        for name in files:
            if (path / f"{name}{suffix}").is_file():
                with open(path / f"{name}{suffix}", "rb") as file:
                    yield name, _limited(file)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            name = Path(member.name).name.removesuffix(suffix)
            if name in files and Path(member.name).name == f"{name}{suffix}" and member.isfile():
                yield name, _limited(archive.extractfile(member))


def _limited(file: Any) -> bytes:
    content: bytes = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError("a file in it is far too large")
    return content


def _python(content: bytes, edition: Edition) -> tuple[Array, Array]:
    batch = read_pickle(content)
    if not isinstance(batch, dict):
        raise ValueError("it holds no dictionary")
    batch = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    images, labels = batch.get("data"), batch.get(edition.key)
    if not isinstance(images, np.ndarray) or not isinstance(labels, list):
        raise ValueError(f"it lacks 'data' or '{edition.key}'")
    if images.shape != (len(labels), math.prod(_IMAGE)) or not all(isinstance(label, int) for label in labels):
        raise ValueError(f"its {len(labels)} labels do not fit images of shape {images.shape}")
    return images.reshape(-1, *_IMAGE), np.array(labels, dtype=np.int64)


def _binary(content: bytes, edition: Edition) -> tuple[Array, Array]:
    size = edition.labels + math.prod(_IMAGE)
    if not content or len(content) % size:
        raise ValueError(f"its {len(content)} bytes are no images of {size} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    return records[:, edition.labels :].reshape(-1, *_IMAGE), records[:, edition.labels - 1].astype(np.int64)


def _joined(arrays: list[Array]) -> Array:
    return np.concatenate(arrays)


def find_mnist(context: Context) -> Pairs | None:
    """``train`` and ``test`` from idx files, packed or not: images ``(n, 28, 28)`` and digits."""
    pairs: Pairs = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        paths = [_idx_path(context.data_folder, f"{stem}-{what}") for what in ("images-idx3", "labels-idx1")]
        if None in paths:
            return None
        images, labels = (_read_idx(path) for path in paths if path is not None)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise TaskError(f"{paths[0]} and {paths[1]} do not belong together: download them again")
        pairs[part] = images, labels
    return pairs


def _idx_path(folder: Path, stem: str) -> Path | None:
    places = (folder / "MNIST" / "raw", folder / "mnist", folder / "raw", folder)
    files = (place / f"{name}{suffix}" for place in places for name in _spellings(stem) for suffix in ("", ".gz"))
    return next((path for path in files if path.is_file()), None)


def _spellings(stem: str) -> tuple[str, str]:
    return f"{stem}-ubyte", f"{stem.replace('-idx', '.idx')}-ubyte"


def _read_idx(path: Path) -> Array:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = _limited(file)
        axes = content[3] if content[:3] == b"\0\0\x08" else 0
        if not axes:
            raise ValueError("it is not in the idx format")
        shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
        if math.prod(shape) != len(content) - 4 - 4 * axes:
            raise ValueError("its size is not what it says")
    except (*_DAMAGED, struct.error, IndexError) as error:
        raise TaskError(f"{path} is not a readable idx file ({error}): download it again") from None
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
