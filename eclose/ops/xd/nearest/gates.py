"""Which channels the gates C of an XD-operation join: all of them alike, or each with itself."""

import torch
from torch import Tensor

from eclose.ops.xd.nearest.named import Named
from eclose.ops.xd.operation import XD


@torch.no_grad()
def nearest_gates(operation: XD) -> list[Named]:
    """A multiple of ones (all channels) and, for square C, of the identity (depthwise): nearest first."""
    learned = operation.architecture.C
    gates = torch.ones(operation.taps().shape[:2]).double() if learned is None else learned.cpu().double()
    found = [_named("all channels", gates, torch.ones_like(gates))]
    if operation.groups == 1 and len(gates) == gates.shape[1] > 1:
        found.append(_named("depthwise", gates, torch.eye(len(gates), dtype=gates.dtype)))
    return sorted(found, key=lambda named: named.residual)


def _named(name: str, gates: Tensor, unit: Tensor) -> Named:
    scale = ((gates * unit).sum() / unit.square().sum()).item()
    norm = gates.norm().item()
    residual = (gates - scale * unit).norm().item() / norm if norm else 1.0
    return Named(name, "", {"scale": scale}, residual)
