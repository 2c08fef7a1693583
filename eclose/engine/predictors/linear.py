"""The linear model: of the whole input, of a window around a position (one filter for all of them), or of tokens."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eclose.engine.predictors.regression import (
    FEATURES,
    Pooled,
    TokenShares,
    columns_of,
    fewer_channels,
    logistic,
    not_zero,
    ridge,
)
from eclose.signature import Signature
from eclose.tasks import Split, Task
from eclose.tasks.splits import blocks, some

_WEIGHTS = 2**22  # of a map from whole fields to whole fields
_HELD = 2**23  # numbers of features and outputs in memory together


def linear_models(task: Task) -> Iterator[nn.Module]:
    """Candidates; the best on validation samples is kept.

    One answer a sample: from all of the input. One a position: from a window around it and, where the fields are
    small, from all of the input too. Tokens: from their shares, or from the token at the position.
    """
    signature = task.signature
    if signature.pooled:
        yield from whole_input(task, TokenShares(task) if signature.tokens else Pooled(signature))
    elif signature.tokens:
        yield from token_tables(task)
    else:
        yield from filters(task)
        if signature.kind == "dense" and _small(signature):
            yield from whole_input(task, Pooled(signature))


def _small(signature: Signature) -> bool:
    points = math.prod(signature.sizes)
    inputs = signature.channels * points
    return inputs <= FEATURES and inputs * signature.outputs * points <= _WEIGHTS


class Linear(nn.Module):
    """``(features(x) - mean) weight + bias``."""

    def __init__(self, features: nn.Module, mean: Tensor, weight: Tensor, bias: Tensor, task: Task) -> None:
        super().__init__()
        self.features = features
        self.mean = nn.Parameter(mean, requires_grad=False)
        self.weight = nn.Parameter(weight.float(), requires_grad=False)
        self.bias = nn.Parameter(bias.float(), requires_grad=False)
        self.shape = task.signature.output_shape(1)[1:]

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs)`` or ``(batch, outputs, *space)``."""
        centred = (self.features(x) - self.mean).float()
        return (centred @ self.weight + self.bias).view(len(x), *self.shape)


def whole_input(task: Task, features: Pooled | TokenShares) -> Iterator[Linear]:
    """Logistic regression for classes, ridge regression for values, one model a penalty."""
    signature = task.signature
    each = features.count + math.prod(signature.output_shape(1)[1:])
    part = some(task.train, max(2, _HELD // each))
    pairs = [(features(x), y) for x, y in map(part.take, blocks(part))]
    x, y = torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])
    mean = x.mean(0)
    x = x - mean
    spread = features.spread(x)
    x = x / spread
    if signature.labels:
        for weight, bias in logistic(x, y.long(), signature.outputs):
            yield Linear(features, mean, weight / spread[:, None], bias, task)
        return
    y = y.double().flatten(1)
    middle = y.mean(0)
    for weight in ridge(x, y - middle):
        yield Linear(features, mean, weight / spread[:, None], middle, task)


_WINDOW = 256  # values that a filter sees at most, unless there are more channels
_POSITIONS = 10_000  # windows that it is fitted to
_TARGETS = 2**22  # numbers of outputs in memory together

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


class Filter(nn.Module):
    """``bias + weight * (x - mean)``; beyond the edge lies the mean."""

    def __init__(self, mean: Tensor, weight: Tensor, bias: Tensor) -> None:
        # (channels, *space), (outputs, channels, *window), (outputs, *space), or with ones for the space axes
        super().__init__()
        self.mean = nn.Parameter(mean, requires_grad=False)
        self.weight = nn.Parameter(weight.float(), requires_grad=False)
        self.bias = nn.Parameter(bias.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``."""
        centred = (fewer_channels(x.double(), len(self.mean)) - self.mean).float()
        reach = [size // 2 for size in self.weight.shape[2:]]
        filtered: Tensor = _CONV[len(reach)](centred, self.weight, padding=reach)
        return filtered + self.bias


def filters(task: Task) -> Iterator[Filter]:
    """One a penalty; for values also with means at each position, which suit fields that have their places."""
    signature, part = task.signature, some(task.train)
    x_mean, y_mean = _means(part, signature)
    yield from _fitted(part, signature, _overall(x_mean), _overall(y_mean))
    if not signature.labels:
        yield from _fitted(part, signature, x_mean, y_mean)


def _fitted(part: Split, signature: Signature, x_mean: Tensor, y_mean: Tensor) -> Iterator[Filter]:
    window = _window(signature)
    x, y = _sampled(part, signature, x_mean, window)
    by_channel = x.view(len(x), len(x_mean), -1)
    spread = not_zero(by_channel.square().mean((0, 2)).sqrt()).repeat_interleave(by_channel.shape[2])
    x = x / spread
    ones = (1,) * signature.axes
    shape = (signature.outputs, len(x_mean), *window)
    if signature.labels:
        for weight, bias in logistic(x, y.long(), signature.outputs):
            yield Filter(x_mean, (weight / spread[:, None]).T.reshape(shape), bias.view(-1, *ones))
        return
    for weight in ridge(x, y - y.mean(0)):
        yield Filter(x_mean, (weight / spread[:, None]).T.reshape(shape), y_mean)


def _window(signature: Signature) -> tuple[int, ...]:
    """The largest window of odd sizes that is small enough; no larger than reaches from edge to edge."""
    channels, size = min(signature.channels, FEATURES), 1
    while channels * (size + 2) ** signature.axes <= _WINDOW:
        size += 2
    return tuple(min(size, 2 * points - 1) for points in signature.sizes)


def _means(part: Split, signature: Signature) -> tuple[Tensor, Tensor]:
    """Of inputs and of continuous targets, at each position."""
    channels = min(signature.channels, FEATURES)
    x_sum = torch.zeros(channels, *signature.sizes, dtype=torch.float64)
    y_sum = torch.zeros(signature.outputs, *signature.sizes, dtype=torch.float64)
    for index in blocks(part):
        x, y = part.take(index)
        x_sum += fewer_channels(x.double(), channels).sum(0)
        if not signature.labels:
            y_sum += y.double().sum(0)
    return x_sum / len(part), y_sum / len(part)


def _overall(mean: Tensor) -> Tensor:
    return mean.mean(tuple(range(1, mean.ndim)), keepdim=True)


def _sampled(part: Split, signature: Signature, mean: Tensor, window: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Windows ``(n, channels * window)`` of centred inputs, and targets ``(n, outputs)`` or labels ``(n,)`` there."""
    points = math.prod(signature.sizes)
    wanted = min(_POSITIONS, _TARGETS // signature.outputs)
    each = min(points, math.ceil(wanted / len(part)))
    spaced = torch.arange(each) * points // each
    padding = [size // 2 for size in reversed(window) for _ in range(2)]
    windows, targets = [], []
    for index in blocks(part):
        x, y = part.take(index)
        padded = functional.pad(fewer_channels(x.double(), len(mean)) - mean, padding)
        for axis, size in enumerate(window):
            padded = padded.unfold(2 + axis, size, 1)  # (batch, channels, *space, *window)
        # Other positions in every sample, so that together they cover the field.
        flat = (spaced + 7919 * index[:, None]) % points
        sample = torch.arange(len(index))[:, None].expand_as(flat).flatten()
        where: list[Any] = list(torch.unravel_index(flat.flatten(), signature.sizes))
        windows.append(padded[sample, :, *where].flatten(1))
        targets.append(y[sample, *where] if signature.labels else y[sample, :, *where].double())
    return torch.cat(windows), torch.cat(targets)


_TABLE = 2**22  # numbers in a table
_PRIORS = (0.1, 1.0, 10.0, 100.0)  # of what holds for all tokens, in occurrences


class TokenTable(nn.Module):
    """What to say where a token stands."""

    def __init__(self, column: Tensor, table: Tensor) -> None:  # (vocabulary,), (columns, outputs)
        super().__init__()
        self.column = column
        self.table = nn.Parameter(table.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length)
        """``(batch, outputs, length)``."""
        return self.table[self.column[x.long()]].movedim(-1, 1)


def token_tables(task: Task) -> Iterator[TokenTable]:
    """Mean of the targets, or log-frequencies of the classes, by token; rare tokens follow the average of all."""
    signature = task.signature
    column = columns_of(task, max(1, _TABLE // signature.outputs))
    totals, counts = _gathered(task, column)  # (columns, outputs), (columns,)
    average = totals.sum(0) / counts.sum()
    if signature.labels:
        average = (totals.sum(0) + 1) / (counts.sum() + signature.outputs)
    for weight in _PRIORS:
        table = (totals + weight * average) / (counts + weight)[:, None]
        yield TokenTable(column, table.log() if signature.labels else table)


def _gathered(task: Task, column: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of the targets (classes as zeros and a one) and numbers of occurrences, by column."""
    part, outputs, columns = some(task.train), task.signature.outputs, int(column.max()) + 1
    totals = torch.zeros(columns, outputs, dtype=torch.float64)
    counts = torch.zeros(columns, dtype=torch.float64)
    for index in blocks(part):
        x, y = part.take(index)
        where = column[x.long()].flatten()
        counts += torch.bincount(where, minlength=columns)
        if task.signature.labels:
            pairs = torch.bincount(where * outputs + y.long().flatten(), minlength=columns * outputs)
            totals += pairs.view(columns, outputs)
        else:
            totals.index_add_(0, where, y.double().movedim(1, -1).reshape(-1, outputs))
    return totals, counts
