"""ImageNet (Russakovsky et al. 2015), or any images in the same folders: ``train/CLASS/*.JPEG``, ``val/CLASS/*.JPEG``.

The images are decoded once, at one size, into arrays in the cache. From there a training reads them batch by batch, as
it reads every array that is larger than the memory.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.runs import atomic_path, cache_folder
from eclose.tasks.own_data.files import Array, read_arrays
from eclose.tasks.published.images import IMAGE_CLASSES
from eclose.tasks.source import Context, Source, tasks

_SUFFIXES = {".jpeg", ".jpg", ".png"}
_AT_ONCE = 256  # images decoded between two reports of progress

Labelled = list[tuple[Path, str]]  # file and class


@tasks.register("imagenet")
def imagenet(context: Context, *, size: int = 224, per_class: int = 0, val: int = 50) -> Source:
    """ImageNet, or any colour images in folders train/CLASS and val/CLASS, decoded once at one size.

    ``per_class`` training images of every class are kept (0: all). The last ``val`` of them validate, and the
    published validation images test, as their test images have no labels.
    """
    if size < 8 or val < 1 or per_class < 0 or 0 < per_class <= val:
        raise TaskError(
            f"task imagenet: size is {size} (8 or more), val {val} (1 or more), "
            f"per_class {per_class} (0, or more than val)"
        )
    root = _root(context.data_folder)
    classes = _classes(root / "train")
    parts: dict[str, Labelled] = {"train": [], "val": [], "test": []}
    for name in classes:
        images = _images(root / "train" / name)[: per_class or None]
        if len(images) <= val:
            raise TaskError(f"{root / 'train' / name} has {len(images)} images, but task.val={val} of them validate")
        parts["train"] += [(path, name) for path in images[:-val]]
        parts["val"] += [(path, name) for path in images[-val:]]
        parts["test"] += [(path, name) for path in _images(root / "val" / name)]
    folder = _packed(context, root, parts, size)
    labels: dict[str, Array] = {f"y_{part}": np.array([name for _, name in own]) for part, own in parts.items()}
    return Source({**read_arrays(folder, tuple(f"x_{part}" for part in parts)), **labels}, IMAGE_CLASSES)


def _root(folder: Path) -> Path:
    """The folder itself, or ``imagenet`` in it."""
    for root in (folder / "imagenet", folder):
        if (root / "train").is_dir() and (root / "val").is_dir():
            return root
    raise TaskError(
        f"there is no ImageNet in {folder}: put its folders imagenet/train/CLASS/*.JPEG and imagenet/val/CLASS/*.JPEG "
        "there, or name another folder with --data-dir or $ECLOSE_DATA"
    )


def _classes(train: Path) -> list[str]:
    """Names of the classes: those of the folders in ``train``, which ``val`` must have, too."""
    names = sorted(entry.name for entry in os.scandir(train) if entry.is_dir())
    missing = [name for name in names if not (train.parent / "val" / name).is_dir()]
    if len(names) < 2 or missing:
        lack = f"has no folder '{missing[0]}'" if missing else f"needs two folders or more beside {train}"
        raise TaskError(f"{train.parent / 'val'} {lack}: both must have one folder for every class")
    return names


def _images(folder: Path) -> list[Path]:
    return sorted(Path(entry) for entry in os.scandir(folder) if Path(entry).suffix.lower() in _SUFFIXES)


def _packed(context: Context, root: Path, parts: dict[str, Labelled], size: int) -> Path:
    """The folder of the cache that has ``x_train.npy``, ..., decoded now unless they are there."""
    listed = {part: [str(path.relative_to(root)) for path, _ in own] for part, own in parts.items()}
    digest = hashlib.sha256(json.dumps([str(root.resolve()), size, listed]).encode()).hexdigest()
    folder = cache_folder() / "decoded" / f"imagenet-{size}-{digest[:16]}"
    missing = [part for part in parts if not (folder / f"x_{part}.npy").is_file()]
    total, done = sum(len(parts[part]) for part in missing), 0
    _check_room(folder, total * 3 * size**2)
    for part in missing:
        with atomic_path(folder / f"x_{part}.npy") as temporary:
            shape = (len(parts[part]), 3, size, size)
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            for place, image in enumerate(_decoded([path for path, _ in parts[part]], size)):
                if done % _AT_ONCE == 0:
                    context.progress(done, total)
                array[place] = image
                done += 1
            array.flush()
            del array
    return folder


def _check_room(folder: Path, bytes: int) -> None:
    there = next(path for path in folder.parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if bytes > free:
        raise TaskError(
            f"the decoded images need {bytes / 1e9:.3g} GB, but {there} has {free / 1e9:.3g} GB left: "
            "lower task.size or task.per_class, or put the cache on another disk with $ECLOSE_CACHE"
        )


def _decoded(paths: list[Path], size: int) -> Iterator[NDArray[np.uint8]]:
    """The images in their order, several at a time."""
    with ThreadPoolExecutor() as pool:
        for first in range(0, len(paths), _AT_ONCE):
            yield from pool.map(lambda path: _decode(path, size), paths[first : first + _AT_ONCE])


def _decode(path: Path, size: int) -> NDArray[np.uint8]:  # (3, size, size)
    """The largest square around the middle, in this size."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise TaskError("the task imagenet reads images with Pillow: pip install pillow") from None
    try:
        with Image.open(path) as image:
            image.draft("RGB", (size, size))
            fitted = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
            return np.asarray(fitted, dtype=np.uint8).transpose(2, 0, 1)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise TaskError(f"{path} is not an image that Pillow can read ({error}): replace or remove it") from None
