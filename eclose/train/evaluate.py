"""Metrics and predictions of a trained model."""

import torch
from torch import Tensor, nn

from eclose.train.data import Batches
from eclose.train.metrics import Metric
from eclose.train.parallel import World
from eclose.train.step import autocast
from eclose.train.verbs import one_pass

_BATCH = 256


def evaluate(
    model: nn.Module,
    data: Batches,
    metric: Metric,
    world: World,
    precision: str = "float32",
    batch: int = _BATCH,
) -> float:
    """The metric over all samples; every process takes its share."""
    meter = metric.meter()
    rows = torch.arange(len(data))[world.share(len(data))]
    training = model.training
    model.eval()
    with torch.no_grad(), one_pass(model):
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


def predict(model: nn.Module, x: Tensor, device: torch.device, batch: int = _BATCH) -> Tensor:
    """Outputs for all of ``x``, on the CPU."""
    model.eval()
    with torch.no_grad(), one_pass(model):
        return torch.cat([model(part.to(device)).float().cpu() for part in x.split(batch)])
