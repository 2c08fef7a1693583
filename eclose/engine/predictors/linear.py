"""The linear model: of the whole input, of a window around a position, or of tokens."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from eclose.engine.predictors.choice import some
from eclose.engine.predictors.features import FEATURES, Pooled, TokenShares
from eclose.engine.predictors.solve import logistic, ridge
from eclose.engine.predictors.tokens import token_tables
from eclose.engine.predictors.windows import filters
from eclose.signature import Signature
from eclose.tasks import Task
from eclose.tasks.scale import blocks

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
