"""What became of XD-operations, in sentences, in pictures of what they make of an impulse, and in a table."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.ops.xd import XD, Responses, impulse_responses
from eclose.ops.xd.inspection.nearest.named_operation import per_cent
from eclose.plural import plural
from eclose.spaces.explanation import MOST_ROWS, Line, Map, Picture, Plot, Section, Table, rounded
from eclose.spaces.xd_likeness import UNLIKE, Found, found_operations

WORK = 2.0**31
"""Half a minute of one core at most: one layer on 1024 points, or three hundred on up to 128."""

_TITLE = "What the operations became"
_MOVED = 0.1  # relative distances below it are called small
_DRAWN = 0.01  # below it the picture would show the start twice
_SHIFTED = 0.05  # responses that differ by less are called the same
_SHOWN = 3  # operations that are drawn, and that have a sentence of their own
POINTS, PIXELS = 128, 28  # of a drawn line, and of each side of a drawn map

_NOTE = (
    "Moved, {}: distance from the start, relative to it. Residual: what the nearest known operation leaves unexplained."
)
_PARTS = ("K", "L", "M")

Parts = tuple[str, str, str]
"""What the system of a network calls K, L and M."""


def explain_operations(
    network: nn.Module,
    found: Sequence[Found] | None = None,
    name: str = "",
    kind: str = "XD-operations",
    parts: Parts = _PARTS,
) -> list[Section]:
    """One section on all XD-operations of a network, which may have been looked at; none of a network without any.

    ``name`` is that of the network that they were put into, ``kind`` what its space calls them.
    """
    operations = {path: module for path, module in network.named_modules() if isinstance(module, XD)}
    if not operations:
        return []
    try:
        found = found_operations(network, WORK) if found is None else found
    except ConfigError as error:  # numbers that are none
        return [Section(_TITLE, (f"{str(error)[0].upper()}{str(error)[1:]}.",))]
    drawn = [one for one in sorted(found, key=lambda one: -one.moved)[:_SHOWN] if one.moved > _DRAWN]
    answers = [(one, impulse_responses(operations[one.path])) for one in drawn]
    pictures = tuple(_picture(*each) for each in answers if _drawable(each[1]))
    known = [f"It is {name} with {kind} in place of {plural(len(found), 'layer')}."] if name else []
    return [Section(_TITLE, (*known, *_sentences(found)), _table(found, parts), pictures=pictures)]


def _sentences(found: Sequence[Found]) -> tuple[str, ...]:
    """How many moved, and what those that moved farthest are now nearest to."""
    order = sorted(found, key=lambda one: -one.moved)
    far = [one for one in order if one.moved > _MOVED]
    if not far:
        most = f"layer {order[0].path} moved farthest, by {per_cent(order[0].moved)}"
        return (
            f"No operation moved by more than {per_cent(_MOVED)} of what it was at the start; "
            f"{most if order[0].moved else 'none moved at all'}.",
        )
    were = "it was" if len(far) == 1 else "they were"
    told = [f"{len(far)} of {plural(len(found), 'operation')} moved by more than {per_cent(_MOVED)} of what {were}."]
    told += [
        f"Layer {one.path} started as {_article(one.start)}, moved by {per_cent(one.moved)}{_now(one)}."
        for one in far[:_SHOWN]
    ]
    if len(far) > _SHOWN:
        told.append(f"The table has the other {len(far) - _SHOWN}.")
    return tuple(told)


def _now(one: Found) -> str:
    if not one.nearest:
        return " and was not compared with known operations"
    known = one.nearest[0]
    named = f"{_article(known.name)} {known.details}".strip()
    if known.residual < UNLIKE:
        return f" and is now nearest to {named} (residual {per_cent(known.residual)})"
    return f" and is now unlike any known operation (nearest: {named}, residual {per_cent(known.residual)})"


def _article(noun: str) -> str:
    noun = "band-limited operation" if noun == "band-limited" else noun
    return noun if noun in ("zero", "average pooling") else f"a {noun}"


def _table(found: Sequence[Found], parts: Parts) -> Table:
    """One row an operation, in the order of the network; of a large network the rows of those that moved farthest."""
    farthest = sorted(found, key=lambda one: -one.moved)[:MOST_ROWS]
    rows = [_row(one) for one in found if one in farthest]
    left = len(found) - len(rows)
    notes = [_NOTE.format(", ".join(parts))]
    if any(one.distances.operation is None for one in found):
        notes.append(f"Where {parts[0]}, {parts[1]} and {parts[2]} are missing, moved is the distance of all entries.")
    if left:
        notes.append(f"{plural(left, 'operation')} that moved less have no row.")
    headings = ("layer", "started as", "moved", *parts, "nearest known operation", "residual")
    return Table(headings, tuple(rows), ("moved", *parts, "residual"), " ".join(notes))


def _row(one: Found) -> tuple[str | float | None, ...]:
    parts = [
        None if part is None else rounded([part])[0] for part in (one.distances.K, one.distances.L, one.distances.M)
    ]
    nearest = one.nearest[0] if one.nearest else None
    named = f"{nearest.name} {nearest.details}".strip() if nearest else None
    return (
        one.path,
        one.start,
        rounded([one.moved])[0],
        *parts,
        named,
        rounded([nearest.residual])[0] if nearest else None,
    )


def _drawable(responses: Responses) -> bool:
    return bool(responses.found.isfinite().all() and responses.start.isfinite().all())


def _picture(one: Found, responses: Responses) -> Picture:
    """Start beside found: lines of signals, maps of images; of volumes the largest value along the first axis."""
    title = f"Layer {one.path}: what it makes of an impulse"
    told = _said_of_shifts(one.path, responses)
    output, channel = responses.channels
    told += f" Shown: from channel {channel} to channel {output}, the pair with the largest weights."
    axes = responses.found.dim() - 1
    if axes == 1:
        return Picture(title, (told,), plots=tuple(_plot(responses, number) for number in range(len(responses.places))))
    if axes == 3:
        told += " Of every column along the first axis the largest value is shown."
    maps = [
        _map(responses, number, name, answer)
        for name, answers in (("start", responses.start), ("found", responses.found))
        for number, answer in enumerate(answers)
    ]
    return Picture(title, (told,), maps=tuple(maps), columns=len(responses.places))


def _said_of_shifts(path: str, responses: Responses) -> str:
    before, now = responses.variance
    if now is None:
        return f"Layer {path} has no places that could be shifted onto each other."
    if now < _SHIFTED:
        return "It answers alike wherever the impulse is: it is still shift-invariant."
    if before is not None and before >= _SHIFTED:
        return f"It answers differently from place to place, by {per_cent(now)}; so did its start."
    return (
        f"It answers differently from place to place, by {per_cent(now)}: it is no longer shift-invariant, "
        "as its start was."
    )


def _plot(responses: Responses, number: int) -> Plot:
    lines = [
        Line(name, rounded(_thinned(each[number], POINTS).tolist()))
        for name, each in (("start", responses.start), ("found", responses.found))
    ]
    last = responses.found.shape[1] - 1
    return Plot(f"impulse at {spoken(responses.places[number])}", tuple(lines), 0, last, _seen_at(responses, number)[0])


def _map(responses: Responses, number: int, name: str, answer: Tensor) -> Map:
    """``(*outs)`` of one impulse; the mark is at its place among the values that are shown."""
    if answer.dim() == 3:
        answer = _largest(answer, 0)
    shown = _thinned(answer, PIXELS)
    at = [
        place * many / size
        for place, many, size in zip(_seen_at(responses, number)[-2:], shown.shape, answer.shape, strict=True)
    ]
    values = tuple(rounded(row) for row in shown.tolist())
    return Map(f"{name}, impulse at {spoken(responses.places[number])}", values, (at[0], at[1]))


def _seen_at(responses: Responses, number: int) -> list[float]:
    """Where the place of an impulse lies among the outputs."""
    outs = responses.found.shape[1:]
    return [
        round((place + 0.5) * out / size - 0.5, 2)
        for place, size, out in zip(responses.places[number], responses.sizes, outs, strict=True)
    ]


def _thinned(values: Tensor, most: int) -> Tensor:
    """At most so many values along every axis: of neighbours the largest, so that no peak is lost."""
    for axis in range(values.dim()):
        step = math.ceil(values.shape[axis] / most)
        if step > 1:
            parts = values.split(step, axis)
            values = torch.stack([_largest(part, axis) for part in parts], axis)
    return values


def _largest(values: Tensor, axis: int) -> Tensor:
    """The value of the largest modulus along an axis, with its sign."""
    return values.gather(axis, values.abs().argmax(axis, keepdim=True)).squeeze(axis)


def spoken(place: Sequence[int]) -> str:
    """A place as people write it."""
    return str(place[0]) if len(place) == 1 else f"({', '.join(map(str, place))})"
