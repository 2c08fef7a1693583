"""How long a forward pass takes, by the clock."""

import statistics
import time

import torch
from torch import Tensor, nn

from eclose.train.step import autocast

_WARM_UP = 3  # passes: the first ones choose kernels and fill caches
_PASSES = 5  # at least
_SECONDS = 0.1  # at least: a small network is passed until then, so that its median is worth something


def measure_latency(model: nn.Module, x: Tensor, precision: str = "float32") -> float:
    """Milliseconds of ``model(x)`` in eval mode: the median of several passes after some to warm up."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        for _ in range(_WARM_UP):
            _seconds(model, x, precision)
        times: list[float] = []
        while len(times) < _PASSES or sum(times) < _SECONDS:
            times.append(_seconds(model, x, precision))
    finally:
        for module, mode in modes.items():
            module.training = mode
    return 1000 * statistics.median(times)


@torch.no_grad()
def _seconds(model: nn.Module, x: Tensor, precision: str) -> float:
    begun = _now(x.device)
    with autocast(precision, x.device):
        model(x)
    return _now(x.device) - begun


def _now(device: torch.device) -> float:
    """The clock once the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
