"""From arrays to a task: read as :mod:`eclose.tasks.own_data.reading` says, checked, split."""

import itertools
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from eclose.errors import TaskError
from eclose.plural import plural
from eclose.signature import Signature
from eclose.tasks.levels import differ_in_size
from eclose.tasks.own_data.doubts import constants, rare_classes, zero_targets
from eclose.tasks.own_data.files import NAMES, Array
from eclose.tasks.own_data.labels import Classes, find_labels, is_one_hot, is_text, number_labels, number_names
from eclose.tasks.own_data.reading import Reading, arrange, understand
from eclose.tasks.scale import measure_scale
from eclose.tasks.splits import SHARES, blocks, divide
from eclose.tasks.task import Layout, Split, Task, widened

NAME_THEM = "name them x and y, as in np.savez(path, x=..., y=...)"


def task_from_arrays(name: str, arrays: Mapping[str, Array | Tensor], reading: Reading) -> Task:
    """A task from ``x_train, y_train, ...`` or ``x, y``."""
    parts = _parts(arrays)
    first = parts[0]
    arrays, names = number_names(arrays, _name("y", first))
    if names and reading.kind in ("regression", "dense"):
        raise TaskError(f"'{_name('y', first)}' holds names such as '{names[0]}': --kind {reading.kind} needs numbers")
    pairs = {part: _tensors(arrays, part) for part in parts}
    given, (reading, doubts) = reading, understand(*pairs[first], reading)
    pairs = {
        part: (_canonical_x(_name("x", part), x, reading), _canonical_y(_name("y", part), y, reading))
        for part, (x, y) in pairs.items()
    }
    _check_shapes(pairs, first)
    for part, (x, y) in pairs.items():
        _check_finite(_name("x", part), x)
        _check_finite(_name("y", part), y)
    pairs, classes, gaps = _classes(pairs, first, reading.kind, names, bool(given.kind))
    signature = _signature(pairs, first, reading, len(classes))
    splits = _splits(pairs, signature)
    scale = measure_scale(splits["train"], signature, reading.standardise)
    about = {"samples": {part: len(split) for part, split in splits.items()}}
    layout = Layout(reading.channels, classes)
    told = [*doubts, *gaps, *constants(splits["train"], signature), *rare_classes(splits, signature, classes)]
    if scale is not None and scale.levels is not None and reading.standardise is True:
        told.append(differ_in_size(scale.levels))
    if zero := zero_targets(splits.values(), signature):
        told.append(
            f"{zero}: an error relative to zero means nothing, so mse is the loss and the metric where none is named"
        )
    parts_of_task = splits["train"], splits["val"], splits.get("test")
    return Task(name, signature, *parts_of_task, scale, about, layout, tuple(told), zero_targets=bool(zero))


def input_tensor(
    name: str, x: Array | Tensor, signature: Signature, layout: Layout, *, any_sizes: bool = False
) -> Tensor:
    """A user's ``x`` for prediction, as the network takes it. ``any_sizes``: perhaps finer than it was trained on."""
    x = widened(to_tensor(name, x))
    reading = Reading(tokens=signature.tokens, axes=signature.axes, channels=layout.channels)
    wanted = signature.input_shape(1)[1:]
    inputs = arrange(x, reading) if 2 <= x.ndim <= signature.axes + 2 else x
    # Without an axis of channels that training data had, fields of fewer axes would pass for it.
    plain = signature.tokens or layout.channels in ("", "none") or x.ndim == signature.axes + 2
    if any_sizes and plain and inputs.ndim == len(wanted) + 1:
        wanted = (*wanted[: -signature.axes], *inputs.shape[-signature.axes :])
    if tuple(inputs.shape[1:]) != wanted:
        if 1 <= x.ndim <= signature.axes + 1 and arrange(x[None], reading).shape == signature.input_shape(1):
            raise TaskError(f"{name} is a single sample: samples lie along the first axis, so give {name}[None]")
        got = " x ".join(map(str, x.shape[1:])) or "nothing"
        raise TaskError(f"{name} has samples of {got}, the network takes {' x '.join(map(str, wanted))}")
    if len(x) == 0:
        raise TaskError(f"{name} is empty: there is nothing to predict")
    if signature.tokens:
        _check_token_type(name, x)
        if int(x.min()) < 0 or int(x.max()) >= signature.vocabulary:
            raise TaskError(f"{name} has tokens outside 0..{signature.vocabulary - 1}, the vocabulary of training")
    _check_finite(name, inputs)
    return inputs.contiguous()


_LEARNED = ("the training data", "leave these samples out, or all answers, to predict without a score")


def target_tensor(name: str, y: Array | Tensor, signature: Signature, layout: Layout) -> Tensor:
    """A user's ``y`` beside that, as the metric takes it."""
    reading = Reading(signature.kind, axes=signature.axes, channels=layout.channels)
    classes = layout.classes or tuple(range(signature.outputs))
    if signature.labels and (isinstance(classes[0], str) or is_text(y)):
        y = find_labels(name, y, classes, *_LEARNED)
        classes = tuple(range(signature.outputs))
    target = _canonical_y(name, widened(to_tensor(name, y)), reading)
    _check_finite(name, target)
    wanted = signature.output_shape(1)[2 if signature.labels else 1 :]
    if tuple(target.shape[1:]) != wanted:
        got, wanted_text = (" x ".join(map(str, shape)) for shape in (target.shape[1:], wanted))
        raise TaskError(f"{name} has samples of {got}, the network answers with {wanted_text}")
    if signature.labels:
        return torch.from_numpy(find_labels(name, target.numpy(), classes, *_LEARNED))
    return target.float()


def _parts(arrays: Mapping[str, object]) -> list[str]:
    given = [name for name in NAMES if name in arrays]
    if "x" not in arrays and "x_train" not in arrays:
        found = ", ".join(sorted(map(str, arrays))) or "none"
        raise TaskError(f"no array 'x' or 'x_train' (found: {found}); {NAME_THEM}")
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
        raise TaskError(f"'{x_name}' has {plural(len(x), 'sample')}, '{y_name}' has {len(y)}: they must be as many")
    for name, values in ((x_name, x), (y_name, y)):
        if values.numel() == 0:
            raise TaskError(f"'{name}' is empty (shape {tuple(values.shape)}): give at least one sample with values")
    return x, y


def to_tensor(name: str, array: Array | Tensor) -> Tensor:
    """Numbers as a tensor, without copying where that is possible."""
    if np.ma.is_masked(array):
        raise TaskError(f"'{name}' has masked values: fill them (array.filled(0)), or leave those samples out")
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        if array.is_floating_point() or array.dtype in _WHOLE:
            return array
    try:
        array = np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise TaskError(f"'{name}' is not a rectangular array of numbers ({reason})") from None
    if array.dtype.kind == "O":
        array = _from_objects(name, array)
    kind = array.dtype.kind
    if kind == "c":
        raise TaskError(f"'{name}' is complex: stack real and imaginary parts as channels")
    if kind in "SUT":
        raise TaskError(f"'{name}' holds text such as '{array.flat[0]}', not numbers: write it as numbers")
    if kind not in "biuf":
        raise TaskError(f"'{name}' holds {array.dtype}, not numbers: convert it")
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


def _from_objects(name: str, array: Array) -> Array:
    """Numbers that came as objects, as columns of tables do."""
    odd = [value for value in array.flat if not isinstance(value, (int, float, np.number))]
    if text := next((value for value in odd if isinstance(value, str)), ""):
        raise TaskError(f"'{name}' holds text ('{text}') beside other things: give labels in one way, as y.astype(str)")
    if odd or not array.size:
        raise TaskError(f"'{name}' is an object array: store a rectangular array of numbers")
    return np.array(array.tolist())


_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _canonical_x(name: str, x: Tensor, reading: Reading) -> Tensor:
    """``(N, C, *space)``; tokens ``(N, length)``."""
    if reading.tokens:
        x = widened(x)
        _check_token_type(name, x)
    arranged = arrange(x, reading)
    if arranged.ndim != (2 if reading.tokens else reading.axes + 2):
        raise TaskError(f"'{name}' has shape {tuple(x.shape)}, but the training data has {reading.axes} space axes")
    return arranged


def _canonical_y(name: str, y: Tensor, reading: Reading) -> Tensor:
    """As :class:`Signature` says; labels are not numbered yet."""
    axes, kind = reading.axes, reading.kind
    if kind == "classification" and is_one_hot(y):
        return y.to(torch.uint8).argmax(1)
    if kind == "classification" and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if kind in ("classification", "segmentation"):
        if y.ndim != (1 if kind == "classification" else axes + 1):
            raise _misfit(name, y, kind)
        return _labels(name, y)
    if kind == "regression" and y.ndim == 1:
        y = y.unsqueeze(1)
    if kind == "dense" and y.ndim == axes + 1:
        y = y.unsqueeze(1)
    elif kind == "dense" and reading.channels == "last":
        y = y.movedim(-1, 1)
    if y.ndim != (2 if kind == "regression" else axes + 2):
        raise _misfit(name, y, kind)
    return y


def _misfit(name: str, y: Tensor, kind: str) -> TaskError:
    wanted = {
        "classification": "(N,) labels, or (N, k) one-hot rows",
        "regression": "(N,) or (N, k) values",
        "dense": "(N, *space) or (N, k, *space) values",
        "segmentation": "(N, *space) labels",
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


def _signature(pairs: dict[str, tuple[Tensor, Tensor]], first: str, reading: Reading, classes: int) -> Signature:
    x, y = pairs[first]
    outputs = classes or int(y.shape[1])
    vocabulary = 0
    if reading.tokens:
        if min(int(x.min()) for x, _ in pairs.values()) < 0:
            raise TaskError("x has negative token numbers: tokens count from 0")
        vocabulary = 1 + max(int(x.max()) for x, _ in pairs.values())
        if vocabulary > _VOCABULARY:
            raise TaskError(f"x has token numbers up to {vocabulary - 1}: renumber them with np.unique")
    channels = 1 if reading.tokens else int(x.shape[1])
    space = tuple(x.shape[x.ndim - reading.axes :])
    return Signature(reading.kind, channels, space, outputs, vocabulary)  # type: ignore[arg-type]


_VOCABULARY = 2**22  # more tokens than any tokeniser has, fewer than a table would fit in memory for


def _classes(
    pairs: dict[str, tuple[Tensor, Tensor]], first: str, kind: str, names: Classes, sure: bool
) -> tuple[dict[str, tuple[Tensor, Tensor]], Classes, list[str]]:
    """Labels numbered from 0, the labels they were, and doubts; none of it for quantities."""
    if kind not in ("classification", "segmentation"):
        return pairs, (), []
    labels = {_name("y", part): y for part, (_, y) in pairs.items()}
    numbered, classes, doubts = number_labels(labels, _name("y", first), names, sure, kind)
    return {part: (x, numbered[_name("y", part)]) for part, (x, _) in pairs.items()}, classes, doubts


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
        few = f"{plural(len(whole), 'sample')} {'is' if len(whole) == 1 else 'are'} too few"
        raise TaskError(f"{few} to split into {', '.join(parts)}: at least {needed} are needed")
    if labels is not None and len(labels) == signature.outputs > 1 and int(torch.bincount(labels).max()) == 1:
        raise TaskError(
            f"y has {signature.outputs} classes and one sample of each, so that none is left to judge a network by: "
            "give several samples of each class, or say --kind regression if y holds quantities"
        )
    return {**{name: whole.select(rows) for name, rows in parts.items()}, **splits}
