"""One linear map: of the whole input, of a window around each position (one filter for all), or of tokens.

Inputs are rounded to the precision of the weights, as in any network. Then they are centred in double precision, so
that inputs far from zero lose nothing. Products keep all digits: fitted weights may cancel each other.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eclose.backbones.factory import backbones
from eclose.backbones.needs import need_at_least, need_odd, need_pooled
from eclose.errors import ConfigError
from eclose.ops.precision import all_digits
from eclose.signature import Signature

FEATURES = 1024  # numbers of an input that a map of all of it sees at most
_WINDOW = 256  # values that a filter sees at most, unless there are more channels
_TABLE = 2**22  # numbers in a table of tokens
_PAIRS = 2**16  # of neighbouring tokens at most, of which the usual ones count
SHARES, PAIRS, PLACES = "shares", "pairs", "places"  # what a map reads of a sequence of tokens

_POOL: dict[int, Callable[..., Tensor]] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}
_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


class LinearNetwork(nn.Module):
    """A linear map that knows its name and the options it was made with."""

    backbone = "linear"
    options: dict[str, Any]


class Pooled(nn.Module):
    """The input, averaged over cells of a coarser grid where it has more than ``FEATURES`` values."""

    def __init__(self, channels: int, cells: tuple[int, ...]) -> None:
        super().__init__()
        self.channels = channels
        self.cells = cells
        self.alike = math.prod(cells)  # neighbouring features of one kind: those of a channel
        self.count = channels * self.alike

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, count)``, double."""
        values = fewer_channels(x.double(), self.channels)
        if values.shape[2:] != self.cells:
            values = _POOL[len(self.cells)](values, self.cells)
        return values.flatten(1)


class TokenShares(nn.Module):
    """How often each token of a sequence occurs, or each pair of neighbours, as a share; rare ones count together."""

    column: Tensor

    def __init__(self, vocabulary: int, columns: int, together: int = 1) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.together = together
        self.register_buffer("column", torch.arange(vocabulary**together).clamp_max(columns - 1))
        self.alike = 1
        self.count = self.columns = columns

    def words(self, x: Tensor) -> Tensor:  # (batch, length)
        """What is counted: ``(batch, length)`` tokens, or ``(batch, length - 1)`` pairs, as numbers."""
        x = x.long()
        return x if self.together == 1 else x[:, :-1] * self.vocabulary + x[:, 1:]

    def forward(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, count)``, double."""
        columns = self.column[self.words(x)]
        ones = torch.ones_like(columns, dtype=torch.float64)
        return ones.new_zeros(x.shape[0], self.count).scatter_add(1, columns, ones) / columns.shape[1]


class TokenPlaces(nn.Module):
    """Which token stands at each place of a sequence, as zeros and a one; rare ones are alike."""

    column: Tensor

    def __init__(self, vocabulary: int, columns: int, length: int) -> None:
        super().__init__()
        self.register_buffer("column", torch.arange(vocabulary).clamp_max(columns - 1))
        self.columns = columns
        self.alike = self.count = columns * length

    def words(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, length)`` tokens."""
        return x.long()

    def forward(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, count)``, double."""
        return functional.one_hot(self.column[self.words(x)], self.columns).flatten(1).double()


TokenFeatures = TokenShares | TokenPlaces


class Linear(LinearNetwork):
    """``(features(x) - mean) weight + bias``, or ``basis weight`` in place of ``weight``, which has fewer numbers."""

    def __init__(self, features: Pooled | TokenFeatures, shape: tuple[int, ...], rank: int = 0) -> None:
        super().__init__()
        self.features = features
        self.shape = shape
        outputs, seen = math.prod(shape), rank or features.count
        self.mean = nn.Parameter(torch.zeros(features.count, dtype=torch.float64))
        self.basis = nn.Parameter(torch.randn(features.count, rank) / math.sqrt(features.count)) if rank else None
        self.weight = nn.Parameter(torch.randn(seen, outputs) / math.sqrt(seen))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs)`` or ``(batch, outputs, *space)``."""
        seen = x.to(self.weight.dtype) if isinstance(self.features, Pooled) else x
        centred = (self.features(seen) - self.mean).to(self.weight.dtype)
        with all_digits(x.device.type):
            seen = centred if self.basis is None else centred @ self.basis
            return (seen @ self.weight + self.bias).view(x.shape[0], *self.shape)


class Filter(LinearNetwork):
    """``bias + weight * (x - mean)``; beyond the edge lies the mean."""

    def __init__(self, mean: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...]) -> None:
        # (channels, *space), (outputs, channels, *window), (outputs, *space), or with ones for the space axes
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(mean, dtype=torch.float64))
        self.weight = nn.Parameter(torch.randn(weight) / math.sqrt(math.prod(weight[1:])))
        self.bias = nn.Parameter(torch.zeros(bias))

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``."""
        rounded = x.to(self.weight.dtype).double()
        centred = (fewer_channels(rounded, len(self.mean)) - self.mean).to(self.weight.dtype)
        reach = [size // 2 for size in self.weight.shape[2:]]
        with all_digits(x.device.type):
            filtered: Tensor = _CONV[len(reach)](centred, self.weight, padding=reach)
        return filtered + self.bias


class TokenTable(LinearNetwork):
    """What to say where a token stands."""

    column: Tensor

    def __init__(self, vocabulary: int, columns: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("column", torch.arange(vocabulary).clamp_max(columns - 1))
        self.table = nn.Parameter(torch.randn(columns, outputs))

    def forward(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, outputs, length)``."""
        return self.table[self.column[x.long()]].movedim(-1, 1)


def _effective(signature: Signature, **options: Any) -> dict[str, Any]:
    """What it sees of the input, where nobody says."""
    if options["sees"] not in ("", "all", "near"):
        raise ConfigError(f"backbone.sees is {options['sees']!r}, but must be one of: all, near")
    need_at_least("linear", 0, channels=options["channels"], columns=options["columns"], rank=options["rank"])
    for size in options["window"]:
        need_odd("linear", window=size)
    options["sees"] = options["sees"] or ("all" if signature.pooled else "near")
    every = options["sees"] == "all"
    if options["reads"] and not (every and signature.tokens):
        raise ConfigError("backbone.reads is for one answer to a sequence of tokens: leave it out")
    if signature.tokens:
        return {**options, **(_token_columns(signature, options) if every else _table_columns(signature, options))}
    channels = options["channels"] = options["channels"] or min(signature.channels, FEATURES)
    if every:
        return {**options, "cells": cells_of("linear", signature, options["cells"], FEATURES // channels)}
    return {**options, "window": tuple(options["window"]) or window_of(signature)}


def _token_columns(signature: Signature, options: dict[str, Any]) -> dict[str, Any]:
    """Of a map of whole sequences, within as many numbers as any map sees at most."""
    reads, known = options["reads"] or SHARES, readings(signature)
    if reads not in known:
        raise ConfigError(f"backbone.reads is {reads!r}, but must be one of: {', '.join(known)}")
    words = signature.vocabulary ** (2 if reads == PAIRS else 1)
    most = FEATURES // (signature.sizes[0] if reads == PLACES else 1)
    return {"reads": reads, "columns": options["columns"] or min(most, words)}


def _table_columns(signature: Signature, options: dict[str, Any]) -> dict[str, Any]:
    return {"columns": options["columns"] or min(max(1, _TABLE // signature.outputs), signature.vocabulary)}


def readings(signature: Signature) -> list[str]:
    """What a map may read of sequences: of many tokens no pairs, of long sequences no places."""
    length, vocabulary = signature.sizes[0], signature.vocabulary
    pairs = [PAIRS] if length > 1 and vocabulary**2 <= _PAIRS else []
    places = [PLACES] if length * min(vocabulary, 3) <= FEATURES else []
    return [SHARES, *pairs, *places]


@backbones.register("linear", effective=_effective)
def linear(
    signature: Signature,
    *,
    sees: str = "",
    channels: int = 0,
    cells: tuple[int, ...] = (),
    window: tuple[int, ...] = (),
    pointwise: bool = False,
    reads: str = "",
    columns: int = 0,
    rank: int = 0,
) -> LinearNetwork:
    """One linear map of the input: of all of it, or of what is near a position (one filter for all positions).

    ``sees``: ``all`` or ``near``. ``pointwise``: a filter has means of its own at every position. ``reads``: of a
    sequence of tokens the ``shares`` of tokens, of ``pairs`` of neighbours, or which token is in which of its
    ``places``. ``rank``: a map of all of the input goes through so many numbers; 0: directly. All else follows from
    the input.
    """
    given = {"sees": sees, "channels": channels, "cells": cells, "window": window, "columns": columns, "rank": rank}
    options = _effective(signature, **given, reads=reads, pointwise=pointwise)
    network = _made(signature, options)
    network.options = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}
    return network


def _made(signature: Signature, options: dict[str, Any]) -> LinearNetwork:
    shape = tuple(signature.output_shape(1)[1:])
    if options["sees"] == "all":
        if signature.tokens:
            need_pooled("linear", signature)
            return Linear(_token_features(signature, options), shape)
        return Linear(Pooled(options["channels"], tuple(options["cells"])), shape, options["rank"])
    if signature.pooled:
        raise ConfigError(f"backbone.sees is 'near', but {signature.kind} has no positions: leave it out")
    if signature.tokens:
        return TokenTable(signature.vocabulary, options["columns"], signature.outputs)
    ones = (1,) * signature.axes
    places = tuple(signature.sizes) if options["pointwise"] else ones
    weight = (signature.outputs, options["channels"], *options["window"])
    return Filter((options["channels"], *places), weight, (signature.outputs, *places))


def _token_features(signature: Signature, options: dict[str, Any]) -> TokenFeatures:
    if options["reads"] == PLACES:
        return TokenPlaces(signature.vocabulary, options["columns"], signature.sizes[0])
    return TokenShares(signature.vocabulary, options["columns"], 2 if options["reads"] == PAIRS else 1)


def window_of(signature: Signature) -> tuple[int, ...]:
    """The largest window of odd sizes that is small enough; no larger than reaches from edge to edge."""
    channels, size = min(signature.channels, FEATURES), 1
    while channels * (size + 2) ** signature.axes <= _WINDOW:
        size += 2
    return tuple(min(size, 2 * points - 1) for points in signature.sizes)


def fewer_channels(values: Tensor, count: int) -> Tensor:
    """Neighbouring channels averaged, where there are more than ``count``."""
    if values.shape[1] == count:
        return values
    flat = values.flatten(2).transpose(1, 2)  # (batch, positions, channels)
    fewer = functional.adaptive_avg_pool1d(flat, count).transpose(1, 2)
    return fewer.reshape(values.shape[0], count, *values.shape[2:])


def cells_of(name: str, signature: Signature, given: Sequence[int], most: int) -> tuple[int, ...]:
    """The grid that the input is averaged to: the given one, or one of at most ``most`` cells."""
    sizes = signature.sizes
    if given and not (len(given) == len(sizes) and all(1 <= n <= size for n, size in zip(given, sizes, strict=True))):
        one = "one size" if len(sizes) == 1 else f"{len(sizes)} sizes"
        shape = " x ".join(map(str, sizes))
        raise ConfigError(f"backbone.cells is {list(given)}, but '{name}' needs {one} from 1 to the input's ({shape})")
    return tuple(given) or coarser(sizes, most)


def coarser(space: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The sizes of a grid of at most ``most`` cells, of about the same shape."""
    shrink = max(1.0, (math.prod(space) / most) ** (1 / len(space)))
    sizes = [min(size, math.ceil(size / shrink)) for size in space]
    while math.prod(sizes) > most:
        sizes[sizes.index(max(sizes))] -= 1
    return tuple(sizes)
