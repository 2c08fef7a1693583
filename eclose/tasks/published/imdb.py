"""IMDB reviews as bytes (Maas et al. 2011; *Text* of the Long Range Arena, Tay et al. 2020): is a film praised?"""

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.source import Context, Pairs, Source, hold_out, named, stored_arrays, stored_file, tasks

_LONGEST = 2**16  # bytes of a review; the longest published one has 14 thousand
_PARTS, _CLASSES = ("train", "test"), ("neg", "pos")


@tasks.register("imdb")
def imdb(context: Context, *, length: int = 4096, val: int = 2500) -> Source:
    """IMDB, 25000 + 25000 film reviews byte by byte: bad or good? From aclImdb or imdb/*.npz in the data folder."""
    if not 1 <= length <= _LONGEST:
        raise TaskError(f"task.length is {length}, but must lie between 1 and {_LONGEST}")
    pairs: Pairs = {part: (_tokens(reviews, length), reviews.labels) for part, reviews in _find(context).items()}
    return Source(named(hold_out(pairs, val, alike=True)), Reading(kind="classification", tokens=True, axes=1))


class _Reviews(NamedTuple):
    """Reviews one behind the other; review i is ``text[offsets[i] : offsets[i + 1]]``."""

    text: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int64]


def _find(context: Context) -> dict[str, _Reviews]:
    folder = context.data_folder
    for place in (folder, folder / "imdb"):
        for path in (place / "aclImdb", place / "aclImdb_v1.tar.gz"):
            if path.exists():
                return _from_texts(path)
    if not (folder / "imdb").is_dir():
        raise TaskError(
            f"there is no IMDB in {folder}: put aclImdb_v1.tar.gz there, packed or not, "
            "or name another folder with --data-dir or $ECLOSE_DATA"
        )
    content = "arrays text, offsets and labels, see docs/guide/data.md"
    return {part: _from_arrays(stored_file(context, f"imdb/imdb_{part}.npz", content)) for part in _PARTS}


def _from_arrays(path: Path) -> _Reviews:
    data = stored_arrays(path, ("text", "offsets", "labels"))
    text, offsets, labels = data["text"], data["offsets"].astype(np.int64), data["labels"].astype(np.int64)
    fits = text.dtype == np.uint8 and text.ndim == offsets.ndim == labels.ndim == 1 and len(offsets) == len(labels) + 1
    if not fits or offsets[0] != 0 or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
        raise TaskError(f"{path}: offsets, text and labels do not fit together: it is another file than the task needs")
    return _Reviews(text.astype(np.uint8), offsets, labels)


def _from_texts(path: Path) -> dict[str, _Reviews]:
    """From ``train/neg/0_3.txt`` ... of the folder or the archive that is usually downloaded."""
    texts: dict[tuple[str, str], dict[str, bytes]] = {(part, kind): {} for part in _PARTS for kind in _CLASSES}
    try:
        for name, text in _in_folder(path) if path.is_dir() else _in_archive(path):
            texts[name.parts[-3], name.parts[-2]][name.name] = text
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        reason = " ".join(str(error).split())  # tarfile lists what it tried, line by line
        raise TaskError(f"{path} is not a readable part of IMDB ({reason}): download it again") from None
    for (part, kind), found in texts.items():
        if not found:
            raise TaskError(f"{path} has no texts in {part}/{kind}: it is not all of IMDB")
    return {part: _joined([texts[part, kind] for kind in _CLASSES]) for part in _PARTS}


def _in_folder(path: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    for part in _PARTS:
        for kind in _CLASSES:
            for file in (path / part / kind).glob("*.txt"):
                with open(file, "rb") as stream:
                    yield PurePosixPath(part, kind, file.name), stream.read(_LONGEST)


def _in_archive(path: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            wanted = name.suffix == ".txt" and len(name.parts) >= 3
            if wanted and name.parts[-3] in _PARTS and name.parts[-2] in _CLASSES and member.isfile():
                stream = archive.extractfile(member)
                yield name, stream.read(_LONGEST) if stream else b""


def _joined(kinds: list[dict[str, bytes]]) -> _Reviews:
    texts = [found[name] for found in kinds for name in sorted(found)]
    labels = np.repeat(np.arange(len(kinds)), [len(found) for found in kinds])
    offsets = np.cumsum([0, *map(len, texts)])
    return _Reviews(np.frombuffer(b"".join(texts), np.uint8), offsets, labels)


def _tokens(reviews: _Reviews, length: int) -> NDArray[np.uint8]:
    """The first ``length`` bytes of every review; a token is a byte, and 0 fills up short ones."""
    starts, ends = reviews.offsets[:-1], reviews.offsets[1:]
    tokens = np.zeros((len(starts), length), np.uint8)
    for row, start, end in zip(tokens, starts, np.minimum(ends, starts + length), strict=True):
        row[: end - start] = reviews.text[start:end]
    return tokens
