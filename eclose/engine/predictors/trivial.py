"""Predictors that learn nothing."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from eclose.tasks import Split, Task
from eclose.tasks.splits import blocks, some

_TABLE = 2**22  # numbers of the largest table of frequencies


def trivial_models(task: Task) -> dict[str, Iterator[nn.Module]]:
    """Candidates by the name of the predictor; the best of each is kept."""
    signature, part = task.signature, some(task.train)
    if signature.labels:
        return {"most frequent class": (Constant(scores, task) for scores in _log_frequencies(part, task))}
    models: dict[str, Iterator[nn.Module]] = {
        "mean of the targets": (Constant(mean, task) for mean in _means(part, task))
    }
    if signature.kind == "dense" and not signature.tokens:
        models["mean of the input"] = _from_input(part, mean=True)
        models["copy of the input"] = _from_input(part, mean=False)
    return models


class Constant(nn.Module):
    """The same answer to every input."""

    def __init__(self, value: Tensor, task: Task) -> None:  # (outputs, *space), or with ones for the space axes
        super().__init__()
        self.value = nn.Parameter(value.float(), requires_grad=False)
        self.shape = task.signature.output_shape(1)[1:]

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, outputs)`` or ``(batch, outputs, *space)``."""
        return self.value.expand(len(x), *self.shape)


class FromInput(nn.Module):
    """Channels of the input itself, or their means over space, in the units they have."""

    def __init__(self, channels: Tensor, mean: bool) -> None:  # (outputs,): which channel each output takes
        super().__init__()
        self.channels = channels
        self.mean = mean

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``."""
        values = x[:, self.channels].float()
        return _averaged(values) if self.mean else values


def _from_input(part: Split, mean: bool) -> Iterator[nn.Module]:
    yield FromInput(closest_channels(part, mean), mean)


def closest_channels(part: Split, mean: bool) -> Tensor:
    """For every output the input channel that is nearest to it, or whose mean over space is: ``(outputs,)``."""
    squares = torch.zeros(())
    for index in blocks(part):
        x, y = (values.double() for values in part.take(index))
        x = (_averaged(x) if mean else x).transpose(0, 1).flatten(1)  # (channels, samples * positions)
        # |x - y|^2 without |y|^2, which is the same for all channels
        squares = squares + x.square().sum(1) - 2 * y.transpose(0, 1).flatten(1) @ x.T
    return squares.argmin(1)


def _averaged(values: Tensor) -> Tensor:
    """The mean over space, at every position."""
    space = tuple(range(2, values.ndim))
    return values.double().mean(space, keepdim=True).to(values.dtype).expand_as(values)


def _means(part: Split, task: Task) -> Iterator[Tensor]:
    """Of the targets: over everything, and at each position where there are positions."""
    total = torch.zeros(task.signature.output_shape(1)[1:], dtype=torch.float64)
    for index in blocks(part):
        total += part.take(index)[1].double().sum(0)
    mean = total / len(part)
    space = tuple(range(1, mean.ndim))
    if space:
        yield mean.mean(space, keepdim=True)
    yield mean


def _log_frequencies(part: Split, task: Task) -> Iterator[Tensor]:
    """Of the classes, as scores: overall, and at each position where there are positions.

    A class that does not occur counts as once; a position adds what holds for all of them, once.
    """
    classes, space = task.signature.outputs, task.signature.output_shape(1)[2:]
    positions = int(torch.tensor(space).prod())
    counts = torch.zeros(classes, dtype=torch.float64)
    by_position = torch.zeros(classes * positions if classes * positions <= _TABLE else 0, dtype=torch.float64)
    for index in blocks(part):
        y = part.take(index)[1].long().flatten(1) if space else part.take(index)[1].long()[:, None]
        counts += torch.bincount(y.flatten(), minlength=classes)
        if len(by_position):
            at = y * positions + torch.arange(positions)
            by_position += torch.bincount(at.flatten(), minlength=len(by_position))
    shares = (counts + 1) / (counts.sum() + classes)
    ones = (1,) * len(space)
    yield shares.log().view(classes, *ones)
    if space and len(by_position):
        shares = (by_position.view(classes, -1) + shares[:, None]) / (len(part) + 1)
        yield shares.log().view(classes, *space)
