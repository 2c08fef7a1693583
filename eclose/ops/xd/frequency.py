"""Frequency order: M x, one product of channels for every frequency, K. Best where kernels are large."""

import torch
from torch import Tensor

from eclose.ops.xd.terms import Terms
from eclose.ops.xd.transforms import adjoint, analysis, derivatives, synthesis, times


def frequency(terms: Terms) -> Tensor:
    """The output ``(batch, c_out, *outs)``, by operations that torch differentiates."""
    spectrum = analysis(grouped(terms.x, terms.groups), terms.inner)[-1]
    response = _biased(analysis(_split(terms.weight, terms.groups), terms.filters)[-1], terms)
    return joined(synthesis(product(spectrum, response.mT), terms.outer)[-1])


def frequency_gradients(terms: Terms, cotangent: Tensor, needed: list[bool]) -> list[Tensor | None]:
    """Derivatives by :meth:`Terms.tensors`, where ``needed``; the spectra are computed anew."""
    axes = len(terms.outer)
    by_outer, by_filters, by_inner = (any(needed[4 + part * axes :][:axes]) for part in range(3))
    signals = analysis(grouped(terms.x, terms.groups), terms.inner)
    filters = analysis(_split(terms.weight, terms.groups), terms.filters)
    response = _biased(filters[-1], terms)
    back = analysis(grouped(cotangent, terms.groups), [adjoint(matrix) for matrix in terms.outer])
    found: list[Tensor | None] = [None] * len(needed)
    if by_outer:
        outputs = synthesis(product(signals[-1], response.mT), terms.outer)
        found[4 : 4 + axes] = [adjoint(matrix) for matrix in derivatives(back, outputs)]
        del outputs
    if needed[0] or by_inner:
        inputs = synthesis(product(back[-1], response, conjugate=True), [adjoint(matrix) for matrix in terms.inner])
        found[0] = joined(inputs[-1]) if needed[0] else None
        if by_inner:
            found[4 + 2 * axes :] = derivatives(signals, inputs)
        del inputs
    if needed[1] or needed[2] or needed[3] or by_filters:
        by_response = product(back[-1].mT, signals[-1], conjugate=True)
        del back, signals, response
        flat = by_response.flatten(0, axes).flatten(1)  # (2 * frequencies, c_out * c_in / groups)
        if needed[2]:
            by_bias = flat.sum(1) if terms.gates is None else flat @ terms.gates.flatten()
            found[2] = by_bias.view(2, *by_response.shape[1 : 1 + axes])
        if needed[3] and terms.bias is not None and terms.gates is not None:
            found[3] = (terms.bias.flatten() @ flat).view_as(terms.gates)
        if needed[1] or by_filters:
            taps = synthesis(by_response, [adjoint(matrix) for matrix in terms.filters])
            found[1] = taps[-1].reshape(terms.weight.shape)
            if by_filters:
                found[4 + axes : 4 + 2 * axes] = derivatives(filters, taps)
    return found


def grouped(x: Tensor, groups: int) -> Tensor:  # (batch, groups * channels, ...)
    """``(groups, batch, channels, ...)``."""
    return x.unsqueeze(0) if groups == 1 else x.unflatten(1, (groups, -1)).transpose(0, 1).contiguous()


def joined(y: Tensor) -> Tensor:  # (groups, batch, channels, ...)
    """``(batch, groups * channels, ...)``."""
    return y.transpose(0, 1).flatten(1, 2)


def _split(weight: Tensor, groups: int) -> Tensor:  # (groups * c_out, ...)
    """``(groups, c_out, ...)``."""
    return weight.unflatten(0, (groups, -1))


def _biased(response: Tensor, terms: Terms) -> Tensor:  # (2, *transforms, groups, c_out, c_in)
    """``L w_ij + C_ij b``."""
    if terms.bias is None:
        return response
    if terms.gates is None:
        return response + terms.bias[(...,) + (None,) * 3]
    return torch.addr(response.flatten(0, -4).flatten(1), terms.bias.flatten(), terms.gates.flatten()).view_as(response)


def product(x: Tensor, y: Tensor, *, conjugate: bool = False) -> Tensor:  # (2, ..., n, m), (2, ..., m, p)
    """``x y`` or ``x conj(y)``, ``(2, ..., n, p)``, by four batched real products."""
    if x.shape[-1] == 1:
        return times(x, y, conjugate=conjugate)
    sign = -1 if conjugate else 1
    shape = (*x.shape[:-1], y.shape[-1])
    (x_real, x_imaginary), (y_real, y_imaginary) = x.flatten(1, -3), y.flatten(1, -3)
    if torch.is_grad_enabled():
        real = torch.baddbmm(x_real @ y_real, x_imaginary, y_imaginary, alpha=-sign)
        imaginary = torch.baddbmm(x_imaginary @ y_real, x_real, y_imaginary, alpha=sign)
        return torch.stack([real, imaginary]).view(shape)
    found = x.new_empty(2, *x_real.shape[:-1], y.shape[-1])
    real, imaginary = found
    torch.bmm(x_real, y_real, out=real)
    torch.bmm(x_imaginary, y_real, out=imaginary)
    real.baddbmm_(x_imaginary, y_imaginary, alpha=-sign)
    imaginary.baddbmm_(x_real, y_imaginary, alpha=sign)
    return found.view(shape)
