"""What a network costs: trainable parameters, floating-point operations of one sample, time of a forward pass."""

import math
import statistics
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from eclose.signature import Signature
from eclose.train.device import passing_shapes, seconds_now
from eclose.train.step import autocast


@dataclass(frozen=True)
class NetworkCost:
    """Size and work of a network."""

    parameters: int
    flops: int  # a multiply-add counts two; an FFT of n points 5 n log2 n (2.5 for a real one)


def measure_cost(model: nn.Module, signature: Signature, device: torch.device) -> NetworkCost:
    """Count by running one sample; matrix products, convolutions, attention and Fourier transforms count.

    What a network prepares once and keeps (the matrices of XD-operations) is no work of a sample, so that a network
    costs the same whether it was just loaded or has been in use. Modules that serve training only are left out.
    """
    aside = {
        id(p) for module in model.modules() if getattr(module, "only_in_training", False) for p in module.parameters()
    }
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad and id(p) not in aside)
    shape = signature.input_shape(1)
    x = torch.zeros(shape, dtype=torch.long if signature.tokens else torch.float32, device=device)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad(), passing_shapes():
            model(x)  # prepares
            with FlopCounterMode(display=False, custom_mapping=_TRANSFORMS) as counter:
                model(x)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return NetworkCost(parameters, int(counter.get_total_flops()))


def _fft(factor: float) -> Any:
    def count(*args: Any, out_val: Tensor, **kwargs: Any) -> int:
        x, axes = args[0], args[1]
        whole = max(x.numel(), out_val.numel())
        points = math.prod(max(x.shape[axis], out_val.shape[axis]) for axis in axes)
        return int(factor * whole * math.log2(max(2, points)))

    count._get_raw = True  # type: ignore[attr-defined]  # the counter then hands in tensors, not shapes
    return count


_TRANSFORMS = {
    torch.ops.aten._fft_r2c: _fft(2.5),
    torch.ops.aten._fft_c2r: _fft(2.5),
    torch.ops.aten._fft_c2c: _fft(5.0),
}


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
    begun = seconds_now(x.device)
    with autocast(precision, x.device):
        model(x)
    return seconds_now(x.device) - begun
