"""The fit of the linear model: to the whole input, to windows around positions (one filter for all), or to tokens."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from eclose.backbones.linear import (
    FEATURES,
    Linear,
    LinearNetwork,
    Pooled,
    TokenTable,
    fewer_channels,
    linear,
    readings,
    window_of,
)
from eclose.engine.predictors.regression import columns_of, logistic
from eclose.ops.least_squares import PrincipalRidge, not_zero, ridge
from eclose.signature import Signature
from eclose.tasks import Split, Task
from eclose.tasks.splits import blocks, some

_WEIGHTS = 2**22  # of a map from whole fields to whole fields
_HELD = 2**23  # numbers of features and outputs in memory together
_SAMPLES = 1024  # whose principal directions are computed


def linear_models(task: Task) -> Iterator[LinearNetwork]:
    """Candidates; the best on validation samples is kept.

    One answer a sample: from all of the input; of tokens from their shares, those of pairs, or which is in which place.
    One a position: from a window around it, and for numbers from all of the input, too; of tokens from the one there.
    Which candidates there are, and in which order, follows from the signature alone; of inputs that are all the same
    the last one is missing.
    """
    signature = task.signature
    if signature.pooled:
        yield from whole_input(task)
    elif signature.tokens:
        yield from token_tables(task)
    else:
        yield from filters(task)
        if signature.kind == "dense":
            yield from whole_input(task) if _small(signature) else principal_input(task)


def linear_model(task: Task, place: int) -> LinearNetwork:
    """The candidate at a place, such as that which was chosen with fewer samples."""
    return next(islice(linear_models(task), place, None))


def _unfitted(signature: Signature, options: dict[str, Any]) -> LinearNetwork:
    with torch.random.fork_rng([]):
        return linear(signature, **options).requires_grad_(False)


def _filled(signature: Signature, options: dict[str, Any], **tensors: Tensor) -> LinearNetwork:
    """The network of these options with what was fitted."""
    network = _unfitted(signature, options)
    state = network.state_dict()
    assert state.keys() == tensors.keys()
    for name, tensor in tensors.items():
        state[name].copy_(tensor)
    return network


def _small(signature: Signature) -> bool:
    points = math.prod(signature.sizes)
    inputs = signature.channels * points
    return inputs <= FEATURES and inputs * signature.outputs * points <= _WEIGHTS


def whole_input(task: Task) -> Iterator[LinearNetwork]:
    """Logistic regression for classes, ridge regression for values, one model a penalty; of tokens in several ways."""
    for reads in readings(task.signature) if task.signature.tokens else [""]:
        yield from _whole_input(task, {"sees": "all", "reads": reads})


def _whole_input(task: Task, options: dict[str, Any]) -> Iterator[LinearNetwork]:
    signature, known = task.signature, dict[str, Tensor]()
    network = _unfitted(signature, options)
    assert isinstance(network, Linear)
    features = network.features
    if not isinstance(features, Pooled):
        column = columns_of(task, features.columns, features.words, len(features.column))
        features.column = known["features.column"] = column
    each = features.count + math.prod(signature.output_shape(1)[1:])
    part = some(task.train, max(2, _HELD // each))
    pairs = [(features(x if signature.tokens else x.float()), y) for x, y in map(part.take, blocks(part))]
    x, y = torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])
    mean = x.mean(0)
    x = x - mean
    spread = _spread(x, features.alike)
    x = x / spread
    if signature.labels:
        for weight, bias in logistic(x, y.long(), signature.outputs):
            yield _filled(signature, options, mean=mean, weight=weight / spread[:, None], bias=bias, **known)
        return
    y = y.double().flatten(1)
    middle = y.mean(0)
    for weight in ridge(x, y - middle):
        yield _filled(signature, options, mean=mean, weight=weight / spread[:, None], bias=middle, **known)


def principal_input(task: Task) -> Iterator[LinearNetwork]:
    """Of large fields, from all of the input by its principal directions."""
    signature = task.signature
    inputs, outputs = math.prod(signature.input_shape(1)), math.prod(signature.output_shape(1))
    part = some(task.train, max(2, min(_SAMPLES, _HELD // (inputs + outputs))))
    x, y = part.take(torch.arange(len(part)))
    x = x.float().double().flatten(1)
    mean = x.mean(0)
    spread = _spread(x - mean, math.prod(signature.sizes))
    fit = PrincipalRidge((x - mean) / spread, y.double().flatten(1), max(1, _WEIGHTS // (inputs + outputs)))
    if not len(fit.weight):  # inputs that are all the same
        return
    options = {"sees": "all", "channels": signature.channels, "cells": signature.sizes, "rank": len(fit.weight)}
    yield _filled(signature, options, mean=mean, basis=fit.basis / spread[:, None], weight=fit.weight, bias=fit.bias)


def _spread(centred: Tensor, alike: int) -> Tensor:  # (samples, features)
    """Of each feature: that of all which are alike, so that pixels which hardly change stay small."""
    by_kind = centred.view(len(centred), -1, alike).square().mean((0, 2)).sqrt()
    return not_zero(by_kind).repeat_interleave(alike)


_POSITIONS = 10_000  # windows that it is fitted to
_TARGETS = 2**22  # numbers of outputs in memory together


def filters(task: Task) -> Iterator[LinearNetwork]:
    """One a penalty; for values also with means at each position, which suit fields that have their places."""
    signature, part = task.signature, some(task.train)
    x_mean, y_mean = _means(part, signature)
    yield from _fitted(part, signature, _overall(x_mean), _overall(y_mean))
    if not signature.labels:
        yield from _fitted(part, signature, x_mean, y_mean, pointwise=True)


def _fitted(
    part: Split, signature: Signature, x_mean: Tensor, y_mean: Tensor, pointwise: bool = False
) -> Iterator[LinearNetwork]:
    window, options = window_of(signature), {"sees": "near", "pointwise": pointwise}
    x, y = _sampled(part, signature, x_mean, window)
    spread = _spread(x, x.shape[1] // len(x_mean))
    x = x / spread
    ones = (1,) * signature.axes
    shape = (signature.outputs, len(x_mean), *window)
    if signature.labels:
        for weight, bias in logistic(x, y.long(), signature.outputs):
            weight = (weight / spread[:, None]).T.reshape(shape)
            yield _filled(signature, options, mean=x_mean, weight=weight, bias=bias.view(-1, *ones))
        return
    for weight in ridge(x, y - y.mean(0)):
        weight = (weight / spread[:, None]).T.reshape(shape)
        yield _filled(signature, options, mean=x_mean, weight=weight, bias=y_mean)


def _means(part: Split, signature: Signature) -> tuple[Tensor, Tensor]:
    """Of inputs and of continuous targets, at each position."""
    channels = min(signature.channels, FEATURES)
    x_sum = torch.zeros(channels, *signature.sizes, dtype=torch.float64)
    y_sum = torch.zeros(signature.outputs, *signature.sizes, dtype=torch.float64)
    for index in blocks(part):
        x, y = part.take(index)
        x_sum += fewer_channels(x.float().double(), channels).sum(0)
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
        padded = functional.pad(fewer_channels(x.float().double(), len(mean)) - mean, padding)
        for axis, size in enumerate(window):
            padded = padded.unfold(2 + axis, size, 1)  # (batch, channels, *space, *window)
        # Other positions in every sample, so that together they cover the field.
        flat = (spaced + 7919 * index[:, None]) % points
        sample = torch.arange(len(index))[:, None].expand_as(flat).flatten()
        where: list[Any] = list(torch.unravel_index(flat.flatten(), signature.sizes))
        windows.append(padded[sample, :, *where].flatten(1))
        targets.append(y[sample, *where] if signature.labels else y[sample, :, *where].double())
    return torch.cat(windows), torch.cat(targets)


_PRIORS = (0.1, 1.0, 10.0, 100.0)  # of what holds for all tokens, in occurrences


def token_tables(task: Task) -> Iterator[LinearNetwork]:
    """Mean of the targets, or log-frequencies of the classes, by token; rare tokens follow the average of all."""
    signature, options = task.signature, {"sees": "near"}
    network = _unfitted(signature, options)
    assert isinstance(network, TokenTable)
    column = columns_of(task, len(network.table))
    totals, counts = _gathered(task, column)  # (columns, outputs), (columns,)
    average = totals.sum(0) / counts.sum()
    if signature.labels:
        average = (totals.sum(0) + 1) / (counts.sum() + signature.outputs)
    for weight in _PRIORS:
        table = (totals + weight * average) / (counts + weight)[:, None]
        yield _filled(signature, options, column=column, table=table.log() if signature.labels else table)


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
