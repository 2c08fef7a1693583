"""The archives of ILSVRC2012 as they are downloaded: images by their place in a tar, classes from the development kit.

Nothing is unpacked onto the disk, and no name in an archive is ever opened as a path.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array
from eclose.tasks.published.matlab import read_structs
from eclose.tasks.source import Context, Progress, kept

TRAIN, VAL, KIT = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar", "ILSVRC2012_devkit_t12.tar.gz"
SUFFIXES = (".jpeg", ".jpg", ".png")

_TABLE, _LIST = "meta.mat", "ILSVRC2012_validation_ground_truth.txt"  # of the kit
_BLOCK = 512  # bytes, by which a tar counts
_LARGEST_IMAGE = 64 * 2**20  # bytes; those meant have about a tenth of a million
_LARGEST_KIT = 256 * 2**20  # bytes of the whole kit, unpacked
_LARGEST_LIST = 16 * 2**20  # bytes of either file of the kit that is read
_MOST = 4_000_000  # images of an archive; that for training has 1.28 million
_WITHOUT_CONTENT = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)
_DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)


class Piece(NamedTuple):
    """An image: a file, or a part of an archive."""

    path: Path
    name: str = ""  # in the archive
    start: int = 0
    size: int = -1

    def __str__(self) -> str:
        return f"{self.name!r} in {self.path}" if self.name else str(self.path)

    def read(self) -> io.BytesIO:
        """Its bytes. The file of an archive is just a file here: nothing of it is listed again."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            return io.BytesIO(file.read(self.size))


def train_pieces(context: Context, path: Path) -> dict[str, list[Piece]]:
    """The images of every class, in the order of their names, from an archive that has one archive for each."""
    found: dict[str, list[Piece]] = {}
    for name, piece in _listed(context, path, nested=True):
        found.setdefault(name, []).append(piece)
    if len(found) < 2:
        raise _unreadable(path, f"it has the images of {len(found)} classes")
    return found


def val_pieces(context: Context, path: Path) -> list[Piece]:
    """The images in the order of their names."""
    return [piece for _, piece in _listed(context, path, nested=False)]


def by_class(pieces: list[Piece], where: Path, kit: Path) -> dict[str, list[Piece]]:
    """Validation images, which are all in ``where``, by the classes that the development kit says they have.

    The kit lists the classes of image 1, 2, ...; every class that it knows is there, with or without images.
    """
    if not kit.is_file():
        raise TaskError(f"{kit} is missing: it has the classes of the images in {where}, put it there, too")
    try:
        names, classes = _read_kit(kit)
    except _DAMAGED as error:
        raise _unreadable(kit, error) from None
    if len(pieces) != len(classes):
        raise TaskError(
            f"{where} has {len(pieces)} images, but {kit} has the classes of {len(classes)}: download both again"
        )
    found: dict[str, list[Piece]] = {name: [] for name in names}
    for number, (piece, name) in enumerate(zip(pieces, classes, strict=True), 1):
        # One image too few and another too many would give all between them the class of their neighbour.
        if not (Path(piece.name).stem or piece.path.stem).endswith(f"{number:08d}"):
            raise TaskError(f"{piece} is not image {number:08d}, whose class {kit} has there: download {where} again")
        found[name].append(piece)
    return found


def _unreadable(path: Path, reason: object) -> TaskError:
    return TaskError(f"{path} is not a readable part of ImageNet ({reason}): download it again")


def _listed(context: Context, path: Path, nested: bool) -> Iterator[tuple[str, Piece]]:
    """Class and image, in order. To list a million images takes minutes, so their places are kept in the cache."""
    status = path.stat()
    known = {"archive": str(path.resolve()), "size": status.st_size, "time": status.st_mtime_ns}
    index = kept("imagenet-archive", known, lambda: _index(path, nested, context.progress))
    for (start, size), row in zip(index["x"].tolist(), index["y"].tolist(), strict=True):
        folder, _, name = row.decode().partition("/")
        yield folder, Piece(path, name, start, size)


def _index(path: Path, nested: bool, progress: Progress) -> dict[str, Array]:
    """Start and size of every image (x), its class and name (y)."""
    rows: list[tuple[str, int, int]] = []
    try:
        with open(path, "rb") as file:
            for row in _images(file, path.stat().st_size, nested, progress):
                rows.append(row)
                if len(rows) > _MOST:
                    raise ValueError("it has far too many files")
                if row[2] > _LARGEST_IMAGE:
                    raise ValueError(f"its file {row[0]!r} is far too large")
        if not rows:
            raise ValueError("it has no images")
    except _DAMAGED as error:
        raise _unreadable(path, error) from None
    rows.sort()
    return {"x": np.array([row[1:] for row in rows], np.int64), "y": np.array([row[0].encode() for row in rows])}


def _images(file: IO[bytes], end: int, nested: bool, progress: Progress) -> Iterator[tuple[str, int, int]]:
    """``class/name``, start and size of every image; without archives inside, the class is empty."""
    for outer, start, size in _members(file, 0, end):
        if nested and outer.endswith(".tar"):
            progress(start, end)
            for name, place, length in _members(file, start, start + size):
                if name.lower().endswith(SUFFIXES):
                    yield f"{outer.removesuffix('.tar')}/{name}", place, length
        elif not nested and outer.lower().endswith(SUFFIXES):
            yield f"/{outer}", start, size


def _members(file: IO[bytes], at: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Name (without folders), start and size of every plain file of the tar between two places of a file.

    Each step goes forward and stays inside, whatever the headers say. ``tarfile.open`` promises neither, and takes a
    damaged header for the end.
    """
    while True:
        file.seek(at)
        header = file.read(_BLOCK) if at + _BLOCK <= end else b""
        if header == bytes(_BLOCK):
            return
        if len(header) < _BLOCK:
            raise ValueError("it ends too early")
        member = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        size = 0 if member.type in _WITHOUT_CONTENT else member.size
        start = at + _BLOCK
        if not 0 <= size <= end - start:
            raise ValueError("it ends too early")
        if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
            yield member.name.rpartition("/")[2], start, size
        at = start + size + -size % _BLOCK


def _read_kit(path: Path) -> tuple[list[str], list[str]]:
    """All classes, and the class of every validation image."""
    with gzip.open(path) as file:
        content = file.read(_LARGEST_KIT + 1)
    if len(content) > _LARGEST_KIT:
        raise ValueError("it unpacks to far too much")
    files: dict[str, bytes] = {}
    for name, start, size in _members(io.BytesIO(content), 0, len(content)):
        if name in (_TABLE, _LIST):
            if size > _LARGEST_LIST:
                raise ValueError(f"its file '{name}' is far too large")
            files[name] = content[start : start + size]
    if missing := [name for name in (_TABLE, _LIST) if name not in files]:
        raise ValueError(f"it has no file '{missing[0]}'")
    try:
        names = _wordnet_names(files[_TABLE])
    except (ValueError, OverflowError) as error:
        raise ValueError(f"its {_TABLE}: {error}") from None
    numbers = files[_LIST].split()
    if unknown := [number for number in numbers if number not in names]:
        raise ValueError(f"its {_LIST} has {unknown[0][:20].decode('ascii', 'replace')!r}, which its {_TABLE} lacks")
    return list(names.values()), [names[number] for number in numbers]


def _wordnet_names(table: bytes) -> dict[bytes, str]:
    """The names of classes, which are also those of their folders, by number (in digits)."""
    found = {}
    for number, codes in read_structs(table, "synsets", ("ILSVRC2012_ID", "WNID")):
        name = "".join(chr(code) for code in codes if isinstance(code, int))
        if len(number) != 1 or not (name.isascii() and name.isalnum()):
            raise ValueError(f"it has a class without a number or a name ({name[:20]!r})")
        found[b"%d" % number] = name
    return found
