"""The nearest band-limited operation, as the Fourier neural operator: every tap a filter of few frequencies."""

import math

import torch
from torch import Tensor

from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.inspection.linear_map import LinearMap
from eclose.ops.xd.inspection.nearest.named_operation import Named, spoken

LOST = 0.05
"""How much of the fit by all frequencies, relatively, may be lost by leaving out the high ones."""


def band_limited(linear_map: LinearMap) -> Named | None:
    """With the fewest modes that lose next to nothing; None where they are more than half of all frequencies.

    With ``m`` modes, tap s is ``F^-1 diag(c_s) F`` with ``c_s[f] = 0`` for ``|f| >= m``, F being the transform of
    the operation's own size. Least squares find every c_s. Such operations span a space with a real basis on each
    axis, so projecting each T projects the real part of their product.
    """
    if linear_map.causal or not linear_map.weighted:
        return None
    fits = [_fit(axis, shifts) for axis, shifts in zip(linear_map.axes, linear_map.shifts, strict=True)]
    modes = tuple(count for count, _ in fits)
    if math.prod((2 * count - 1) / axis.transform for count, axis in zip(modes, linear_map.axes, strict=True)) > 0.5:
        return None
    residual = linear_map.residual(shifts=[fitted for _, fitted in fits])
    return Named("band-limited", f"as FNO with {spoken(modes)} modes", {"modes": modes}, residual)


def _fit(axis: Axis, shifts: Tensor) -> tuple[int, Tensor]:
    """Number of modes and fitted T of one axis."""
    outer, inner, modes = _transforms(axis)
    gram = (outer.mH @ outer) * (inner.conj() @ inner.mT)  # of the matrices that each frequency makes
    gram += 1e-12 * gram.diagonal().real.mean() * torch.eye(len(gram))  # cropped, they may depend on each other
    products = ((outer.mH @ shifts) * inner.conj()).sum(-1).mT  # (frequencies, kernel)
    factor = torch.linalg.cholesky(gram)
    # By the triangular factor, the energy of the fit by the first frequencies is a partial sum for every number.
    energies = torch.linalg.solve_triangular(factor, products, upper=False).abs().square().sum(1).cumsum(0)
    enough = int((energies < (1 - LOST**2) * energies[-1]).sum())
    kept = modes <= modes[enough]
    rates = torch.cholesky_solve(products[kept], factor[kept][:, kept])  # (kept, kernel)
    return int(modes[enough]) + 1, torch.einsum("pf,fs,fu->spu", outer[:, kept], rates, inner[kept])


def _transforms(axis: Axis) -> tuple[Tensor, Tensor, Tensor]:
    """``F^-1`` in the rows of the outputs, F of the extended signal, and ``|f|``: low frequencies first."""
    size = axis.transform
    sources = axis.sources()
    extended = torch.eye(size, axis.size)
    if sources is not None:
        extended = (sources.unsqueeze(1) == torch.arange(axis.size)).float()
    modes = torch.fft.fftfreq(size, 1 / size).abs().round().long()
    by_frequency = torch.argsort(modes, stable=True)
    identity = torch.eye(size, dtype=torch.complex128)
    outer = torch.fft.ifft(identity, dim=0)[axis.rows()][:, by_frequency]
    return outer, torch.fft.fft(extended.to(identity), dim=0)[by_frequency], modes[by_frequency]
