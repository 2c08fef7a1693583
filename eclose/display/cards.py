"""Samples with one answer each: the input beside what is true and what every network says."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eclose.display.inputs import Shown
from eclose.display.pictures import Values
from eclose.display.signals import Answer
from eclose.display.wording import number, share, shortened

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
