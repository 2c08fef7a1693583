"""Samples with one answer each: the input beside what is true and what every network says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from eclose.display.samples.pictures import ColourScale, Picture, Values, image, value_scale
from eclose.display.samples.signals import CARD_WIDTH, CHANNELS, Answer, draw_input
from eclose.display.wording import number, share, shortened

_CHANNELS = 4  # pictures of one input that is neither grey nor RGB
_TOKENS = 40  # of a sequence written out as numbers
_COLUMNS = 12  # of a row written out as numbers


@dataclass(frozen=True)
class Shown:
    """One input on the page: a drawing, pictures or tokens, and what was left out."""

    svg: Markup | None = None
    pictures: list[Picture] = field(default_factory=list)
    row: list[tuple[str, str]] = field(default_factory=list)  # of a table: its columns and their values
    tokens: list[int] = field(default_factory=list)
    strip: Picture | None = None  # all tokens as colours
    note: str = ""


def show_tokens(x: npt.NDArray[np.int64]) -> Shown:  # (length,)
    """The first tokens as numbers, all of them as a strip of colours."""
    values = x.astype(np.float64)[None]
    strip = value_scale(values).picture(values, "tokens as colours")
    left = len(x) - _TOKENS
    note = f"first {_TOKENS} of {len(x):,} tokens; the strip shows all" if left > 0 else ""
    return Shown(tokens=[int(token) for token in x[:_TOKENS]], strip=strip, note=note)


def show_row(x: Values, columns: Sequence[str]) -> Shown:  # (columns, 1)
    """The first columns of a row, by their names."""
    values = x[:_COLUMNS, 0]
    names = [columns[place] if place < len(columns) else f"column {place + 1}" for place in range(len(values))]
    row = [(shortened(name, _LETTERS), number(float(value))) for name, value in zip(names, values, strict=True)]
    return Shown(row=row, note=f"first {_COLUMNS} of {len(x):,} columns" if len(x) > _COLUMNS else "")


def show_array(x: Values, scale: ColourScale, title: str, width: float = CARD_WIDTH) -> Shown:  # (channels, *space)
    """One axis as lines, two as images, three by their middle slice."""
    if x.ndim == 2:
        most = CHANNELS
        shown = Shown(svg=draw_input(x, title, width))
    else:
        planes = middle(x)
        rgb = len(planes) in (1, 3)
        most = len(planes) if rgb else _CHANNELS
        shown = Shown(pictures=[image(planes, scale, title)] if rgb else _channels(planes, scale, title))
    notes = [f"channels 1 to {most} of {len(x)}"] if len(x) > most else []
    if x.ndim == 4:
        notes.append(slice_note(x.shape[1]))
    return Shown(shown.svg, shown.pictures, note="; ".join(notes))


def middle(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(channels, height, width) of (channels, *space): the middle of the first of three axes."""
    return values[:, values.shape[1] // 2] if values.ndim == 4 else values


def slice_note(size: int) -> str:
    """Which slice of a volume is shown."""
    return f"slice {size // 2 + 1} of {size}"


def image_scale(x: Values) -> ColourScale:
    """Black to white over the range of all shown samples, as even bytes rarely use all of theirs."""
    return value_scale(x, name="gray")


def _channels(planes: Values, scale: ColourScale, title: str) -> list[Picture]:
    return [scale.picture(plane, f"{title}, channel {number}") for number, plane in enumerate(planes[:_CHANNELS], 1)]


_VALUES = 8  # values of one regression target
_LETTERS = 40  # of the name of a class


@dataclass(frozen=True)
class Verdict:
    """One network's answer; ``right`` is None where that is a matter of degree."""

    label: str
    colour: int
    text: str
    detail: str
    right: bool | None = None


@dataclass(frozen=True)
class Card:
    """One sample."""

    title: str
    shown: Shown
    truth: str
    verdicts: list[Verdict]
    note: str = ""


def class_card(names: Sequence[int | str], title: str, shown: Shown, label: int, answers: Sequence[Answer]) -> Card:
    """True label, and the label and probability that each network gives."""
    verdicts = [_class_verdict(answer, label, names) for answer in answers]
    return Card(title, shown, class_name(label, names), verdicts)


def class_name(number: int, names: Sequence[int | str]) -> str:
    """What the user calls a class; numbers alone would say nothing."""
    name = names[number] if number < len(names) else number
    return shortened(name, _LETTERS) if isinstance(name, str) else f"class {name}"


def value_card(title: str, shown: Shown, target: Values, answers: Sequence[Answer]) -> Card:
    """True values, and the values that each network gives with their distance."""
    word = "within" if target.size > 1 else "off by"
    verdicts = [
        Verdict(
            answer.label,
            answer.colour,
            _values(answer.values),
            f"{word} {number(float(np.abs(answer.values - target).max()))}",
        )
        for answer in answers
    ]
    note = f"values 1 to {_VALUES} of {target.size}" if target.size > _VALUES else ""
    return Card(title, shown, _values(target), verdicts, note)


def probabilities(scores: Values) -> Values:  # (classes, ...)
    """Softmax over the first axis; a single score is the log-odds of class 1."""
    if len(scores) == 1:
        scores = np.concatenate([np.zeros_like(scores), scores])
    with np.errstate(invalid="ignore", over="ignore"):
        parts = np.exp(scores - scores.max(axis=0))
        result: Values = parts / parts.sum(axis=0)
    return result


def _class_verdict(answer: Answer, label: int, names: Sequence[int | str]) -> Verdict:
    chances = probabilities(answer.values)
    if not np.isfinite(chances).all():
        return Verdict(answer.label, answer.colour, "no answer", "its scores are not finite", False)
    said = int(chances.argmax())
    return Verdict(answer.label, answer.colour, class_name(said, names), share(float(chances[said])), said == label)


def _values(values: Values) -> str:
    return ", ".join(number(float(value)) for value in values[:_VALUES]) + (", …" if values.size > _VALUES else "")
