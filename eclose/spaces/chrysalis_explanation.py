"""What became of K-operations: their filters at random places (Chrysalis paper, Figure 2), and how far from unitary."""

import math
from collections import defaultdict
from collections.abc import Sequence

from torch import Tensor, nn

from eclose.ops.xd import XD, Axis, Filters, filters_at_random, from_unitary
from eclose.ops.xd.inspection.nearest.named_operation import per_cent
from eclose.spaces.explanation import MOST_ROWS, Line, Map, Picture, Plot, Section, Table, rounded
from eclose.spaces.xd_explanation import explain_operations, spoken
from eclose.train.seeds import generator_for

_TITLE = "Filters, and how far from unitary"
_LOOKED_AT, _COLUMNS = 24, 4  # places of an operation that are looked at, and that are drawn
_DRAWN = 3  # operations that have a picture
_WIDER = 3  # times as far as the convolution sees: what is drawn of a filter
_WORK = 2**22  # numbers of an input that filters are looked for in
_EXACT = 1e-3  # distances from unitary below it are rounding
_NOTE = (
    "K1, K2: relative distance from the nearest unitary matrix. Within the window: the share of a filter, by squares, "
    "that lies where the convolution looks."
)

_PARTS = ("K1", "M", "K2")  # of an operation; K, L and M in XD

Layers = dict[str, XD]


def explain_k_operations(network: nn.Module, name: str, kind: str) -> list[Section]:
    """What every operation became, which layers share one, what their filters look like."""
    layers = {path: module for path, module in network.named_modules() if isinstance(module, XD)}
    sections = explain_operations(network, name=name, kind=kind, parts=_PARTS)
    if not sections or sections[0].table is None:  # nothing there, or numbers that are none
        return sections
    filters = {path: _filters(path, layer) for path, layer in layers.items()}
    away = {path: _from_unitary(layer) for path, layer in layers.items()}
    rows = tuple(_row(path, layer, away[path], filters[path]) for path, layer in layers.items())[:MOST_ROWS]
    table = Table(("layer", "began", "K1", "K2", "within the window"), rows, ("K1", "K2", "within the window"), _NOTE)
    drawn = [(path, found) for path, found in filters.items() if found is not None][:_DRAWN]
    pictures = tuple(_picture(path, layers[path], found) for path, found in drawn)
    return [*sections, Section(_TITLE, (*_ties(layers), _unitary(away)), table, pictures=pictures)]


def _filters(path: str, layer: XD) -> Filters | None:
    points = layer.in_channels * math.prod(axis.size for axis in layer.axes)
    if points > _WORK // _LOOKED_AT or layer.axes[0].kind != Axis.kind:
        return None
    return filters_at_random(layer, _LOOKED_AT, generator_for("filters", path))


def _from_unitary(layer: XD) -> tuple[float | None, float | None]:
    outer, inner = layer.architecture.K, layer.architecture.M
    return from_unitary(list(outer)), from_unitary(list(inner))  # type: ignore[arg-type]


def _row(
    path: str, layer: XD, away: tuple[float | None, float | None], filters: Filters | None
) -> tuple[str | float | None, ...]:
    parts = [None if value is None else rounded([value])[0] for value in away]
    within = None if filters is None else rounded([filters.within])[0]
    return path, _began(layer), *parts, within


def _began(layer: XD) -> str:
    return "from scratch" if layer.architecture.drawn else "as a convolution"


def _ties(layers: Layers) -> list[str]:
    """Which layers share one operation."""
    sharing: dict[nn.Module, list[str]] = defaultdict(list)
    for path, layer in layers.items():
        sharing[layer.architecture].append(path)
    return [
        f"Layers {', '.join(paths[:-1])} and {paths[-1]} share one operation."
        for paths in sharing.values()
        if paths[1:]
    ]


def _unitary(away: dict[str, tuple[float | None, float | None]]) -> str:
    """How far the matrices that began unitary are from that."""
    known = {path: (one, other) for path, (one, other) in away.items() if one is not None and other is not None}
    if not known:
        return "The matrices are too large to say how far they are from unitary."
    path = max(known, key=lambda each: max(known[each]))
    if max(known[path]) < _EXACT:
        return "K1 and K2 of every layer are unitary, as they were at the start: they keep the size of a signal."
    one, other = map(per_cent, known[path])
    return (
        f"K1 and K2 were unitary at the start. Those of layer {path} are farthest from it now: "
        f"K1 by {one}, K2 by {other} of the nearest unitary matrix."
    )


def _picture(path: str, layer: XD, filters: Filters) -> Picture:
    """Rows: the convolution with these weights, the start where it was another one, what was found."""
    rows = {"convolution": filters.convolution, "start": filters.start, "found": filters.found}
    if not layer.architecture.drawn:
        del rows["start"]
    told = (
        "What outputs at random places make of their neighbourhood. Of the filters found, by squares, "
        f"{per_cent(filters.within)} lies where the convolution looks; the rest is farther away."
    )
    if len(layer.axes) == 3:
        told += " Of a volume the plane in the middle of what the convolution sees is shown, across the first axis."
    title = f"Layer {path}: filters at random places"
    numbers = range(min(_COLUMNS, len(filters.places)))
    if len(layer.axes) == 1:
        return Picture(title, (told,), plots=tuple(_plot(layer, filters, rows, number) for number in numbers))
    maps, relative = _maps(layer, filters, rows, numbers)
    return Picture(title, (told + relative,), maps=maps, columns=len(numbers))


def _maps(layer: XD, filters: Filters, rows: dict[str, Tensor], numbers: Sequence[int]) -> tuple[tuple[Map, ...], str]:
    """Row by row, each relative to its largest number, so that its shape shows; and what these are."""
    shown = {name: [_shown(layer, filters, values, number) for number in numbers] for name, values in rows.items()}
    largest = {name: max(float(each.abs().max()) for each in some) or 1.0 for name, some in shown.items()}
    maps = tuple(
        Map(f"{name}, output {_titled(filters, number)}", tuple(map(rounded, (each / largest[name]).tolist())))
        for name, some in shown.items()
        for number, each in zip(numbers, some, strict=True)
    )
    told = ", ".join(f"{name} {size:.2g}" for name, size in largest.items())
    return maps, f" Numbers are relative to the largest of their row: {told}."


def _neighbourhood(layer: XD, centre: Sequence[int]) -> tuple[slice, ...]:
    """Some more on every side than the convolution sees."""
    found = []
    for axis, middle in zip(layer.axes, centre, strict=True):
        side = _WIDER * (axis.dilation * (axis.kernel - 1) + 1) // 2
        found.append(slice(max(0, middle - side), min(axis.size, middle + side + 1)))
    return tuple(found)


def _plot(layer: XD, filters: Filters, rows: dict[str, Tensor], number: int) -> Plot:
    (shown,) = _neighbourhood(layer, filters.centres[number])
    lines = tuple(Line(name, rounded(values[number, shown].tolist())) for name, values in rows.items())
    return Plot(f"output {_titled(filters, number)}", lines, shown.start, shown.stop - 1)


def _shown(layer: XD, filters: Filters, values: Tensor, number: int) -> Tensor:
    centre = filters.centres[number]
    return values[number][centre[:-2]][_neighbourhood(layer, centre)[-2:]]


def _titled(filters: Filters, number: int) -> str:
    return f"at {spoken(filters.places[number])}"
