"""A few test samples and what every network made of them, from ``samples.safetensors`` to drawings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eclose.display.networks import COLOURS, GREY, Network
from eclose.display.samples.cards import (
    Card,
    Shown,
    class_card,
    class_name,
    image_scale,
    show_array,
    show_row,
    show_tokens,
    value_card,
)
from eclose.display.samples.fields import Field, Lines, class_field, class_strip, dense_field, dense_lines
from eclose.display.samples.pictures import Values, class_colours
from eclose.display.samples.signals import OUTPUTS, Answer
from eclose.display.wording import listed
from eclose.errors import RunError
from eclose.plural import plural
from eclose.signature import KINDS
from eclose.tasks import Layout
from eclose.train import load_tensors

_PREFIX = "prediction."
_MOST = 6
_HUGE = 1e150
_CLASSES = 12  # of a legend


@dataclass(frozen=True)
class Samples:
    """The drawn samples; one of the lists is filled."""

    cards: list[Card] = field(default_factory=list)
    lines: list[Lines] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    strips: list[Field] = field(default_factory=list)
    classes: list[tuple[str, str]] = field(default_factory=list)  # colour and name of class 0, 1, ...
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Loaded:
    """Arrays of the same samples, checked against each other."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    predictions: list[Answer]  # values of all samples
    tokens: bool
    notes: list[str]

    def answers(self, row: int) -> list[Answer]:
        return [Answer(each.label, each.colour, each.values[row]) for each in self.predictions]


def draw_samples(path: Path, kind: str, tokens: bool, networks: Sequence[Network], layout: Layout) -> Samples | None:
    """Drawings of the file's samples; None without a file, a note where it cannot be used."""
    if not path.exists():
        return None
    try:
        loaded = _load(path, kind, tokens, networks)
    except (RunError, ValueError) as error:
        # The path of the machine that made the page is nobody's business.
        reason = str(error).replace(str(path), path.name)
        return Samples(notes=[f"The samples cannot be shown: {reason}"])
    if kind in ("classification", "regression"):
        return _cards(loaded, kind, layout)
    return _dense(loaded) if kind == "dense" else _segmentation(loaded, layout.classes)


def _load(path: Path, kind: str, tokens: bool, networks: Sequence[Network]) -> _Loaded:
    tensors = load_tensors(path)
    if kind not in KINDS:
        raise ValueError(f"the run's kind of task is '{kind}', known: {', '.join(KINDS)}")
    if "x" not in tensors or "y" not in tensors:
        raise ValueError(f"{path.name} lacks x or y")
    x, y = tensors["x"][:_MOST], tensors["y"][:_MOST]
    _check(x, y, kind, tokens)
    label_kind = kind in ("classification", "segmentation")
    notes: list[str] = []
    return _Loaded(
        x.long().numpy() if tokens else _values(x),
        y.long().numpy() if label_kind else _values(y),
        _predictions(tensors, y, label_kind, networks, notes),
        tokens,
        notes,
    )


def _check(x: Tensor, y: Tensor, kind: str, tokens: bool) -> None:
    wanted = {
        "classification": 1,
        "regression": 2,
        "dense": x.ndim + tokens,
        "segmentation": x.ndim - 1 + tokens,
    }
    fits = x.ndim == 2 if tokens else 3 <= x.ndim <= 5
    fits = fits and y.ndim == wanted[kind] and len(x) == len(y)
    if kind in ("dense", "segmentation"):
        axes = x.ndim - (1 if tokens else 2)
        fits = fits and x.shape[x.ndim - axes :] == y.shape[y.ndim - axes :]
    if not fits or 0 in x.shape or 0 in y.shape:
        raise ValueError(f"x of shape {tuple(x.shape)} and y of shape {tuple(y.shape)} are no {kind} samples")


def _predictions(
    tensors: dict[str, Tensor], y: Tensor, label_kind: bool, networks: Sequence[Network], notes: list[str]
) -> list[Answer]:
    """Outputs in the order of the table, those of the networks that have a colour."""
    order = {network.trial.name: network for network in networks}
    names = sorted(
        (name.removeprefix(_PREFIX) for name in tensors if name.startswith(_PREFIX)),
        key=lambda name: list(order).index(name) if name in order else len(order),
    )
    trained = sum(network.trained for network in networks)
    answers: list[Answer] = []
    hidden = 0
    for name in names:
        values = tensors[_PREFIX + name][:_MOST]
        shape = (values.shape[0], *values.shape[2:]) if label_kind and values.ndim > 1 else values.shape
        if tuple(shape) != tuple(y.shape) or 0 in values.shape:
            notes.append(f"The predictions of {name} do not fit the samples (shape {tuple(values.shape)}).")
            continue
        network = order.get(name)
        colour = network.colour if network else GREY
        spare = network is None or network.trained  # the predictor that is kept is always shown
        if colour == GREY and spare and (trained > COLOURS or len(answers) >= COLOURS):
            hidden += 1
            continue
        answers.append(
            Answer(
                network.label if network else name, colour, values.double().numpy() if label_kind else _values(values)
            )
        )
    broken = [answer.label for answer in answers if not np.isfinite(answer.values).all()]
    if broken:
        notes.append(f"Not all outputs of {listed(broken)} are finite numbers; pictures are hatched there, lines end.")
    if hidden:
        notes.append(f"{plural(hidden, 'further network')} left out here; the table has their figures.")
    if not answers:
        notes.append("The file holds no predictions that can be shown.")
    return answers


def _values(tensor: Tensor) -> Values:
    """In double precision; NaN where a square would overflow, which is where a picture shows nothing anyway."""
    values = tensor.double()
    return torch.where(values.abs() < _HUGE, values, torch.nan).numpy()


def _cards(loaded: _Loaded, kind: str, layout: Layout) -> Samples:
    make: Any = partial(class_card, layout.classes) if kind == "classification" else value_card
    shown = [_shown(loaded, row, layout) for row in range(len(loaded.x))]
    cards = [make(_title(row), shown[row], loaded.y[row], loaded.answers(row)) for row in range(len(loaded.x))]
    return Samples(cards=cards, notes=loaded.notes)


def _dense(loaded: _Loaded) -> Samples:
    rows = range(len(loaded.x))
    if loaded.tokens or loaded.x.ndim == 3:
        lines = [dense_lines(_title(row), *_one_axis(loaded, row), loaded.y[row], loaded.answers(row)) for row in rows]
        return Samples(lines=lines, notes=loaded.notes)
    outputs = loaded.y.shape[1]
    channels = min(outputs, OUTPUTS)
    if outputs > channels:
        loaded.notes.append(f"Outputs 1 to {channels} of {outputs}.")
    fields = [
        dense_field(_title(row), loaded.x[row], loaded.y[row], loaded.answers(row), output)
        for row in rows[: max(1, _MOST // channels)]
        for output in range(channels)
    ]
    return Samples(fields=fields, notes=loaded.notes)


def _segmentation(loaded: _Loaded, names: Sequence[int | str]) -> Samples:
    rows = range(len(loaded.x))
    sizes = [max(2, each.values.shape[1]) for each in loaded.predictions]
    classes = max([int(loaded.y.max()) + 1, *sizes])
    if loaded.tokens or loaded.x.ndim == 3:
        strips = [
            class_strip(_title(row), *_one_axis(loaded, row), loaded.y[row], loaded.answers(row), classes)
            for row in rows
        ]
        return Samples(strips=strips, classes=_legend(classes, names), notes=loaded.notes)
    scale = image_scale(loaded.x)
    fields = [
        class_field(_title(row), loaded.x[row], loaded.y[row], loaded.answers(row), classes, scale) for row in rows
    ]
    return Samples(fields=fields, classes=_legend(classes, names), notes=loaded.notes)


def _legend(classes: int, names: Sequence[int | str]) -> list[tuple[str, str]]:
    return [(colour, class_name(number, names)) for number, colour in enumerate(class_colours(classes)[:_CLASSES])]


def _one_axis(loaded: _Loaded, row: int) -> tuple[Values | None, Shown | None]:
    if loaded.tokens:
        return None, show_tokens(loaded.x[row])
    return loaded.x[row], None


def _shown(loaded: _Loaded, row: int, layout: Layout) -> Shown:
    if loaded.tokens:
        return show_tokens(loaded.x[row])
    if layout.channels == "columns" and loaded.x.ndim == 3:
        return show_row(loaded.x[row], layout.columns)
    scale = image_scale(loaded.x)
    return show_array(loaded.x[row], scale, f"input of {_title(row)}")


def _title(row: int) -> str:
    return f"sample {row + 1}"
