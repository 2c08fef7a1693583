"""Sentence classification (Kim 2014, section 3): seven sets, every word as its vector.

A sentence becomes ``(100, length)``: the vectors of its words as channels, one word a position, zeros behind the last.
The vectors are given and stay as they are (Kim's "static" network).
"""

import re
import zlib

import numpy as np
import torch
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.source import Context, Pairs, Source, divided, named, stored_arrays, stored_file, tasks
from eclose.tasks.splits import divide

Vectors = NDArray[np.float16]
_FOLDS = 10
_SHARES = {"train": 0.9, "val": 0.1}  # of what does not test
_LENGTH = 64  # words; 67 of all 62463 sentences are longer
_VECTORS = "sentences/word_vectors_100d.npz"
_WORD = re.compile(r"n't|'(?:s|ve|re|d|ll|m)\b|[a-z0-9]+(?:-[a-z0-9]+)*|[^\sa-z0-9]")


@tasks.register("mr")
def mr(context: Context, *, fold: int = 0, length: int = _LENGTH) -> Source:
    """MR: movie reviews of one sentence, positive or negative; 10 folds. From sentences/MR.npz."""
    return _folded(context, "MR", fold, length)


@tasks.register("cr")
def cr(context: Context, *, fold: int = 0, length: int = _LENGTH) -> Source:
    """CR: customer reviews of products, positive or negative; 10 folds. From sentences/CR.npz."""
    return _folded(context, "CR", fold, length)


@tasks.register("mpqa")
def mpqa(context: Context, *, fold: int = 0, length: int = _LENGTH) -> Source:
    """MPQA: opinions of a few words, positive or negative; 10 folds. From sentences/MPQA.npz."""
    return _folded(context, "MPQA", fold, length)


@tasks.register("subj")
def subj(context: Context, *, fold: int = 0, length: int = _LENGTH) -> Source:
    """Subj: sentences that are subjective or objective; 10 folds. From sentences/SUBJ.npz."""
    return _folded(context, "SUBJ", fold, length)


@tasks.register("sst-1")
def sst1(context: Context, *, length: int = _LENGTH) -> Source:
    """SST-1: sentences of movie reviews, from very negative to very positive in 5 classes. From sentences/SST1.npz."""
    return _divided(context, "SST1", ("train", "dev", "test"), length)


@tasks.register("sst-2")
def sst2(context: Context, *, length: int = _LENGTH) -> Source:
    """SST-2: sentences of movie reviews, positive or negative, without neutral ones. From sentences/SST2.npz."""
    return _divided(context, "SST2", ("train", "dev", "test"), length)


@tasks.register("trec")
def trec(context: Context, *, length: int = _LENGTH) -> Source:
    """TREC: questions by what they ask for, 6 classes. From sentences/TREC.npz."""
    return _divided(context, "TREC", ("train", "test"), length)


def _folded(context: Context, name: str, fold: int, length: int) -> Source:
    """One fold tests, a tenth of the others validates."""
    if not 0 <= fold < _FOLDS:
        raise TaskError(f"task.fold is {fold}, but must lie between 0 and {_FOLDS - 1}")
    x, y = _read(context, name, ("all",), length)["all"]
    folds = divide(len(y), {str(number): 1 / _FOLDS for number in range(_FOLDS)}, torch.from_numpy(y))
    test = folds.pop(str(fold)).numpy()
    others = np.sort(np.concatenate([rows.numpy() for rows in folds.values()]))
    return _source({**divided(x[others], y[others], _SHARES), "test": (x[test], y[test])})


def _divided(context: Context, name: str, parts: tuple[str, ...], length: int) -> Source:
    """The published parts; without one for validation that is a tenth of the training sentences."""
    pairs = _read(context, name, parts, length)
    if "dev" in pairs:
        return _source({"train": pairs["train"], "val": pairs["dev"], "test": pairs["test"]})
    return _source({**divided(*pairs["train"], _SHARES), "test": pairs["test"]})


def _source(pairs: Pairs) -> Source:
    return Source(named(pairs), Reading(kind="classification", axes=1, channels="first"))


def _read(context: Context, name: str, parts: tuple[str, ...], length: int) -> Pairs:
    """Sentences as vectors ``(n, channels, length)``, and their classes, by part."""
    if not 1 <= length <= 1024:
        raise TaskError(f"task.length is {length}, but must lie between 1 and 1024: words of a sentence that are kept")
    relative = f"sentences/{name}.npz"
    content = "arrays " + ", ".join(f"{part}_text and {part}_labels" for part in parts) + ", see docs/guide/data.md"
    path = stored_file(context, relative, content)
    data = stored_arrays(path, tuple(f"{part}_{what}" for part in parts for what in ("text", "labels")))
    vectors = _Vectors(context)
    pairs: Pairs = {}
    for part in parts:
        lines, labels = _lines(data[f"{part}_text"], str(path)), data[f"{part}_labels"].astype(np.int64)
        if len(lines) != len(labels):
            raise TaskError(f"{path}: '{part}_text' has {len(lines)} lines, but '{part}_labels' {len(labels)} labels")
        pairs[part] = vectors.of([words(line)[:length] for line in lines], length), labels
    return pairs


def _lines(text: Array, path: str) -> list[str]:
    try:
        return text.tobytes().decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise TaskError(f"{path} does not hold text in UTF-8: it is another file than the task needs") from None


def words(sentence: str) -> list[str]:
    """Words, numbers and signs in lower case, without the white space; ``isn't`` is ``is n't``."""
    return _WORD.findall(sentence.lower().replace("n't", " n't"))


class _Vectors:
    """The vector of every word. One that has none gets random numbers of the same spread, always the same ones."""

    def __init__(self, context: Context) -> None:
        path = stored_file(context, _VECTORS, "arrays vectors (n, channels) and words, newline-joined UTF-8 bytes")
        data = stored_arrays(path, ("vectors", "words"))
        known, vectors = _lines(data["words"], str(path)), data["vectors"]
        if vectors.ndim != 2 or len(vectors) != len(known) or vectors.dtype.kind != "f":
            raise TaskError(
                f"{path}: 'vectors' is {vectors.dtype} {vectors.shape}, but must be floats ({len(known)}, channels)"
            )
        self._table: Vectors = vectors.astype(np.float16)
        self._rows = {word: row for row, word in enumerate(known)}
        self._spread = float(self._table.astype(np.float32).std())

    def of(self, sentences: list[list[str]], length: int) -> Vectors:
        """``(n, channels, length)``."""
        unknown = {word for sentence in sentences for word in sentence if word not in self._rows}
        new = {word: len(self._rows) + number for number, word in enumerate(sorted(unknown))}
        drawn = [self._random(word) for word in new]
        padding = np.zeros((1, self._table.shape[1]), np.float16)
        table = np.concatenate([self._table, *drawn, padding])
        rows = np.full((len(sentences), length), len(table) - 1)
        for number, sentence in enumerate(sentences):
            rows[number, : len(sentence)] = [self._rows.get(word, new.get(word, -1)) for word in sentence]
        return np.ascontiguousarray(table.T[:, rows].transpose(1, 0, 2))

    def _random(self, word: str) -> Vectors:
        rng = np.random.default_rng(zlib.crc32(word.encode()))
        return rng.normal(0.0, self._spread, (1, self._table.shape[1])).astype(np.float16)
