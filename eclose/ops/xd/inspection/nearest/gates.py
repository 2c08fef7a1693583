"""Which channels the gates C of an XD-operation join: all of them alike, or each with itself."""

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.inspection.nearest.named_operation import Named
from eclose.ops.xd.operation import XD


@torch.no_grad()
def nearest_gates(operation: XD) -> list[Named]:
    """A multiple of ones (all channels) and, for square C, of the identity (depthwise): nearest first.

    The multiple of complex gates is complex: ``scale`` is its modulus, ``phase`` its angle.
    """
    gates = _gates(operation)
    known = [_named("all channels", gates, torch.ones_like(gates))]
    if operation.groups == 1 and len(gates) == gates.shape[1] > 1:
        known.append(_named("depthwise", gates, torch.eye(len(gates), dtype=gates.dtype)))
    return sorted(known, key=lambda named: named.residual)


def _gates(operation: XD) -> Tensor:
    """``(c_out, c_in / groups)``, real or complex."""
    learned = operation.architecture.C
    if learned is None:
        return torch.ones(operation.taps().shape[:2]).double()
    gates = learned.cpu().double()
    return pairs.to_complex(gates) if operation.architecture.complex_gates else gates


def _named(name: str, gates: Tensor, unit: Tensor) -> Named:
    scale = (gates * unit).sum() / unit.abs().square().sum()
    norm = gates.norm().item()
    residual = (gates - scale * unit).norm().item() / norm if norm else 1.0
    if not gates.is_complex():
        return Named(name, "", {"scale": scale.item()}, residual)
    return Named(name, "", {"scale": scale.abs().item(), "phase": scale.angle().item()}, residual)
