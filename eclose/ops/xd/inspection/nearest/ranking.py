"""All named operations in the order of their distance to a learned one."""

import math

import torch

from eclose.ops.xd.inspection.linear_map import LinearMap, linear_map_of
from eclose.ops.xd.inspection.nearest.band import band_limited
from eclose.ops.xd.inspection.nearest.convolution import convolution
from eclose.ops.xd.inspection.nearest.named_operation import Named
from eclose.ops.xd.inspection.nearest.permutation import permutation_then_convolution
from eclose.ops.xd.inspection.nearest.pooling import pooling
from eclose.ops.xd.operation import XD

_SMALL = 0.01
"""An operation below this size, relative to what it started as, may be called zero."""


@torch.no_grad()
def nearest_operations(operation: XD) -> list[Named]:
    """Zero, skip, average pooling, convolution, band-limited, and permutation followed by convolution: nearest first.

    Residuals are relative to the norm of the operation (:attr:`LinearMap.norm`), fits by least squares. Channel gates
    are left out. Of those equally near the simpler one comes first.
    """
    linear_map = linear_map_of(operation)
    known = [
        _zero(operation, linear_map),
        *pooling(linear_map),
        convolution(linear_map),
        band_limited(linear_map),
        permutation_then_convolution(linear_map),
    ]
    return sorted((named for named in known if named is not None), key=lambda named: round(named.residual, 6))


def _zero(operation: XD, linear_map: LinearMap) -> Named:
    """Zero, whose residual is the size of the operation relative to a convolution or, if not that, a mean.

    Relative to the operation itself it is always 1.
    """
    taps, outs = (math.prod(sizes) for sizes in zip(*[(axis.kernel, axis.out) for axis in operation.axes], strict=True))
    usual = linear_map.rms * math.sqrt(taps * outs) if operation.tap is None else math.sqrt(outs / taps)
    size = linear_map.norm / usual
    return Named("zero", "", {}, size if size < _SMALL else 1.0)
