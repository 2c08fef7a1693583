"""Metrics and predictions of a trained model."""

import math

import torch
from torch import Tensor, nn

from eclose.train.data import Batches
from eclose.train.device import passing_shapes
from eclose.train.metrics import Metric
from eclose.train.module_hooks import one_pass
from eclose.train.parallel import World
from eclose.train.step import autocast

_BATCH = 256
_NUMBERS = 2**20  # in a batch on a GPU, where 256 small inputs would wait for launches
_LARGEST = 2048


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
