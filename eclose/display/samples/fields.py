"""Samples with an answer at every position: lines, pictures or strips of target, predictions and errors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from eclose.display.samples.cards import Shown, middle, probabilities, show_array, slice_note
from eclose.display.samples.pictures import (
    ColourScale,
    Labels,
    Picture,
    Values,
    class_picture,
    error_scale,
    image,
    prediction_scale,
    value_scale,
    wrong_picture,
)
from eclose.display.samples.signals import OUTPUTS, STRIP_WIDTH, Answer, draw_dense
from eclose.display.wording import number, share

_INPUTS = 2  # channels of one input beside its target


@dataclass(frozen=True)
class FieldAnswer:
    """One network's prediction and error, with its figure for this sample."""

    label: str
    colour: int
    picture: Picture
    error: Picture
    score: str


@dataclass(frozen=True)
class Field:
    """One sample, or one output channel of it, as a row of pictures."""

    title: str
    inputs: list[Picture]
    target: Picture
    answers: list[FieldAnswer]
    scale: ColourScale | None = None  # None: classes
    errors: ColourScale | None = None
    shown: Shown | None = None  # an input that is not a picture: lines or tokens above strips
    note: str = ""


@dataclass(frozen=True)
class Lines:
    """One sample of one axis, drawn as lines."""

    title: str
    svg: Markup
    scores: list[tuple[str, int, str]] = field(default_factory=list)  # label, colour, figure
    shown: Shown | None = None  # tokens above the lines
    note: str = ""


def dense_lines(title: str, x: Values | None, shown: Shown | None, y: Values, answers: Sequence[Answer]) -> Lines:
    """One axis: x (channels, length) or tokens already shown, y (outputs, length)."""
    scores = [(answer.label, answer.colour, f"relative error {_relative(answer.values, y)}") for answer in answers]
    notes = []
    if x is not None and len(x) > OUTPUTS:
        notes.append(f"input channels 1 to {OUTPUTS} of {len(x)}")
    if len(y) > OUTPUTS:
        notes.append(f"output channels 1 to {OUTPUTS} of {len(y)}")
    return Lines(title, draw_dense(x, y, answers, title), scores, shown, "; ".join(notes))


def dense_field(title: str, x: Values, y: Values, answers: Sequence[Answer], output: int) -> Field:
    """Two or three axes: x (channels, *space), output channel ``output`` of y (outputs, *space)."""
    target = middle(y)[output]
    guesses = [middle(answer.values)[output] for answer in answers]
    differences = [guess - target for guess in guesses]
    scale, errors = prediction_scale(target, guesses), error_scale(target, differences)
    shown = [
        FieldAnswer(
            answer.label,
            answer.colour,
            scale.picture(guess, f"prediction of {answer.label}"),
            errors.picture(difference, f"error of {answer.label}"),
            f"relative error {_relative(answer.values[output], y[output])}",
        )
        for answer, guess, difference in zip(answers, guesses, differences, strict=True)
    ]
    inputs = [
        value_scale(plane, name="cividis").picture(plane, f"input channel {channel}")
        for channel, plane in enumerate(middle(x)[:_INPUTS], 1)
    ]
    name = f"{title}, output {output + 1} of {len(y)}" if len(y) > 1 else title
    return Field(name, inputs, scale.picture(target, "target"), shown, scale, errors, note=_note(x))


def class_field(title: str, x: Values, y: Labels, answers: Sequence[Answer], classes: int, scale: ColourScale) -> Field:
    """Two or three axes: classes y (*space) as colours, and where each network is wrong."""
    planes = middle(x)
    if len(planes) in (1, 3):
        inputs = [image(planes, scale, "input")]
    else:
        inputs = [scale.picture(plane, f"input channel {n}") for n, plane in enumerate(planes[:_INPUTS], 1)]
    target = _plane(y)
    note = _note(x) if len(planes) != 3 else slice_note(x.shape[1]) if x.ndim == 4 else ""
    return Field(
        title,
        inputs,
        class_picture(target, classes, "target"),
        _class_answers(y, answers, classes),
        note=note,
    )


def class_strip(
    title: str, x: Values | None, shown: Shown | None, y: Labels, answers: Sequence[Answer], classes: int
) -> Field:
    """One axis: classes y (length,) as strips under the input."""
    if x is not None:
        shown = show_array(x, value_scale(x), title, STRIP_WIDTH)
    target = class_picture(y[None], classes, "target")
    return Field(title, [], target, _class_answers(y, answers, classes), shown=shown)


def _class_answers(y: Labels, answers: Sequence[Answer], classes: int) -> list[FieldAnswer]:
    shown = []
    for answer in answers:
        chances = probabilities(answer.values)
        known = np.isfinite(chances).all(axis=0)
        said = np.where(known, np.where(known, chances, 0.0).argmax(axis=0), -1)
        right = float((said == y).mean())
        shown.append(
            FieldAnswer(
                answer.label,
                answer.colour,
                class_picture(_plane(said), classes, f"prediction of {answer.label}"),
                wrong_picture(_plane(said != y), f"where {answer.label} is wrong"),
                f"{share(right)} right",
            )
        )
    return shown


def _plane(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(height, width) of (*space): a strip, an image, or the middle slice."""
    if values.ndim == 3:
        return values[values.shape[0] // 2]
    return values[None] if values.ndim == 1 else values


def _relative(guess: Values, target: Values) -> str:
    length = float(np.linalg.norm(target))
    return number(float(np.linalg.norm(guess - target)) / length) if length else "–"


def _note(x: Values) -> str:
    notes = [f"input channels 1 to {_INPUTS} of {len(x)}"] if len(x) > _INPUTS else []
    if x.ndim == 4:
        notes.append(slice_note(x.shape[1]))
    return "; ".join(notes)
