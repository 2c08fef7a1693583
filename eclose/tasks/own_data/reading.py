"""Which axis is what, and what is to be learned: read off x and y, with a word on every doubtful guess."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor

from eclose.config import Standardise
from eclose.errors import TaskError
from eclose.plural import plural
from eclose.signature import KINDS
from eclose.tasks.own_data.labels import is_one_hot, looks_like_labels

CHANNELS = ("first", "last", "none", "columns")


@dataclass(frozen=True)
class Reading:
    """How arrays are to be understood; empty values are read off the arrays."""

    kind: str = ""
    tokens: bool = False
    axes: int = 0
    standardise: Standardise = True
    channels: str = ""  # first: (N, C, *space), last: (N, *space, C), none: (N, *space), columns: (N, C), a table


class Arrangement(NamedTuple):
    """Where the channels of x are, and the sizes of its space axes."""

    channels: str
    space: tuple[int, ...]


def understand(x: Tensor, y: Tensor, reading: Reading) -> tuple[Reading, list[str]]:
    """The reading with nothing left open, and what is doubtful about it.

    ``x (N, a, b)`` may be ``a`` channels of a signal or one channel of an ``a x b`` image. If y has the space
    axes of only one arrangement, that one is meant; otherwise equal axes are all space (8 x 8, 32 x 32 x 32) and
    unequal ones begin with the channels, unless that would be 32 channels of 32 x 3 pixels.
    """
    if reading.kind and reading.kind not in KINDS:
        raise TaskError(f"unknown kind '{reading.kind}'; known: {', '.join(KINDS)}")
    options = _arrangements(x, reading)
    chosen, kind = _kind(x, y, options, reading)
    understood = replace(reading, kind=kind, axes=len(chosen.space), channels=chosen.channels)
    doubts = [] if reading.tokens else _doubts_of_x(x, chosen, reading, kind)
    return understood, [*doubts, *_doubts_of_y(y, reading, kind)]


def arrange(x: Tensor, reading: Reading) -> Tensor:
    """``x`` as ``(N, C, *space)``, by a reading that is complete. One channel may come without its axis."""
    if reading.tokens:
        return x
    if reading.channels == "columns" and x.ndim == 2:
        return x.unsqueeze(-1)  # every column is a channel at the one position there is
    if x.ndim == reading.axes + 1:
        return x.unsqueeze(1)
    return x.movedim(-1, 1) if reading.channels == "last" else x


def _arrangements(x: Tensor, reading: Reading) -> list[Arrangement]:
    """What x may be, the likeliest first."""
    if reading.channels and reading.channels not in CHANNELS:
        raise TaskError(f"unknown channels '{reading.channels}'; known: {', '.join(CHANNELS)}")
    if reading.tokens:
        if x.is_floating_point() or x.ndim != 2:
            raise TaskError(f"--tokens needs integer x of shape (N, length), got {x.dtype} {tuple(x.shape)}")
        return [Arrangement("none", (int(x.shape[1]),))]
    sizes = tuple(x.shape[1:])
    if not 1 <= len(sizes) <= 4:
        single = "; give single numbers as (N, 1)" if not sizes else ""
        raise TaskError(
            f"x has shape {tuple(x.shape)}: it must be (N, C, *space) or (N, *space), 1 to 3 space axes{single}"
        )
    known = {"first": sizes[1:], "last": sizes[:-1], "none": sizes, "columns": (1,) if len(sizes) == 1 else ()}
    possible = {channels: Arrangement(channels, space) for channels, space in known.items() if 1 <= len(space) <= 3}
    if reading.channels:
        names = [reading.channels]
    elif len(sizes) == 1:
        names = ["none"]
    elif len(set(sizes)) == 1:
        names = ["none", "first"]
    else:
        names = [*(["last"] if _ends_in_channels(sizes) else []), "first", "none"]
    options = [possible[name] for name in names if name in possible]
    if not options:
        allowed = " or ".join(possible)
        raise TaskError(f"--channels {reading.channels} does not fit x of shape {tuple(x.shape)}: {allowed} would")
    fitting = [option for option in options if reading.axes in (0, len(option.space))]
    if not fitting:
        allowed = " or ".join(map(str, sorted({len(option.space) for option in options})))
        raise TaskError(f"--axes {reading.axes} does not fit x of shape {tuple(x.shape)}: {allowed} would")
    return fitting


def _ends_in_channels(sizes: tuple[int, ...]) -> bool:
    """Whether channels first would surely be wrong: 32 channels of 32 x 3 pixels, 140 channels of one position."""
    return min(sizes[:-1]) > 4 and (sizes[-1] == 1 or (len(sizes) > 2 and sizes[-1] in (3, 4)))


def _kind(x: Tensor, y: Tensor, options: list[Arrangement], reading: Reading) -> tuple[Arrangement, str]:
    if reading.kind in ("classification", "regression"):
        return options[0], reading.kind
    fitting = [option for option in options if _has_space_axes(y, option, reading.kind)]
    dense = "dense" if y.is_floating_point() else "segmentation"
    if not reading.kind and is_one_hot(y):
        if fitting:
            raise TaskError(
                f"y of shape {tuple(y.shape)} may be one-hot rows, or a value at each of the {y.shape[1]} positions "
                f"of x: say --kind classification or --kind {dense}"
            )
        return options[0], "classification"
    if y.ndim > 1 and fitting:
        return fitting[0], reading.kind or dense
    if reading.kind:
        raise TaskError(
            f"--kind {reading.kind} needs y with the space axes of x; x is {tuple(x.shape)}, y {tuple(y.shape)}"
        )
    if y.is_floating_point() and y.ndim <= 2:
        return options[0], "regression"
    if y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1):
        return options[0], "classification"
    if y.ndim == 2:
        raise TaskError(
            f"y of shape {tuple(y.shape)} has {y.shape[1]} whole numbers a sample: --kind regression takes them as "
            "quantities, several labels a sample too; one label a sample is y of shape (N,)"
        )
    raise TaskError(
        f"y of shape {tuple(y.shape)} ({y.dtype}) fits no kind for x of shape {tuple(x.shape)}: "
        "(N,) is classification or regression, (N, k) floats are regression, space axes as in x are dense"
    )


def _has_space_axes(y: Tensor, option: Arrangement, kind: str) -> bool:
    if option.channels == "columns":
        return False
    if tuple(y.shape[1:]) == option.space:
        return True
    values = kind == "dense" or (not kind and y.is_floating_point())
    inner = y.shape[1:-1] if option.channels == "last" else y.shape[2:]
    return values and y.ndim == len(option.space) + 2 and tuple(inner) == option.space


def _doubts_of_x(x: Tensor, chosen: Arrangement, reading: Reading, kind: str) -> list[str]:
    if reading.channels:
        return []
    shape, sizes = tuple(x.shape), tuple(x.shape[1:])
    if chosen.channels == "last":
        return [
            f"x {shape} is read with its channels last, {sizes[-1]} of them; "
            f"--channels first reads {plural(sizes[0], 'channel')}, --channels none one"
        ]
    if chosen.channels == "first" and len(sizes) == 2:
        read = f"x {shape} is read as {plural(sizes[0], 'channel')} x {plural(sizes[1], 'position')}"
        if sizes[1] <= 16 and sizes[0] >= 4 * sizes[1]:
            return [f"{read}; if it has {plural(sizes[1], 'channel')}, --channels last (--channels first confirms)"]
        if min(sizes) >= 24 and max(sizes) <= 2 * min(sizes) and not reading.axes:
            return [f"{read}; if these are images, --axes 2 (--axes 1 confirms)"]
    if len(sizes) == 1 and (meant := _besides_a_signal(x, kind)) and _unrelated_columns(x):
        return [
            f"x {shape} is read as a signal of {sizes[0]} positions, but neighbours in it have little in common; "
            f"{'; '.join(meant)} (--channels none confirms)"
        ]
    return []


def _besides_a_signal(x: Tensor, kind: str) -> list[str]:
    """What else ``x (N, L)`` may be, with the option that says so."""
    table = kind in ("classification", "regression")
    tokens = not x.is_floating_point() and float(x[:1000].double().min()) >= 0
    return ["if it is a table, --channels columns"] * table + ["if its numbers stand for tokens, --tokens"] * tokens


def _unrelated_columns(x: Tensor) -> bool:
    """Whether neighbouring columns differ as those of a table do: in scale, or in what they say."""
    if x.shape[1] < 2 or len(x) < 10:
        return False
    values = x[:1000].double()
    values = values - values.mean(0)
    spread = values.square().mean(0).sqrt()
    varies = spread > 1e-9 * (spread.max() + 1e-300)
    values, spread = values[:, varies], spread[varies]
    if len(spread) < 2:
        return False
    if float(spread.max() / spread.median()) > 30:
        return True
    values = values / spread
    return float((values[:, 1:] * values[:, :-1]).mean(0).abs().mean()) < 0.3


def looks_ordered(x: Tensor) -> bool:
    """Whether the columns of a table look like the positions of one signal."""
    return x.shape[1] >= 16 and len(x) >= 10 and not _unrelated_columns(x)


def _doubts_of_y(y: Tensor, reading: Reading, kind: str) -> list[str]:
    if reading.kind:
        return []
    if kind == "classification" and is_one_hot(y):
        return [
            f"y {tuple(y.shape)} has one-hot rows and is read as labels, class = column; "
            f"--kind regression takes its {y.shape[1]} columns as quantities (--kind classification confirms)"
        ]
    if kind == "regression" and y.ndim == 2 and y.shape[1] > 1 and bool(((y == 0) | (y == 1)).all()):
        return [
            f"y {tuple(y.shape)} holds zeros and ones, perhaps several labels a sample: its columns are read as "
            "quantities (--kind regression confirms)"
        ]
    if kind in ("regression", "dense") and (values := looks_like_labels(y)):
        other = "classification" if kind == "regression" else "segmentation"
        return [
            f"y holds whole numbers as floats ({values}) and is read as quantities; "
            f"if they are labels, --kind {other} (--kind {kind} confirms)"
        ]
    return []
