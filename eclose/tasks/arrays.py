"""From arrays to a task: which axis is what, what is to be learned, and whether the values make sense."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eclose.errors import TaskError
from eclose.signature import KINDS, Signature
from eclose.tasks.files import NAMES, Array
from eclose.tasks.scale import blocks, measure_scale
from eclose.tasks.splits import SHARES, divide
from eclose.tasks.task import Split, Task, widened


@dataclass(frozen=True)
class Reading:
    """How arrays are to be understood; empty values are read off the arrays."""

    kind: str = ""
    tokens: bool = False
    axes: int = 0
    standardise: bool = True


def task_from_arrays(name: str, arrays: Mapping[str, Array | Tensor], reading: Reading) -> Task:
    """A task from ``x_train, y_train, ...`` or ``x, y``."""
    if reading.kind and reading.kind not in KINDS:
        raise TaskError(f"unknown kind '{reading.kind}'; known: {', '.join(KINDS)}")
    pairs = {part: _tensors(arrays, part) for part in _parts(arrays)}
    first = "train" if "train" in pairs else ""
    axes, kind = _understand(*pairs[first], reading)
    pairs = {part: _canonical(part, x, y, axes, kind, reading.tokens) for part, (x, y) in pairs.items()}
    _check_shapes(pairs, first)
    for part, (x, y) in pairs.items():
        _check_finite(_name("x", part), x)
        _check_finite(_name("y", part), y)
    signature = _signature(pairs, first, axes, kind, reading.tokens)
    splits = _splits(pairs, signature)
    scale = measure_scale(splits["train"], signature) if reading.standardise else None
    about = {"samples": {part: len(split) for part, split in splits.items()}}
    return Task(name, signature, splits["train"], splits["val"], splits.get("test"), scale, about)


def input_tensor(name: str, x: Array | Tensor, signature: Signature) -> Tensor:
    """A user's ``x`` for prediction, in the layout of ``signature``."""
    x = widened(to_tensor(name, x))
    wanted = signature.input_shape(1)[1:]
    if not signature.tokens and x.shape[1:] == signature.space and signature.channels == 1:
        x = x.unsqueeze(1)
    if tuple(x.shape[1:]) != wanted:
        got = " x ".join(map(str, x.shape[1:])) or "nothing"
        raise TaskError(f"{name} has samples of {got}, the network takes {' x '.join(map(str, wanted))}")
    if len(x) == 0:
        raise TaskError(f"{name} is empty: there is nothing to predict")
    if signature.tokens:
        _check_token_type(name, x)
        if int(x.min()) < 0 or int(x.max()) >= signature.vocabulary:
            raise TaskError(f"{name} has tokens outside 0..{signature.vocabulary - 1}, the vocabulary of training")
    _check_finite(name, x)
    return x


def _parts(arrays: Mapping[str, object]) -> list[str]:
    given = [name for name in NAMES if name in arrays]
    if "x" not in arrays and "x_train" not in arrays:
        found = ", ".join(sorted(map(str, arrays))) or "none"
        raise TaskError(f"no array 'x' or 'x_train' (found: {found}); see `eclose search --help`")
    first, parts = ("x", [""]) if "x" in arrays else ("x_train", ["train", "val", "test"])
    for name in given:
        array, _, part = name.partition("_")
        if part not in parts:
            way_out = "give x, y (to be split), or x_train, y_train, x_val ..."
            raise TaskError(f"both '{first}' and '{name}' are there: {way_out}")
        other = _name("y" if array == "x" else "x", part)
        if other not in arrays:
            raise TaskError(f"'{name}' is there but '{other}' is missing: give both or none")
    return [part for part in parts if _name("x", part) in arrays]


def _name(array: str, part: str) -> str:
    return f"{array}_{part}" if part else array


def _tensors(arrays: Mapping[str, Array | Tensor], part: str) -> tuple[Tensor, Tensor]:
    x_name, y_name = _name("x", part), _name("y", part)
    x, y = to_tensor(x_name, arrays[x_name]), widened(to_tensor(y_name, arrays[y_name]))
    if x.ndim == 0 or y.ndim == 0:
        raise TaskError(f"'{x_name if x.ndim == 0 else y_name}' is a single number, not an array of samples")
    if len(x) != len(y):
        raise TaskError(f"'{x_name}' has {len(x)} samples, '{y_name}' has {len(y)}: they must be as many")
    for name, values in ((x_name, x), (y_name, y)):
        if values.numel() == 0:
            raise TaskError(f"'{name}' is empty (shape {tuple(values.shape)}): give at least one sample with values")
    return x, y


def to_tensor(name: str, array: Array | Tensor) -> Tensor:
    """Numbers as a tensor, without copying where that is possible."""
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        if array.is_floating_point() or array.dtype in _WHOLE:
            return array
    try:
        array = np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise TaskError(f"'{name}' is not a rectangular array of numbers ({reason})") from None
    kind = array.dtype.kind
    if kind == "O":
        raise TaskError(f"'{name}' is an object array: store a rectangular array of numbers")
    if kind == "c":
        raise TaskError(f"'{name}' is complex: stack real and imaginary parts as channels")
    if kind not in "biuf":
        raise TaskError(
            f"'{name}' holds {array.dtype}, not numbers: convert it "
            "(labels: y = np.unique(y, return_inverse=True)[1] numbers them)"
        )
    if kind == "b":
        array = array.view(np.uint8)
    elif array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # what overflows is found as infinite later
            array = array.astype(np.float64)
    elif kind == "u" and array.dtype.itemsize > 2:
        if array.dtype.itemsize == 8 and array.size and int(array.max()) >= 2**63:
            raise TaskError(f"'{name}' has values of 2**63 and more: store it as float64, or renumber it")
        array = array.astype(np.int64)
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    usable = array.flags.writeable and all(s >= 0 and s % array.itemsize == 0 for s in array.strides)
    return torch.from_numpy(array if usable else array.copy())


_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _understand(x: Tensor, y: Tensor, reading: Reading) -> tuple[int, str]:
    """Number of space axes and kind, from the shapes of x and y.

    ``x (N, a, b)`` may be ``a`` channels of a signal or one channel of an ``a x b`` image. If y has the space
    axes of only one reading, that one is meant; otherwise equal axes are all space (8 x 8, 32 x 32 x 32) and
    unequal ones begin with the channels.
    """
    if reading.tokens:
        if x.is_floating_point() or x.ndim != 2:
            raise TaskError(f"--tokens needs integer x of shape (N, length), got {x.dtype} {tuple(x.shape)}")
        options = [1]
    else:
        sizes = tuple(x.shape[1:])
        if not 1 <= len(sizes) <= 4:
            raise TaskError(
                f"x has shape {tuple(x.shape)}: it must be (N, C, *space) or (N, *space), 1 to 3 space axes"
            )
        options = [axes for axes in (len(sizes) - 1, len(sizes)) if 1 <= axes <= 3]
        if len(options) == 2 and len(set(sizes)) == 1:
            options.reverse()
        if reading.axes:
            if reading.axes not in options:
                allowed = " or ".join(map(str, sorted(options)))
                raise TaskError(f"--axes {reading.axes} does not fit x of shape {tuple(x.shape)}: {allowed} would")
            options = [reading.axes]
    if reading.kind in ("classification", "regression"):
        return options[0], reading.kind
    fitting = [axes for axes in options if _has_space_axes(x, y, axes, reading.kind)]
    if y.ndim > 1 and fitting:
        kind = "dense" if y.is_floating_point() else "segmentation"
        return fitting[0], reading.kind or kind
    if reading.kind:
        raise TaskError(
            f"--kind {reading.kind} needs y with the space axes of x; x is {tuple(x.shape)}, y {tuple(y.shape)}"
        )
    flat = y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1)
    if y.is_floating_point() and y.ndim <= 2:
        return options[0], "regression"
    if flat:
        return options[0], "classification"
    raise TaskError(
        f"y of shape {tuple(y.shape)} ({y.dtype}) fits no kind for x of shape {tuple(x.shape)}: "
        "(N,) is classification or regression, (N, k) floats are regression, space axes as in x are dense"
    )


def _has_space_axes(x: Tensor, y: Tensor, axes: int, kind: str) -> bool:
    space = x.shape[x.ndim - axes :]
    channels = kind == "dense" or (not kind and y.is_floating_point())
    return y.shape[1:] == space or (channels and y.ndim == axes + 2 and y.shape[2:] == space)


def _canonical(part: str, x: Tensor, y: Tensor, axes: int, kind: str, tokens: bool) -> tuple[Tensor, Tensor]:
    """``x (N, C, *space)`` (tokens: ``(N, length)``) and y as :class:`Signature` says."""
    if tokens:
        x = widened(x)
        _check_token_type(_name("x", part), x)
    elif x.ndim == axes + 1:
        x = x.unsqueeze(1)
    wanted = 2 if tokens else axes + 2
    if x.ndim != wanted:
        raise TaskError(f"'{_name('x', part)}' has shape {tuple(x.shape)}, but the training data has {axes} space axes")
    name = _name("y", part)
    if kind == "classification" and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if kind in ("classification", "segmentation"):
        if y.ndim != (1 if kind == "classification" else axes + 1):
            raise _misfit(name, y, kind)
        return x, _labels(name, y)
    if kind == "regression" and y.ndim == 1:
        y = y.unsqueeze(1)
    if kind == "dense" and y.ndim == axes + 1:
        y = y.unsqueeze(1)
    if y.ndim != (2 if kind == "regression" else axes + 2):
        raise _misfit(name, y, kind)
    return x, y


def _misfit(name: str, y: Tensor, kind: str) -> TaskError:
    wanted = {
        "classification": "(N,) class numbers",
        "regression": "(N,) or (N, k) values",
        "dense": "(N, *space) or (N, k, *space) values",
        "segmentation": "(N, *space) class numbers",
    }
    return TaskError(f"'{name}' has shape {tuple(y.shape)}, which does not fit {kind}: it must be {wanted[kind]}")


def _check_token_type(name: str, x: Tensor) -> None:
    if x.is_floating_point():
        raise TaskError(f"'{name}' must hold token numbers (integers), got {x.dtype}")


def _labels(name: str, y: Tensor) -> Tensor:
    if y.is_floating_point():
        _check_finite(name, y)
        if bool((y != y.round()).any()):
            raise TaskError(f"'{name}' holds fractions, which are no class labels: use --kind regression (or dense)")
        y = y.clamp(-(2**62), 2**62).long()
    if int(y.min()) < 0:
        raise TaskError(
            f"'{name}' has label {int(y.min())}, but labels must be 0..K-1: "
            "y = np.unique(y, return_inverse=True)[1] renumbers them"
        )
    return y


def _check_shapes(pairs: dict[str, tuple[Tensor, Tensor]], first: str) -> None:
    for part, arrays in pairs.items():
        for array, given, wanted in zip("xy", arrays, pairs[first], strict=True):
            if given.shape[1:] != wanted.shape[1:]:
                raise TaskError(
                    f"samples of '{_name(array, part)}' have shape {tuple(given.shape[1:])}, "
                    f"those of '{_name(array, first)}' {tuple(wanted.shape[1:])}: they must be the same"
                )


def _check_finite(name: str, values: Tensor) -> None:
    if not values.is_floating_point():
        return
    for index in blocks(Split(values, values[:, :0] if values.ndim > 1 else values)):
        part = values[index]
        finite = torch.isfinite(part.float())  # networks compute in single precision
        if not bool(finite.all()):
            first = int((~finite.reshape(len(index), -1).all(1)).nonzero()[0, 0])
            where = f"first in sample {int(index[first])}"
            if bool(torch.isfinite(part[first]).all()):
                raise TaskError(f"'{name}' has values too large for single precision, {where}: rescale them")
            raise TaskError(f"'{name}' has NaN or infinite values, {where}: remove or fill them")


def _signature(pairs: dict[str, tuple[Tensor, Tensor]], first: str, axes: int, kind: str, tokens: bool) -> Signature:
    x, y = pairs[first]
    outputs = int(y.shape[1]) if kind in ("regression", "dense") else _classes(pairs, first)
    vocabulary = 0
    if tokens:
        if min(int(x.min()) for x, _ in pairs.values()) < 0:
            raise TaskError("x has negative token numbers: tokens count from 0")
        vocabulary = 1 + max(int(x.max()) for x, _ in pairs.values())
        if vocabulary > _VOCABULARY:
            raise TaskError(f"x has token numbers up to {vocabulary - 1}: renumber them with np.unique")
    channels = 1 if tokens else int(x.shape[1])
    return Signature(kind, channels, tuple(x.shape[x.ndim - axes :]), outputs, vocabulary)  # type: ignore[arg-type]


_VOCABULARY = 2**22  # more tokens than any tokeniser has, fewer than a table would fit in memory for


def _classes(pairs: dict[str, tuple[Tensor, Tensor]], first: str) -> int:
    y = pairs[first][1]
    classes = int(y.max()) + 1
    if classes > max(2, y.numel()):
        raise TaskError(
            f"'{_name('y', first)}' has labels up to {classes - 1} in {y.numel()} values: "
            "if they are quantities use --kind regression, if labels renumber them with np.unique"
        )
    for part, (_, other) in pairs.items():
        if int(other.max()) >= classes:
            raise TaskError(
                f"'{_name('y', part)}' has label {int(other.max())}, but '{_name('y', first)}' only 0..{classes - 1}: "
                "every class must occur in training"
            )
    return max(2, classes)


def _splits(pairs: dict[str, tuple[Tensor, Tensor]], signature: Signature) -> dict[str, Split]:
    dense = not signature.pooled
    splits = {part: Split(x, y, dense=dense) for part, (x, y) in pairs.items()}
    if "" in splits or set(splits) == {"train"}:
        shares = dict(SHARES)
    elif "val" not in splits:
        shares = {name: SHARES[name] for name in ("train", "val")}
    else:
        return splits
    whole = splits.pop("" if "" in splits else "train")
    labels = whole.y if signature.kind == "classification" else None
    parts = divide(len(whole), shares, labels)
    if any(len(rows) == 0 for rows in parts.values()):
        needed = next(n for n in itertools.count(len(whole)) if all(map(len, divide(n, shares).values())))
        raise TaskError(
            f"{len(whole)} samples are too few to split into {', '.join(parts)}: at least {needed} are needed"
        )
    return {**{name: whole.select(rows) for name, rows in parts.items()}, **splits}
