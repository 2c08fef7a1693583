"""The fit of random filters: thresholds from samples, then ridge regression, whose penalty leaving one out decides."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from eclose.backbones.random_filters import TAPS, THRESHOLDS, RandomFilters, random_filters, usual_filters
from eclose.ops.least_squares import mean_or_one, not_zero, spectrum
from eclose.signature import Signature
from eclose.tasks import Split, Task
from eclose.tasks.splits import blocks, some

_HELD = 2**24  # numbers of features in memory together
_FITTED = 10_000  # samples at most
_AT_ONCE = 128  # samples that are filtered together
_JUDGES = 64  # samples that thresholds are taken from
_MARGIN = 1e-3  # of thresholds above the values they are taken from; outputs of filters are of the order of 1
_PENALTIES = (1e2, 1e1, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # in units of the mean eigenvalue
_SCALES = tuple(2.0 ** (step / 2) for step in range(7))  # of the scores of classes, from unsure to sure
# Operations a second on one core: of filters and their thresholds, of matrices.
_FILTERING, _ALGEBRA = 3e9, 1e10
_FEWEST = 32  # filters that are worth anything


def filters_for(task: Task, seconds: float) -> int:
    """How many filters there is time for, to fit and to judge them; 0: none, or they do not suit the data."""
    signature = task.signature
    if not signature.pooled or signature.tokens or len(task.train) < 2:
        return 0
    filters = usual_filters(signature)
    while filters >= _FEWEST and _seconds(task, filters) > seconds:
        filters = int(filters * 0.7)
    return filters if filters >= _FEWEST else 0


def _seconds(task: Task, filters: int) -> float:
    """About what the fit and the judging take."""
    signature, features = task.signature, THRESHOLDS * filters
    fitted = min(len(task.train), _most(features))
    samples = fitted + len(task.val) + (len(task.test) if task.test is not None else 0)
    each = 2 * signature.channels * TAPS[signature.axes] ** signature.axes + 6 * THRESHOLDS
    small = min(fitted, features)
    algebra = 2 * fitted * features * small + 10 * small**3
    return samples * math.prod(signature.sizes) * filters * each / _FILTERING + algebra / _ALGEBRA


def _most(features: int) -> int:
    """How many samples are fitted."""
    return max(2, min(_FITTED, _HELD // features))


def fit_random_filters(task: Task, filters: int) -> RandomFilters:
    """The same filters whenever it is called with as many."""
    signature = task.signature
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = random_filters(signature, filters=filters).requires_grad_(False)
        part = some(task.train, _most(len(network.mean)))
        _take_scale(network, part)
        _take_thresholds(network, part)
    some_at_once = torch.arange(len(part)).split(_AT_ONCE)
    pairs = [(network.features(x.float()), y) for x, y in map(part.take, some_at_once)]
    x, y = torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])
    mean = x.double().mean(0)
    x = x.double() - mean
    spread = not_zero(x.square().mean(0).sqrt())
    targets = functional.one_hot(y.long(), signature.outputs) * 2.0 - 1.0 if signature.labels else y.flatten(1)
    weight, bias = _regression(x / spread, targets.double(), signature)
    network.mean.copy_(mean)
    network.weight.copy_(weight / spread[:, None])
    network.bias.copy_(bias)
    return network


def _take_scale(network: RandomFilters, part: Split) -> None:
    """Mean and spread of every channel; in two passes, so that values far from zero lose nothing."""
    network.middle.copy_(_mean(part, lambda x: x))
    network.spread.copy_(not_zero(_mean(part, lambda x: (x - network.middle).square()).sqrt()))


def _mean(part: Split, of: Callable[[Tensor], Tensor]) -> Tensor:
    """By channel, over all samples and positions."""
    sums = []
    for index in blocks(part):
        x = of(part.take(index)[0].float().double())
        sums.append(x.mean(tuple(range(2, x.ndim)), keepdim=True).sum(0))
    return torch.stack(sums).sum(0) / len(part)


def _take_thresholds(network: RandomFilters, part: Split) -> None:
    """A little more than what a filter gives at a random position of a random sample.

    Where the input is flat, all filters give zero, but for rounding: it must not decide what exceeds a threshold.
    """
    chosen = torch.randint(len(part), (min(_JUDGES, len(part)),))
    x = network.scaled(part.take(chosen)[0].float())
    for values, piece in network.filtered(x):  # (samples, filters, positions)
        filters = torch.arange(values.shape[1])
        for threshold in network.thresholds[:, piece]:
            sample = torch.randint(values.shape[0], filters.shape)
            position = torch.randint(values.shape[2], filters.shape)
            threshold.copy_(values[sample, filters, position] + _MARGIN)


@dataclass(frozen=True)
class _Fit:
    """With one penalty: how good it is where every sample is left out once, and what it then says of each."""

    quality: tuple[float, float]
    factors: Tensor  # of the directions
    left_out: Tensor  # (n, outputs)


def _regression(x: Tensor, y: Tensor, signature: Signature) -> tuple[Tensor, Tensor]:
    """Weights ``(features, outputs)`` and biases; x and y are ``(n, ...)`` in double precision, x is centred."""
    middle = y.mean(0)
    y = y - middle
    values, vectors, dual = spectrum(x)
    unit = mean_or_one(values)
    size = not_zero(values.sqrt())
    left = vectors if dual else x @ vectors / size  # singular vectors
    right = x.T @ vectors / size if dual else vectors
    along = left.T @ y
    shrunk = [values / (values + penalty * unit) for penalty in _PENALTIES]
    best = max((_left_out(each, left, along, y, middle, signature) for each in shrunk), key=lambda fit: fit.quality)
    weight = right @ ((best.factors / size)[:, None] * along)
    scale = _surest(best.left_out, y + middle) if signature.labels else 1.0
    return weight * scale, middle * scale


def _left_out(factors: Tensor, left: Tensor, along: Tensor, y: Tensor, middle: Tensor, signature: Signature) -> _Fit:
    """Residuals of a linear fit grow by ``1 / (1 - leverage)`` where their sample is left out."""
    fitted = left @ (factors[:, None] * along)
    leverage = left.square() @ factors + 1 / len(y)
    residual = (y - fitted) / (1 - leverage).clamp_min(1e-9)[:, None]
    scores = y - residual + middle
    error = float((residual.square().mean(0) / not_zero(y.square().mean(0))).mean())
    right = (scores.argmax(1) == (y + middle).argmax(1)).double().mean() if signature.labels else 0.0
    return _Fit((float(right), -error), factors, scores)


def _surest(scores: Tensor, targets: Tensor) -> float:
    """The scale of scores by which the samples that were left out are likeliest."""
    labels = targets.argmax(1)
    losses = [float(functional.cross_entropy(scale * scores, labels)) for scale in _SCALES]
    return _SCALES[losses.index(min(losses))]
