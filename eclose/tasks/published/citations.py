"""Pairs of papers (Radev et al. 2013; *Retrieval* of the Long Range Arena): does one cite the other?

The files are those of the arena's release, ``new_aan_pairs.train.tsv`` ...: label, two numbers and two texts a line.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.source import Context, Pairs, Source, named, tasks

_FILES = {part: f"new_aan_pairs.{word}.tsv" for part, word in (("train", "train"), ("val", "eval"), ("test", "test"))}
_COLUMNS = 5
_LONGEST = 2**16


@tasks.register("aan")
def aan(context: Context, *, length: int = 4000) -> Source:
    """Two papers byte by byte, one behind the other: does one cite the other? From new_aan_pairs.*.tsv."""
    if not 1 <= length <= _LONGEST:
        raise TaskError(f"task.length is {length}, but must lie between 1 and {_LONGEST}")
    folder = _folder(context)
    pairs: Pairs = {part: _read(folder / name, length) for part, name in _FILES.items()}
    return Source(named(pairs), Reading(kind="classification", tokens=True, axes=1))


def _folder(context: Context) -> Path:
    places = (context.data_folder, *(context.data_folder / name for name in ("aan", "lra_release", "tsv_data")))
    for place in places:
        if (place / _FILES["train"]).is_file():
            return place
    raise TaskError(
        f"there is no AAN in {context.data_folder}: put {', '.join(_FILES.values())} of the Long Range Arena there, "
        "or name another folder with --data-dir or $ECLOSE_DATA"
    )


def _read(path: Path, length: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Tokens ``(n, 2 * length)``, a byte each and 0 behind short texts, and labels."""
    texts, labels = [], []
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                cells = line.rstrip(b"\r\n").split(b"\t")
                if len(cells) != _COLUMNS:
                    raise TaskError(
                        f"{path}, line {number}: {len(cells)} columns, but there must be {_COLUMNS} (label, two "
                        "numbers, two texts): download it again"
                    )
                labels.append(_label(path, number, cells[0]))
                texts.append(b"".join(text[:length].ljust(length, b"\0") for text in cells[3:]))
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from None
    if not texts:
        raise TaskError(f"{path} is empty: download it again")
    return np.frombuffer(b"".join(texts), np.uint8).reshape(-1, 2 * length), np.array(labels)


def _label(path: Path, number: int, text: bytes) -> int:
    labels = {b"0": 0, b"0.0": 0, b"1": 1, b"1.0": 1}
    if (word := text.strip(b'" ')) not in labels:
        raise TaskError(f"{path}, line {number}: the label is {text!r}, but must be 0 or 1: download it again")
    return labels[word]
