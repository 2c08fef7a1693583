"""The Fourier layer of the Fourier neural operator (Li et al. 2021, equation 5) by FFT, over one to three axes."""

import torch
from torch import Tensor, nn


def fourier_layer(x: Tensor, weight: Tensor) -> Tensor:  # (batch, inputs, *space), (inputs, outputs, *kept, 2)
    """``irfft(weight * rfft(x))``, ``(batch, outputs, *space)``.

    ``weight`` has pairs for frequencies 0 .. m-1 and then -m .. -1 of every axis but the last, and 0 .. m-1 of that.
    Other frequencies become zero; a grid that is too coarse for all of them uses those that it has.
    """
    space = x.shape[2:]
    axes = tuple(range(2, 2 + len(space)))
    kept = [*[size // 2 for size in weight.shape[2:-2]], weight.shape[-2]]
    dtype = torch.promote_types(x.dtype, torch.float32)  # there is no FFT of half precision
    matrix = torch.view_as_complex(weight.to(dtype))
    spectrum = torch.fft.rfftn(x.to(dtype), dim=axes)
    for axis, size, modes in zip(axes[:-1], space[:-1], kept[:-1], strict=True):
        low, high = (size + 1) // 2, size // 2  # how many frequencies >= 0 and < 0 the grid has
        spectrum = _ends(spectrum, axis, min(modes, low), min(modes, high))
        matrix = _ends(matrix, axis, min(modes, low), min(modes, high))
    last = min(kept[-1], space[-1] // 2 + 1)
    mixed = torch.einsum("bi...,io...->bo...", spectrum[..., :last], matrix[..., :last])
    for axis, size, modes in zip(axes[:-1], space[:-1], kept[:-1], strict=True):
        mixed = _spread(mixed, axis, min(modes, (size + 1) // 2), size)
    mixed = nn.functional.pad(mixed, (0, space[-1] // 2 + 1 - last))
    return torch.fft.irfftn(mixed, s=space, dim=axes).to(x.dtype)


def _ends(x: Tensor, axis: int, first: int, last: int) -> Tensor:
    """The ``first`` first and ``last`` last entries along ``axis``."""
    size = x.shape[axis]
    return torch.cat([x.narrow(axis, 0, first), x.narrow(axis, size - last, last)], dim=axis)


def _spread(x: Tensor, axis: int, first: int, size: int) -> Tensor:
    """Inverse of :func:`_ends`: zeros between the ends, up to ``size`` entries along ``axis``."""
    shape = list(x.shape)
    gap = x.new_zeros([*shape[:axis], size - shape[axis], *shape[axis + 1 :]])
    return torch.cat([x.narrow(axis, 0, first), gap, x.narrow(axis, first, shape[axis] - first)], dim=axis)
