"""Which operations have the weight in the mixtures of a network, in sentences and in a table."""

from dataclasses import dataclass

from torch import nn

from eclose.ops.mixture import Mixture
from eclose.ops.mixture.operation import CONVOLUTIONS, OWN
from eclose.ops.xd.inspection.nearest.named_operation import per_cent
from eclose.plural import plural
from eclose.spaces.explanation import MOST_ROWS, Cell, Section, Table, rounded

_TITLE = "Which operations have the weight"
_CLOSE = 0.1  # a lead of less is a close call
_SMALL = 0.01  # so little moved weight is not worth a sentence
_SHOWN = 3  # places that have a sentence of their own
_NOTE = "Moved: the part of the weight that has gone from one operation to another since the start."

WORDS = {
    "zero": "zero",
    "identity": "skip",
    "max_pool3": "max pooling of 3",
    "average_pool3": "average pooling of 3",
    **{
        name: f"convolution of {taps}" + (f" with dilation {dilation}" if dilation > 1 else "")
        for name, (taps, dilation) in CONVOLUTIONS.items()
    },
    OWN: "the layer's own convolution",
}


@dataclass(frozen=True)
class _Place:
    """One mixture: what it started as, the two operations with the largest weights, and how much weight has moved."""

    path: str
    start: str
    first: str
    share: float
    second: str
    other: float
    moved: float

    @property
    def close(self) -> bool:
        return self.share - self.other < _CLOSE


def explain_mixtures(network: nn.Module, name: str) -> list[Section]:
    """One section on all mixtures that were put into the network of that name; nothing where there are none."""
    mixtures = [(path, module) for path, module in network.named_modules() if isinstance(module, Mixture)]
    if not mixtures:
        return []
    for path, mixture in mixtures:
        if not bool(mixture.alpha.isfinite().all()):
            return [Section(_TITLE, (f"Layer {path} has weights that are not finite: nothing can be said of it.",))]
    places = [_place(path, mixture) for path, mixture in mixtures]
    known = f"It is {name} with mixed operations in place of {plural(len(places), 'layer')}."
    return [Section(_TITLE, (known, *_sentences(places)), _table(places))]


def _place(path: str, mixture: Mixture) -> _Place:
    shares = mixture.alpha.detach().cpu().double().softmax(0)
    first, second = shares.argsort(descending=True, stable=True)[:2].tolist()
    moved = (shares - mixture.first_shares().double()).abs().sum().item() / 2
    names = [WORDS[name] for name in mixture.operations]
    return _Place(
        path, WORDS[mixture.start], names[first], shares[first].item(), names[second], shares[second].item(), moved
    )


def _sentences(places: list[_Place]) -> tuple[str, ...]:
    changed = [place for place in places if place.first != place.start]
    close = [place for place in places if place.close]
    count = plural(len(places), "layer")
    if changed:
        told = [f"In {len(changed)} of {count} another operation than that of the start has the largest weight now."]
    else:
        told = [f"In all of {count} the operation of the start still has the largest weight."]
    farthest = sorted(changed or places, key=lambda place: -place.moved)[:_SHOWN]
    told += [
        f"Layer {place.path} started as {place.start}: now {place.first} has {per_cent(place.share)} of the weight, "
        f"{place.second} {per_cent(place.other)}."
        for place in farthest
        if place.moved > _SMALL
    ]
    if close:
        named = ", ".join(place.path for place in close[:_SHOWN])
        more = f" and {len(close) - _SHOWN} more" if len(close) > _SHOWN else ""
        told.append(f"Close calls, where the lead is below {per_cent(_CLOSE)}: {named}{more}.")
    return tuple(told)


def _table(places: list[_Place]) -> Table:
    farthest = sorted(places, key=lambda place: -place.moved)[:MOST_ROWS]
    rows = [_row(place) for place in places if place in farthest]
    left = len(places) - len(rows)
    note = f"{_NOTE} {plural(left, 'layer')} that moved less have no row." if left else _NOTE
    headings = ("layer", "started as", "moved", "largest weight", "share", "second", "its share")
    return Table(headings, tuple(rows), ("moved", "share", "its share"), note)


def _row(place: _Place) -> tuple[Cell, ...]:
    moved, share, other = rounded([place.moved, place.share, place.other])
    return place.path, place.start, moved, place.first, share, place.second, other
