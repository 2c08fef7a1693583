"""ImageNet (Russakovsky et al. 2015), or any images in the same folders: ``train/CLASS/*.JPEG``, ``val/CLASS/*.JPEG``.

Where such folders are not there, ImageNet's own archives will do as they are, and so will all validation images in one
folder: their classes come from the development kit, or from the list that Kaggle gives with them.
"""

import csv
import os
from pathlib import Path

import numpy as np

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array, read_arrays
from eclose.tasks.published.imagenet_archives import (
    KIT,
    SUFFIXES,
    TRAIN,
    VAL,
    Piece,
    by_class,
    train_pieces,
    val_pieces,
)
from eclose.tasks.published.imagenet_decoding import Labelled, decoded_once
from eclose.tasks.published.images import IMAGE_CLASSES
from eclose.tasks.source import Context, Source, tasks

_KAGGLE = "LOC_val_solution.csv"  # name of a validation image, its class and where it is in the image


@tasks.register("imagenet")
def imagenet(context: Context, *, size: int = 224, per_class: int = 0, val: int = 50) -> Source:
    """ImageNet (its archives, or any colour images in folders train/CLASS and val/CLASS), decoded once at one size.

    ``per_class`` training images of every class are kept (0: all). The last ``val`` of them validate, and the
    published validation images test, as their test images have no labels.
    """
    if size < 8 or val < 1 or per_class < 0 or 0 < per_class <= val:
        raise TaskError(
            f"task imagenet: size is {size} (8 or more), val {val} (1 or more), "
            f"per_class {per_class} (0, or more than val)"
        )
    root = _root(context.data_folder)
    known, published = _published(context, root)  # first: an archive for training is listed for minutes
    where, training = _training(context, root)
    _check_classes(where, list(training), known, published)
    parts: dict[str, Labelled] = {"train": [], "val": [], "test": []}
    for name, all_ in training.items():
        images = all_[: per_class or None]
        if len(images) <= val:
            raise TaskError(f"{where / name} has {len(images)} images, but task.val={val} of them validate")
        parts["train"] += [(image, name) for image in images[:-val]]
        parts["val"] += [(image, name) for image in images[-val:]]
        parts["test"] += [(image, name) for image in published[name]]
    folder = decoded_once(context, root, parts, size)
    labels: dict[str, Array] = {f"y_{part}": np.array([name for _, name in own]) for part, own in parts.items()}
    return Source({**read_arrays(folder, tuple(f"x_{part}" for part in parts)), **labels}, IMAGE_CLASSES)


def _root(folder: Path) -> Path:
    """The folder itself, or ``imagenet`` in it: the first with folders, or else with archives in their place."""
    for archives in (False, True):
        for root in (folder / "imagenet", folder):
            forms = (("train", TRAIN), ("val", VAL))
            if all((root / name).is_dir() or (archives and (root / archive).is_file()) for name, archive in forms):
                return root
    raise TaskError(
        f"there is no ImageNet in {folder}: put its folders imagenet/train/CLASS/*.JPEG and imagenet/val/CLASS/*.JPEG "
        f"there, or its archives imagenet/{TRAIN}, {VAL} and {KIT}, "
        "or name another folder with --data-dir or $ECLOSE_DATA"
    )


def _training(context: Context, root: Path) -> tuple[Path, dict[str, list[Piece]]]:
    """Where the images for training are, and those of every class."""
    train, archive = root / "train", root / TRAIN
    names = _folders(train)
    if not names and archive.is_file():
        return archive, train_pieces(context, archive)
    if len(names) < 2:
        raise TaskError(f"{train} has {len(names)} folders, but must have one for every class, and two or more")
    return train, {name: _images(train / name) for name in names}


def _published(context: Context, root: Path) -> tuple[Path, dict[str, list[Piece]]]:
    """What knows the classes of the validation images (folders, a list or the kit), and the images of every class."""
    val, archive, kit, listed = root / "val", root / VAL, root / KIT, root / _KAGGLE
    if names := _folders(val):
        return val, {name: _images(val / name) for name in names}
    images = _images(val)
    if images and listed.is_file():
        return listed, _by_list(images, listed)
    if images:
        return kit, by_class(images, val, kit)
    if archive.is_file():
        return kit, by_class(val_pieces(context, archive), archive, kit)
    return val, {}


def _by_list(images: list[Piece], path: Path) -> dict[str, list[Piece]]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [(row[0], row[1].split()[0]) for row in csv.reader(file) if row]
    except (OSError, ValueError, IndexError, csv.Error) as error:
        raise TaskError(f"{path} is not Kaggle's list of validation images ({error}): download it again") from None
    classes = dict(rows[1:])  # the first row names the columns
    found: dict[str, list[Piece]] = {name: [] for name in classes.values()}
    for image in images:
        if image.path.stem not in classes:
            raise TaskError(f"{path} does not have the class of {image}: download both again")
        found[classes[image.path.stem]].append(image)
    return found


def _check_classes(where: Path, names: list[str], known: Path, published: dict[str, list[Piece]]) -> None:
    if unknown := [name for name in names if name not in published]:
        if known.name not in (KIT, _KAGGLE):
            raise TaskError(f"{known} has no folder {unknown[0]!r}: both must have one folder for every class")
        raise TaskError(
            f"{where} has the class {unknown[0]!r}, which {known} does not know: "
            "download both again, or put the validation images into folders val/CLASS"
        )


def _folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []


def _images(folder: Path) -> list[Piece]:
    if not folder.is_dir():
        return []
    return sorted(Piece(Path(entry)) for entry in os.scandir(folder) if entry.name.lower().endswith(SUFFIXES))
