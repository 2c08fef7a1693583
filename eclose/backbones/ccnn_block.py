"""The block of the continuous CNN, with sizes of its own.

    ``x + scale up(GELU(W2 dropout(GELU(W1 (psi * norm(down(x)))))))``

with a depthwise convolution ``psi``. It reads the first channels of ``x`` and adds to the first ones, at a resolution
of its own. A search over these sizes (``spaces/dnarch``) computes the same block with weights that it cuts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.continuous import features, fourier_convolution, mesh, product, render, transform_sizes
from eclose.ops.first_channels import Norm, add_to_first, first
from eclose.ops.masks import gaussian, gaussian_reach, sigmoid
from eclose.ops.resolution import Sizes, frequencies, low_size, resample


@dataclass(frozen=True)
class BlockShape:
    """All sizes of a block."""

    widths: tuple[int, int, int]  # channels that are convolved, lie between the pointwise layers, are added
    kernel: tuple[float, ...] = ()  # widths of the Gaussian around its kernel; none: kernels as long as the axes
    mean: tuple[float, ...] = ()  # where that lies
    resolution: tuple[float, ...] = ()  # offsets of the sigmoid over its frequencies; none: as fine as the input
    temperature: float = 25.0  # of that sigmoid
    scale: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BlockShape":
        """Inverse of :meth:`as_dict`."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**values)


class Weights(NamedTuple):
    """What a block multiplies with; a search cuts and scales it."""

    kernel: Tensor  # (convolved, hidden): rows of the generator
    kernel_bias: Tensor  # (convolved,)
    mix: Tensor  # (between, convolved)
    mix_bias: Tensor
    out: Tensor  # (added, between)
    out_bias: Tensor


class Grid(NamedTuple):
    """Where a block computes: so many points, and a kernel from the first to the last lag, along every axis."""

    points: Sizes
    lags: tuple[tuple[int, int], ...]

    @property
    def first(self) -> Sizes:
        """The first lags."""
        return tuple(first for first, _ in self.lags)

    @property
    def taps(self) -> Sizes:
        """How many points the kernel has."""
        return tuple(last - first + 1 for first, last in self.lags)


class Generated:
    """What the generator gives on the grids of one pass: asked once for all of them, when the first is needed."""

    def __init__(self, trunk: nn.Module, grids: Iterable[Grid], points: Callable[[], Tensor]) -> None:
        self.trunk, self.points = trunk, points  # those of all grids, which come once each, one behind the other
        self.sizes = {grid: prod(grid.taps) for grid in grids}
        self.features: dict[Grid, Tensor] = {}

    def __getitem__(self, grid: Grid) -> Tensor:  # (points, hidden)
        if not self.features:
            parts = features(self.trunk, self.points()).split(list(self.sizes.values()))
            self.features = dict(zip(self.sizes, parts, strict=True))
        return self.features[grid]


class Masks(NamedTuple):
    """What a kernel and its spectrum are multiplied with."""

    window: Tensor | None  # (*taps)
    response: Tensor | None  # (*frequencies)


class Block(nn.Module):
    """A residual block, see the top of this file."""

    window: Tensor | None
    response: Tensor | None

    def __init__(
        self,
        shape: BlockShape,
        trained: Sizes,
        trunk: nn.Module,
        hidden: int,
        *,
        dropout: float = 0.0,
        causal: bool = False,
        batch_statistics: bool = False,
    ) -> None:
        super().__init__()
        inner, middle, outer = shape.widths
        self.shape, self.trained, self.dropout, self.causal = shape, trained, dropout, causal
        self._kept: tuple[Any, Tensor] | None = None
        self.longest = tuple(max(1, size - 1 if causal else size // 2) for size in trained)  # lags, which lie at 1
        self.norm = Norm(inner, batch_statistics)
        self.kernel, self.kernel_bias = nn.Parameter(torch.randn(inner, hidden)), nn.Parameter(torch.zeros(inner))
        self.mix, self.out = nn.Linear(inner, middle), nn.Linear(middle, outer)
        self._usual = self.grid(trained)
        for name, mask in self._new_masks(self._usual)._asdict().items():  # buffers: a CUDA graph can read them
            self.register_buffer(name, mask, persistent=False)
        self._keep_variance(trunk)
        for layer in (self.mix, self.out):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def weights(self) -> Weights:
        """All of them, as they are."""
        mix, out = self.mix, self.out
        return Weights(self.kernel, self.kernel_bias, mix.weight, mix.bias, out.weight, out.bias)

    def forward(
        self, x: Tensor, trunk: nn.Module, generated: Generated | None = None
    ) -> Tensor:  # (batch, channels, *space)
        """The same shape."""
        grid = self.grid(x.shape[2:])
        masks = Masks(self.window, self.response) if grid == self._usual else self._new_masks(grid)
        kernel = self._kernel(generated or self.generated(trunk, [grid]), grid, masks.window)
        return add_to_first(x, self.branch(x, grid, kernel, self.weights(), masks.response, self.shape.scale))

    def generated(self, trunk: nn.Module, grids: Iterable[Grid]) -> Generated:
        """What the generator gives on these grids."""
        once = list(dict.fromkeys(grids))
        return Generated(trunk, once, lambda: self.points(once, self.kernel.device, self.kernel.dtype))

    def _kernel(self, generated: Generated, grid: Grid, window: Tensor | None) -> Tensor:
        """The kernel; without gradients it is kept for as long as no parameter changes."""
        if self.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
            self._kept = None
            return self.rendered(generated, grid, self.weights(), window)
        trunk = generated.trunk
        made_of = (self.kernel, self.kernel_bias, *trunk.parameters(), *trunk.buffers())
        key = (grid, [(tensor.data_ptr(), tensor._version) for tensor in made_of])
        if self._kept is None or self._kept[0] != key:
            self._kept = key, self.rendered(generated, grid, self.weights(), window)
        return self._kept[1]

    def branch(
        self, x: Tensor, grid: Grid, kernel: Tensor, weights: Weights, response: Tensor | None, scale: Tensor | float
    ) -> Tensor:
        """What is added to the first channels, computed on the points of the grid."""
        y = self.norm(resample(first(x, len(weights.kernel), 1), grid.points))
        y = fourier_convolution(y, kernel, grid.first, response)
        y = F.gelu(pointwise(y, weights.mix, weights.mix_bias))
        y = F.dropout(y, self.dropout, self.training)
        y = pointwise(y, weights.out, weights.out_bias)
        return resample(_scaled_gelu(y, scale), x.shape[2:])

    def rendered(
        self, generated: Generated, grid: Grid, weights: Weights, window: Tensor | None
    ) -> Tensor:  # (channels, *taps)
        """The kernel on a grid, times its mask, which has the spacing of the points in it."""
        kernel = render(generated[grid], grid.taps, weights.kernel, weights.kernel_bias)
        if window is None:
            return kernel if grid.points == self.trained else kernel * prod(self.spacing(grid))
        return kernel * window

    def grid(self, sizes: Sequence[int], shape: BlockShape | None = None) -> Grid:
        """Where the block computes on an input of these sizes; its kernel lies where the mask of ``shape`` is not 0."""
        shape, low = shape or self.shape, tuple(sizes)
        if shape.resolution:
            axes = zip(shape.resolution, self.trained, sizes, strict=True)
            low = tuple(low_size(offset, shape.temperature, trained, size) for offset, trained, size in axes)
        return Grid(low, tuple(self._lags(axis, low, shape) for axis in range(len(low))))

    def _lags(self, axis: int, low: Sizes, shape: BlockShape) -> tuple[int, int]:
        """The first and the last lag; zero lies between them."""
        points = low[axis] / self.trained[axis] * self.longest[axis]  # from 0 to 1
        start, end = -1.0, 1.0
        if shape.kernel:
            reach = gaussian_reach(shape.kernel[axis])
            start, end = max(-1.0, shape.mean[axis] - reach), min(1.0, shape.mean[axis] + reach)
        last = min(low[axis] - 1, max(0, int(end * points + 1e-6)))
        first = max(1 - low[axis], min(0, -int(-start * points + 1e-6)))
        return 0 if self.causal else first, last

    def spacing(self, grid: Grid) -> list[float]:
        """Points that lie farther apart than in the training stand for more of the domain each: so many times more."""
        return [trained / points for trained, points in zip(self.trained, grid.points, strict=True)]

    def lines(self, grid: Grid, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        """Where the points of the kernel lie on every axis, made there: a CUDA graph copies nothing from the host."""
        return [
            torch.arange(first, last + 1, dtype=dtype, device=device) * (space / longest)
            for (first, last), space, longest in zip(grid.lags, self.spacing(grid), self.longest, strict=True)
        ]

    def points(self, grids: Iterable[Grid], device: torch.device, dtype: torch.dtype) -> Tensor:  # (points, axes)
        """All points of the kernels on several grids."""
        return torch.cat([mesh(self.lines(grid, device, dtype)) for grid in grids])

    def frequencies(self, grid: Grid, device: torch.device) -> list[Tensor]:
        """Where the frequencies of the convolution lie on the axes of resolution masks."""
        sizes = transform_sizes(grid.points, grid.first, grid.taps)
        axes = list(zip(sizes, self.trained, grid.points, strict=True))
        return [frequencies(*axis, device, last=number == len(axes)) for number, axis in enumerate(axes, 1)]

    def _new_masks(self, grid: Grid) -> Masks:
        """Those of a block whose sizes stay as they are."""
        shape, device, dtype = self.shape, self.kernel.device, self.kernel.dtype
        window = response = None
        if shape.kernel:
            each = zip(self.lines(grid, device, dtype), shape.kernel, shape.mean, self.spacing(grid), strict=True)
            window = product([space * gaussian(line, width, mean) for line, width, mean, space in each])
        if shape.resolution:
            lines = zip(self.frequencies(grid, device), shape.resolution, strict=True)
            response = product([sigmoid(line, offset, shape.temperature) for line, offset in lines])
        return Masks(window, response)

    @torch.no_grad()
    def _keep_variance(self, trunk: nn.Module) -> None:
        """Kernels whose squares add up to 1, as they are rendered at first."""
        kernel = self.rendered(self.generated(trunk, [self._usual]), self._usual, self.weights(), self.window)
        self.kernel.div_(kernel.flatten(1).norm(dim=1, keepdim=True).clamp_min(1e-6))


def _scaled_gelu(z: Tensor, scale: Tensor | float) -> Tensor:
    if isinstance(scale, Tensor):
        y: Tensor = _ScaledGELU.apply(z, scale)
        return y
    return F.gelu(z) if scale == 1.0 else scale * F.gelu(z)


class _ScaledGELU(torch.autograd.Function):
    """``scale GELU(z)`` for a number that learns. Only z is kept: what depth masks add to the memory is nothing."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(z, scale)
        return F.gelu(z).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        z, scale = ctx.saved_tensors
        product = torch.dot(gradient.flatten(), F.gelu(z).flatten())
        return torch.ops.aten.gelu_backward(gradient, z) * scale, product.to(scale.dtype)


def pointwise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same linear map at every point."""
    return F.conv1d(x.flatten(2), weight[..., None], bias).unflatten(2, x.shape[2:])
