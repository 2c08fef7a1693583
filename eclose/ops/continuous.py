"""Continuous kernels (CKConv, Romero et al. 2021; DNArch, section 2.2): a small network gives a kernel at any point.

One generator serves a whole network, so that its layers share the capacity. Its last layer has a row for each channel
of every layer; the layers keep their own rows, the network keeps the rest, its trunk. Kernels are convolved by FFT.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.precision import all_digits, full_precision
from eclose.ops.resolution import Sizes, fast_size


class FourierFeatures(nn.Module):
    """``GELU(linear(...[cos, sin](2 pi omega W c)))``, the generator of the paper: ``W`` is drawn and stays."""

    frequencies: Tensor

    def __init__(self, axes: int, hidden: int, omega: float) -> None:
        super().__init__()
        self.register_buffer("frequencies", omega * torch.randn(hidden, axes))
        layers = [nn.Linear(size, hidden) for size in (2 * hidden, hidden, hidden)]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)

    def forward(self, coordinates: Tensor) -> Tensor:  # (points, axes)
        """``(points, hidden)``."""
        waves = 2 * math.pi * F.linear(coordinates, self.frequencies)
        h = torch.cat([waves.cos(), waves.sin()], dim=1)
        for layer in self.layers:
            h = F.gelu(layer(h))
        return h


class MAGNet(nn.Module):
    """``h_{l+1} = g_{l+1}(c) (W h_l + b)``, ``g = exp(-1/2 sum (gamma (c - mu))^2) sin(linear(c))`` (FlexConv)."""

    def __init__(self, axes: int, hidden: int, omega: float, layers: int = 3, spread: float = 1.0) -> None:
        super().__init__()
        self.gamma, self.mu = nn.ParameterList(), nn.ParameterList()
        waves = [nn.Linear(axes, hidden) for _ in range(layers + 1)]
        mixes = [nn.Linear(hidden, hidden) for _ in range(layers)]
        self.waves, self.mixes = nn.ModuleList(waves), nn.ModuleList(mixes)
        for number, wave in enumerate(waves):
            gamma = torch.distributions.Gamma(6 / (number + 1), 1.0).sample((hidden, axes))
            self.gamma.append(nn.Parameter(gamma))
            self.mu.append(nn.Parameter(spread * (2 * torch.rand(hidden, axes) - 1)))
            with torch.no_grad():
                wave.weight.mul_(2 * math.pi * omega * gamma)
                wave.bias.uniform_(-math.pi, math.pi)  # all zero, every kernel would be zero at its centre
        for mix in mixes:
            nn.init.kaiming_uniform_(mix.weight, nonlinearity="linear")
            nn.init.ones_(mix.bias)

    def forward(self, coordinates: Tensor) -> Tensor:  # (points, axes)
        """``(points, hidden)``."""
        h = self._filter(0, coordinates)
        for number, mix in enumerate(self.mixes):
            h = self._filter(number + 1, coordinates) * mix(h)
        return h

    def _filter(self, number: int, coordinates: Tensor) -> Tensor:
        away = self.gamma[number] * (coordinates[:, None] - self.mu[number])
        wave: Tensor = self.waves[number](coordinates)
        return torch.exp(-0.5 * away.square().sum(-1)) * wave.sin()


class SIREN(nn.Module):
    """``h_{l+1} = sin(omega (W h_l + b))`` (Sitzmann et al. 2020)."""

    def __init__(self, axes: int, hidden: int, omega: float) -> None:
        super().__init__()
        self.omega = omega
        layers = [nn.Linear(size, hidden) for size in (axes, hidden, hidden)]
        self.layers = nn.ModuleList(layers)
        for number, layer in enumerate(layers):
            bound = 1 / axes if number == 0 else math.sqrt(6 / hidden) / omega
            nn.init.uniform_(layer.weight, -bound, bound)
            nn.init.uniform_(layer.bias, -math.pi / omega, math.pi / omega)

    def forward(self, coordinates: Tensor) -> Tensor:  # (points, axes)
        """``(points, hidden)``."""
        h = coordinates
        for layer in self.layers:
            h = torch.sin(self.omega * layer(h))
        return h


TRUNKS: Mapping[str, Callable[[int, int, float], nn.Module]] = {
    "fourier": FourierFeatures,
    "magnet": MAGNet,
    "siren": SIREN,
}


def mesh(lines: Sequence[Tensor]) -> Tensor:  # (points, axes)
    """The points of a grid, given by its coordinates along every axis."""
    return torch.cartesian_prod(*lines).reshape(-1, len(lines))


def features(trunk: nn.Module, points: Tensor) -> Tensor:  # (points, axes)
    """``(points, hidden)``."""
    with all_digits(points.device.type):  # as phases of high frequencies need
        values: Tensor = trunk(points)
    return values


def render(features: Tensor, sizes: Sequence[int], rows: Tensor, bias: Tensor) -> Tensor:
    """Kernels ``(channels, *sizes)`` of the features of a grid."""
    with full_precision(rows.device.type):
        return torch.addmm(bias[:, None], rows, features.T).reshape(-1, *sizes)


def transform_sizes(space: Sequence[int], first: Sequence[int], points: Sequence[int]) -> Sizes:
    """The points of the transforms in a convolution: those that wrap around fall where nothing is read."""
    return tuple(
        fast_size(n + max(-lag, number - 1 + lag)) for n, lag, number in zip(space, first, points, strict=True)
    )


def fourier_convolution(
    x: Tensor, kernel: Tensor, first: Sequence[int], response: Tensor | None = None
) -> Tensor:  # (batch, channels, *space), (channels, *points), (*frequencies)
    """``y[i] = sum_j kernel[j] x[i - first - j]`` for every channel by itself, ``x`` zero outside; the shape of ``x``.

    ``first`` is the lag of a kernel's first point along every axis, at most 0; its last point has a lag of at least 0.
    ``response`` is what the spectrum is multiplied with, a value for each frequency of :func:`transform_sizes`.
    """
    if not torch.compiler.is_compiling() and x.shape[0] == 0:  # a process without a share of the batch
        return x
    axes = tuple(range(1, kernel.ndim))
    dtype = torch.promote_types(x.dtype, torch.float32)
    sizes = transform_sizes(x.shape[2:], first, kernel.shape[1:])
    spectrum = torch.fft.rfftn(kernel.to(dtype), s=sizes, dim=axes, norm="forward")  # of both ways, the smaller one
    if response is not None:
        spectrum = spectrum * response
    if torch.compiler.is_compiling():
        return _convolved(x.to(dtype), spectrum, sizes, first).to(x.dtype)
    y: Tensor = _Convolution.apply(x.to(dtype), spectrum, sizes, tuple(first))
    return y.to(x.dtype)


def _convolved(x: Tensor, spectrum: Tensor, sizes: Sequence[int], first: Sequence[int]) -> Tensor:
    axes = tuple(range(2, x.ndim))
    y = torch.fft.irfftn(torch.fft.rfftn(x, s=sizes, dim=axes) * spectrum, s=sizes, dim=axes, norm="forward")
    return y[(..., *(slice(-lag, n - lag) for n, lag in zip(x.shape[2:], first, strict=True)))].contiguous()


class _Convolution(torch.autograd.Function):
    """The product of spectra, with real transforms on the way back; torch's own has complex ones, twice as long.

    Only the input is kept: its spectrum, which is longer, is quickly made again.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, spectrum: Tensor, sizes: tuple[int, ...], first: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(x, spectrum)
        ctx.sizes, ctx.first = sizes, first
        return _convolved(x, spectrum, sizes, first)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, spectrum = ctx.saved_tensors
        sizes, axes = ctx.sizes, tuple(range(2, x.ndim))
        around = [(-lag, size - n + lag) for n, lag, size in zip(x.shape[2:], ctx.first, sizes, strict=True)]
        placed = F.pad(gradient, [number for both in reversed(around) for number in both])
        wave = torch.fft.rfftn(placed, dim=axes)
        of_x = of_spectrum = None
        if ctx.needs_input_grad[0]:
            whole = torch.fft.irfftn(wave * spectrum.conj(), s=sizes, dim=axes, norm="forward")
            of_x = whole[(..., *map(slice, x.shape[2:]))]
        if ctx.needs_input_grad[1]:
            twice = torch.full((wave.shape[-1],), 2.0, dtype=x.dtype, device=x.device)
            twice[0] /= 2  # every other frequency stands for two; lengths are even
            twice[-1] /= 2
            of_spectrum = (wave * torch.fft.rfftn(x, s=sizes, dim=axes).conj()).sum(0) * twice
        return of_x, of_spectrum, None, None
