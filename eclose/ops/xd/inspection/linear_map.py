"""An XD-operation as what it does: a linear map of weights and signal, whichever matrices make it."""

import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd.algebra import kronecker_norms
from eclose.ops.xd.algebra.pairs_first import adjoint, times
from eclose.ops.xd.architecture import Architecture
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.evaluation.shifts.tensors import shift_tensor
from eclose.ops.xd.operation import XD


@dataclass(frozen=True, eq=False)
class LinearMap:
    """``y = sum_s w_s Real(T_1[s_1] x .. x T_N[s_N]) x + Real(K diag(b) M) x`` for one pair of channels.

    Its square norm is ``rms^2 ||Real T||^2 + ||Real(K diag(b) M)||^2``: that of the map from x to y for weights
    that are independent and have the mean square of those at hand. Gates are left out, but for a phase that complex
    ones share: it counts as one of K. All tensors are complex, in double precision.
    """

    axes: tuple[Axis, ...]
    shifts: list[Tensor]  # T of every axis, (kernel, out, size)
    outer: list[Tensor]  # K, (out, transform)
    inner: list[Tensor]  # M, (transform, size)
    bias: Tensor | None  # (*transforms), in the order of the matrices
    rms: float
    causal: bool = False

    @functools.cached_property
    def weighted(self) -> float:
        """Norm of all taps together."""
        return self.rms * kronecker_norms.norm(self.shifts, real=True)

    @functools.cached_property
    def free(self) -> float:
        """Norm of the part that no weight touches."""
        return math.sqrt(max(0.0, free_product(self, self)))

    @property
    def norm(self) -> float:
        """Norm of the operation."""
        return math.hypot(self.weighted, self.free)

    def residual(self, *, shifts: Sequence[Tensor] | None = None, free: float | None = None) -> float:
        """Relative distance to an operation with ``shifts`` whose free part is at the distance ``free``.

        What is not given is zero there.
        """
        weighted = self.weighted
        if shifts is not None:
            weighted = self.rms * kronecker_norms.distance(self.shifts, shifts, real=True)
        rest = math.hypot(weighted, self.free if free is None else free)
        return rest / self.norm if self.norm else 1.0


def linear_map_of(operation: XD, architecture: Architecture | None = None) -> LinearMap:
    """What an operation does, or would do with another architecture, given in double precision."""
    arch = in_double(operation.architecture) if architecture is None else architecture
    with torch.no_grad():
        outer, filters, inner = arch.matrices(operation.axes)
        if arch.C is not None and arch.complex_gates:
            outer = [times(outer[0], _phase(arch.C)), *outer[1:]]
        shifts = [shift_tensor(adjoint(k), *others) for k, *others in zip(outer, filters, inner, strict=True)]
        if operation.causal:
            shifts[-1] = shifts[-1] * operation.axes[-1].causal()
        if len(shifts) == 1:  # the imaginary part does nothing
            shifts[0] = torch.stack([shifts[0][0], torch.zeros_like(shifts[0][0])])
        bias = arch.bias()
        rms = operation.taps().detach().cpu().double().square().mean().sqrt().item()
        return LinearMap(
            operation.axes,
            [_complex(shift) for shift in shifts],
            [_complex(matrix) for matrix in outer],
            [_complex(matrix) for matrix in inner],
            None if bias is None else _complex(bias),
            rms or 1.0,  # weights that are all zero say nothing about the operation
            operation.causal,
        )


def start_of(architecture: Architecture) -> Architecture:
    """A copy as it was when it was made, in double precision on the CPU."""
    return _copied(architecture, architecture.start)


def in_double(architecture: Architecture) -> Architecture:
    """A copy as it is now, in double precision on the CPU."""
    return _copied(architecture, architecture.state_dict())


def _copied(architecture: Architecture, state: dict[str, Tensor]) -> Architecture:
    copied = copy.deepcopy(architecture)
    copied.cpu().double().load_state_dict(state)
    return copied


def free_product(one: LinearMap, other: LinearMap) -> float:
    """Inner product of the parts that no weight touches."""
    if one.bias is None or other.bias is None:
        return 0.0
    total = 0.0
    for conjugate in (True, False):
        left = [one.bias, *one.outer, *one.inner]
        bias, *matrices = [tensor.conj() for tensor in left] if conjugate else left
        axes, image = len(one.axes), other.bias
        for place, (outer, inner) in enumerate(zip(other.outer, other.inner, strict=True)):
            masked = one.axes[place].causal() if one.causal and place == axes - 1 else None
            gram = _gram(matrices[place], matrices[axes + place], outer, inner, masked)
            image = torch.tensordot(image, gram, dims=([place], [1])).movedim(-1, place)
        total += (bias * image).sum().real.item() / 2
    return total


def _gram(
    left_outer: Tensor,  # (out, n)
    left_inner: Tensor,  # (n, size)
    outer: Tensor,  # (out, m)
    inner: Tensor,  # (m, size)
    mask: Tensor | None,  # (out, size)
) -> Tensor:
    """``(n, m)``: products of the matrices that each frequency makes, ``sum_pu K[p,f] M[f,u] K'[p,g] M'[g,u]``."""
    if mask is None:
        return (left_outer.mT @ outer) * (left_inner @ inner.mT)
    gram = torch.zeros(len(left_inner), len(inner), dtype=outer.dtype)
    seen, products = 0, torch.zeros_like(gram)
    for row, other, reach in zip(left_outer, outer, mask.sum(1).tolist(), strict=True):
        products += left_inner[:, seen:reach] @ inner[:, seen:reach].mT  # an output sees more than the one before
        gram += row.unsqueeze(1) * other * products
        seen = reach
    return gram


def _phase(gates: Tensor) -> Tensor:  # (c_out, c_in / groups, 2)
    """That complex gates share, ``(2, 1, 1)`` of modulus 1: the squares tell it up to the sign, the sum tells that."""
    values = pairs.to_complex(gates)
    angle = values.square().sum().angle() / 2
    phase = torch.polar(torch.ones_like(angle), angle)
    phase = -phase if (values.sum() * phase.conj()).real < 0 else phase
    return torch.stack([phase.real, phase.imag]).view(2, 1, 1)


def _complex(pair: Tensor) -> Tensor:  # (2, ...)
    return torch.complex(*pair.double())
