"""Metrics and predictions of a trained model, and whether it answers the same whatever it is shown."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from eclose.tasks import Task
from eclose.tasks.splits import spread
from eclose.train.data import Batches
from eclose.train.device import passing_shapes
from eclose.train.metrics import Metric
from eclose.train.module_hooks import one_pass
from eclose.train.parallel import World
from eclose.train.step import autocast

_BATCH = 256
_NUMBERS = 2**20  # in a batch on a GPU, where 256 small inputs would wait for launches
_LARGEST = 2048
_SAMPLES = 256
_FLAT = 1e-4  # variance of answers as a part of that of the targets: a hundredth of their spread


def evaluate(
    model: nn.Module,
    data: Batches,
    metric: Metric,
    world: World,
    precision: str = "float32",
    batch: int = 0,
) -> float:
    """The metric over all samples, in batches that suit the device unless told; every process takes its share."""
    meter = metric.meter()
    rows = torch.arange(len(data))[world.share(len(data))]
    batch = batch or samples_at_once(data)
    training = model.training
    model.eval()
    with torch.no_grad(), one_pass(model), passing_shapes():
        for x, y in data.batches(list(rows.split(batch)) if len(rows) else []):
            with autocast(precision, data.device):
                prediction = model(x)
            meter.update(prediction, y)
    model.train(training)
    if world.size > 1:
        states = world.gather([part.cpu() for part in meter.state()])
        meter = metric.meter()
        for state in states:
            meter.merge(state)
    return meter.value()


def samples_at_once(data: Batches) -> int:
    """How many samples are evaluated at a time: on a GPU more where they are small."""
    if data.device.type != "cuda":
        return _BATCH
    signature = data.signature
    return max(_BATCH, min(_LARGEST, _NUMBERS // (signature.channels * math.prod(signature.sizes))))


def predict(model: nn.Module, x: Tensor, device: torch.device, batch: int = _BATCH) -> Tensor:
    """Outputs for all of ``x``, on the CPU."""
    model.eval()
    with torch.no_grad(), one_pass(model), passing_shapes():
        return torch.cat([model(part.to(device)).float().cpu() for part in x.split(batch)])


def is_constant(model: nn.Module, task: Task, device: torch.device) -> bool:
    """Whether the answers to validation samples (training samples, where there are none) hardly vary.

    They are compared with what the targets do: where these do not vary, a constant is right.
    """
    split = task.val if len(task.val) else task.train
    rows = spread(len(split), _SAMPLES)
    if len(rows) < 2:
        return False
    ((x, y),) = Batches(split.select(rows), task.signature, device).batches([torch.arange(len(rows))])
    training = model.training
    model.eval()
    with torch.no_grad(), one_pass(model), passing_shapes():
        answers = model(x).double()  # (samples, outputs, *space)
    model.train(training)
    if not task.signature.labels:
        return _hardly(_spread(answers), _spread(y.double()))
    classes = answers.argmax(1)
    targets = functional.one_hot(y, answers.shape[1]).movedim(-1, 1).double()
    flat = _hardly(_spread(answers.softmax(1)).sum(0, True), _spread(targets).sum(0, True))
    return flat and bool((classes == classes[0]).all())


def _spread(values: Tensor) -> Tensor:
    """Variance over the samples, summed over space: ``(outputs,)``."""
    return values.var(0).reshape(values.shape[1], -1).sum(1)


def _hardly(ours: Tensor, wanted: Tensor) -> bool:
    """Whether every output that has something to follow hardly does; NaN is no answer."""
    follows = wanted > 0
    return bool(follows.any() and (ours < _FLAT * wanted)[follows].all())
