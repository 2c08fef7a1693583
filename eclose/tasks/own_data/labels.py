"""Labels of any make (names, numbers with gaps, one-hot rows) as classes 0 to K-1, and the way back to them."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array

Label = int | str  # as the user wrote it
Classes = tuple[Label, ...]  # the label of class 0, 1, ...

_BLOCK = 2**22  # values looked at together
_FEW = 20  # different whole numbers that floats may hold to look like labels
_SHOWN = 6
_ALL_IN_TRAINING = "every class must occur in training"


def is_text(array: object) -> bool:
    """Whether ``array`` holds strings, also as objects."""
    if isinstance(array, Tensor):
        return False
    try:
        values = np.asarray(array)
    except (ValueError, TypeError):
        return False
    if values.dtype.kind == "O":
        return values.size > 0 and all(isinstance(value, str) for value in values.flat)
    return values.dtype.kind in "SUT"


def number_names(arrays: Mapping[str, Array | Tensor], first: str) -> tuple[Mapping[str, Array | Tensor], Classes]:
    """Labels that are names as numbers, in the order of the names, which come back too; others as they are."""
    targets = [name for name in arrays if name.split("_")[0] == "y"]
    if not is_text(arrays[first]):
        for name in targets:
            if is_text(arrays[name]):
                raise TaskError(f"'{name}' holds text, but '{first}' numbers: give all labels in one way")
        return arrays, ()
    names = np.unique(_strings(first, arrays[first]))
    if "" in names:
        raise TaskError(f"'{first}' has an empty name as a label: name it, or leave those samples out")
    classes = tuple(names.tolist())
    numbered = {name: find_labels(name, arrays[name], classes, f"'{first}'", _ALL_IN_TRAINING) for name in targets}
    return {**arrays, **numbered}, classes


def find_labels(name: str, array: Array | Tensor, classes: Classes, known_to: str, way_out: str) -> Array:
    """The class number of every label; one that ``classes`` lacks is refused."""
    named = isinstance(classes[0], str)
    if named is not is_text(array):
        kind, other = ("names", "numbers") if named else ("numbers", "names")
        raise TaskError(f"'{name}' holds {other} as labels, {known_to} {kind}: give both in one way")
    values = _strings(name, array) if named else np.asarray(array)
    known: NDArray[np.generic] = np.array(classes)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    wrong = known[places] != values
    if wrong.any():
        label = values[wrong].flat[0].item()
        raise TaskError(f"'{name}' has the label {label!r}, which {known_to} does not have: {way_out}")
    return places


def _strings(name: str, array: Array | Tensor) -> NDArray[np.str_]:
    values = np.asarray(array)
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise TaskError(f"'{name}' holds bytes that are no text: decode them to strings first") from None
    return np.array(values.tolist(), dtype=str)


def number_labels(
    labels: dict[str, Tensor], first: str, names: Classes, sure: bool, kind: str
) -> tuple[dict[str, Tensor], Classes, list[str]]:
    """Whole numbers by array name as classes 0 to K-1, the labels they were, and what is doubtful about that."""
    quantities = {"classification": "regression", "segmentation": "dense"}[kind]
    values = _distinct(labels[first])
    count, total = len(values), labels[first].numel()
    if count == 1:
        only = repr(names[0]) if names else int(values[0])
        raise TaskError(
            f"'{first}' holds one class only ({only}): there is nothing to tell apart; "
            f"look at the labels, or use --kind {quantities}"
        )
    if count > max(2, total / 2) and not sure:
        raise TaskError(
            f"'{first}' has {count} different labels in {total} values: if they are quantities use --kind "
            f"{quantities}, if they are labels --kind {kind}"
        )
    for name, y in labels.items():
        unknown = _distinct(y)
        unknown = unknown[~torch.isin(unknown, values)]
        if len(unknown):
            raise TaskError(f"'{name}' has label {int(unknown[0])}, which '{first}' does not have: {_ALL_IN_TRAINING}")
    numbered = {name: _numbered(y, values) for name, y in labels.items()}
    gaps = count > 2 and int(values[-1] - values[0]) >= count
    doubt = (
        f"'{first}' has labels with gaps ({_listed(values)}), read as {count} classes; "
        f"if they are quantities, --kind {quantities} (--kind {kind} confirms)"
    )
    return numbered, names or tuple(values.tolist()), [doubt] if gaps and not sure else []


def is_one_hot(y: Tensor) -> bool:
    """Whether every row of ``y (N, k)`` has one 1 and zeros beside it."""
    if y.ndim != 2 or y.shape[1] < 2:
        return False
    return all(bool((((part == 0) | (part == 1)).all(1) & ((part == 1).sum(1) == 1)).all()) for part in _parts(y))


def looks_like_labels(y: Tensor) -> str:
    """The values of floats that are a few whole numbers, as text; empty where they are anything else."""
    if not y.is_floating_point() or (y.ndim == 2 and y.shape[1] > 1):
        return ""
    part = y[: max(1, _BLOCK // max(1, y[0].numel()))].float()
    if not bool((part == part.round()).all()):
        return ""
    values = part.unique()
    few = 2 <= len(values) <= _FEW and 2 * len(values) <= part.numel()
    return _listed(values, "{:.1f}") if few else ""


def _distinct(y: Tensor) -> Tensor:
    """All values, ascending. Labels are mostly small numbers, for which a list of those seen is far quicker."""
    low, high = int(y.min()), int(y.max())
    if high - low < _BLOCK:
        seen = torch.zeros(high - low + 1, dtype=torch.bool)
        for part in _parts(y.reshape(-1)):
            seen[part.long() - low] = True
        return seen.nonzero()[:, 0] + low
    return torch.cat([part.unique() for part in _parts(y.reshape(-1))]).unique().long()


def _numbered(y: Tensor, values: Tensor) -> Tensor:
    if int(values[0]) == 0 and int(values[-1]) == len(values) - 1:
        return y
    kind = torch.uint8 if len(values) <= 256 else torch.int64
    parts = [torch.searchsorted(values, part.long()).to(kind) for part in _parts(y.reshape(-1))]
    return torch.cat(parts).view(y.shape)


def _parts(values: Tensor) -> Iterator[Tensor]:
    yield from values.split(max(1, _BLOCK // max(1, values[0].numel())))


def _listed(values: Tensor, form: str = "{}") -> str:
    shown = [form.format(value) for value in values[:_SHOWN].tolist()]
    return ", ".join([*shown, *(["..."] if len(values) > _SHOWN else [])])
