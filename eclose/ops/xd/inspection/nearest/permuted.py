"""The nearest permutation followed by a convolution (paper 000, claim A.4, and the permuted images of section 4)."""

import cmath

import torch
from torch import Tensor

from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.inspection.linear_map import Action
from eclose.ops.xd.inspection.nearest.assignment import assignment
from eclose.ops.xd.inspection.nearest.convolution import rate_of
from eclose.ops.xd.inspection.nearest.named import Named, spoken
from eclose.ops.xd.inspection.nearest.reading import reading


def permuted(action: Action) -> Named | None:
    """A permutation of the inputs of every axis, then the convolution of the start; None where nothing moves.

    With the shifts S of the start, ``||T - a S P||`` is least for the permutation P with the largest product
    with ``S^T T``, since all of them leave the norm of S alone: a linear assignment.
    """
    if action.causal or not action.weighted:
        return None
    fits = [_fit(axis, shifts) for axis, shifts in zip(action.axes, action.shifts, strict=True)]
    moved = tuple((order != torch.arange(len(order))).double().mean().item() for order, _ in fits)
    if not any(moved):
        return None
    return Named(
        "permutation, then convolution",
        f"moving {spoken([round(100 * share) for share in moved])} % of the points",
        {"order": tuple(tuple(order.tolist()) for order, _ in fits), "moved": moved},
        action.residual(shifts=[fitted for _, fitted in fits]),
    )


def _fit(axis: Axis, shifts: Tensor) -> tuple[Tensor, Tensor]:
    """Order and fitted T of one axis: the convolution sees input ``order[v]`` at place v."""
    unit = reading(axis).shifts(axis.dilation * torch.arange(axis.kernel) - axis.left)
    products = unit.flatten(0, 1).mT @ shifts.flatten(0, 1)  # (size, size)
    # Of a complex multiple of a permutation the squares tell the phase up to the sign, the cubes the sign.
    turned = products * cmath.exp(-0.5j * cmath.phase(complex(products.square().sum())))
    real = turned.real * turned.real.pow(3).sum().sign()
    order = torch.from_numpy(assignment(real.numpy()))
    fitted = unit[..., torch.argsort(order)]
    return order, rate_of(shifts, fitted) * fitted
