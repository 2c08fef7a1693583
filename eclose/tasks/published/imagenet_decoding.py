"""Images, decoded once, at one size, into arrays in the cache.

From there a training reads them batch by batch, as it reads every array that is larger than the memory.
"""

import hashlib
import json
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.runs import atomic_path, cache_folder
from eclose.tasks.published.imagenet_archives import Piece
from eclose.tasks.source import Context

_AT_ONCE = 256  # images decoded between two reports of progress
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")  # whatever a name says; others may start programs, as EPS does

Labelled = list[tuple[Piece, str]]  # image and class


def decoded_once(context: Context, root: Path, parts: dict[str, Labelled], size: int) -> Path:
    """The folder of the cache that has ``x_train.npy``, ..., decoded now unless they are there."""
    folder = cache_folder() / "decoded" / f"imagenet-{size}-{_digest(root, parts, size)[:16]}"
    missing = [part for part in parts if not (folder / f"x_{part}.npy").is_file()]
    total, done = sum(len(parts[part]) for part in missing), 0
    _check_room(folder, total * 3 * size**2)
    for part in missing:
        with atomic_path(folder / f"x_{part}.npy") as temporary:
            shape = (len(parts[part]), 3, size, size)
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            for place, image in enumerate(_decode_all([piece for piece, _ in parts[part]], size)):
                if done % _AT_ONCE == 0:
                    context.progress(done, total)
                array[place] = image
                done += 1
            array.flush()
            del array
    return folder


def _digest(root: Path, parts: dict[str, Labelled], size: int) -> str:
    """Of all that the decoded images follow from: another one for files that were replaced under their names."""
    digest = hashlib.sha256(json.dumps([str(root.resolve()), size]).encode())
    stamps: dict[Path, tuple[int, int]] = {}
    for part, own in parts.items():
        for piece, _ in own:
            if piece.path not in stamps:
                stamps[piece.path] = _stamp(piece)
            place = str(piece.path.relative_to(root))
            digest.update(json.dumps([part, place, *stamps[piece.path], piece.start, piece.size]).encode())
    return digest.hexdigest()


def _stamp(piece: Piece) -> tuple[int, int]:
    """Size and time of its file."""
    try:
        status = piece.path.stat()
    except OSError as error:
        raise _no_image(piece, error) from None
    if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
        raise _no_image(piece, "it is not a file")
    return status.st_size, status.st_mtime_ns


def _check_room(folder: Path, bytes: int) -> None:
    there = next(path for path in folder.parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if bytes > free:
        raise TaskError(
            f"the decoded images need {bytes / 1e9:.3g} GB, but {there} has {free / 1e9:.3g} GB left: "
            "lower task.size or task.per_class, or put the cache on another disk with $ECLOSE_CACHE"
        )


def _decode_all(pieces: list[Piece], size: int) -> Iterator[NDArray[np.uint8]]:
    """The images in their order, several at a time."""
    with ThreadPoolExecutor() as pool:
        for first in range(0, len(pieces), _AT_ONCE):
            yield from pool.map(lambda piece: _decode(piece, size), pieces[first : first + _AT_ONCE])


def _decode(piece: Piece, size: int) -> NDArray[np.uint8]:  # (3, size, size)
    """The largest square around the middle, in this size."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise TaskError("the task imagenet reads images with Pillow: pip install pillow") from None
    try:
        with Image.open(piece.read() if piece.name else piece.path, formats=_FORMATS) as image:
            image.draft("RGB", (size, size))
            fitted = ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
            return np.asarray(fitted, dtype=np.uint8).transpose(2, 0, 1)
    except UnidentifiedImageError:  # its text has the path again, or the address of the bytes
        raise _no_image(piece, "of no known format") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _no_image(piece, error) from None


def _no_image(piece: Piece, reason: object) -> TaskError:
    way_out = "download the archive again" if piece.name else "replace or remove it"
    return TaskError(f"{piece} is not an image that Pillow can read ({reason}): {way_out}")
