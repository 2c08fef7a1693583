"""The block of the continuous CNN, with sizes of its own.

    ``x + scale up(GELU(W2 dropout(GELU(W1 (psi * norm(down(x)))))))``

with a depthwise convolution ``psi``. It reads the first channels of ``x`` and adds to the first ones, at a resolution
of its own. A search over these sizes (``spaces/dnarch``) computes the same block with weights that it cuts.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.continuous import features, fourier_convolution, mesh, render, transform_sizes
from eclose.ops.first_channels import Norm, add_to_first, first
from eclose.ops.masks import gaussian, gaussian_reach, product, sigmoid
from eclose.ops.resolution import (
    Lags,
    Sizes,
    frequencies,
    lags_on,
    low_size,
    resample,
    resample_kernel,
    without_highest,
)

_WEAK = 1 / 3  # of the usual weights: branches that begin so are trained better


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
    """Where a block computes: so many points, and a kernel from the first to the last lag, along every axis.

    The kernel itself is rendered on the points of the training, and from there brought to these.
    """

    points: Sizes
    lags: Lags
    kernel: Lags  # where it is rendered
    whole: Sizes  # points of the signals; a block may be given fewer of them, see :func:`residuals`

    @property
    def first(self) -> Sizes:
        """The first lags."""
        return tuple(first for first, _ in self.lags)

    @property
    def taps(self) -> Sizes:
        """How many points the rendered kernel has."""
        return taps(self.kernel)


def taps(lags: Lags) -> Sizes:
    """How many points there are from the first to the last lag."""
    return tuple(last - first + 1 for first, last in lags)


def hull(kernels: Iterable[Lags]) -> Lags:
    """The lags of the smallest kernel that all of these are parts of."""
    axes = zip(*kernels, strict=True)
    return tuple((min(first for first, _ in axis), max(last for _, last in axis)) for axis in axes)


class Generated:
    """What the generator gives for the kernels of one pass: parts of one grid, on which it is asked once, if at all."""

    def __init__(self, trunk: nn.Module, lags: Lags, points: Callable[[], Tensor]) -> None:
        self.trunk, self.lags, self.points = trunk, lags, points
        self.features: Tensor | None = None  # (*taps, hidden)

    def __getitem__(self, lags: Lags) -> Tensor:  # (points, hidden)
        if self.features is None:
            self.features = features(self.trunk, self.points()).unflatten(0, taps(self.lags))
        inside = [
            slice(first - start, last - start + 1) for (first, last), (start, _) in zip(lags, self.lags, strict=True)
        ]
        return self.features[tuple(inside)].flatten(0, -2)


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
        # Buffers: a CUDA graph can read them.
        self.register_buffer("window", self._new_window(), persistent=False)
        self.register_buffer("response", self._new_response(self._usual), persistent=False)
        self._keep_variance(trunk)
        for layer, gain in ((self.mix, 1.0), (self.out, _WEAK)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight.mul_(gain)

    def weights(self) -> Weights:
        """All of them, as they are."""
        mix, out = self.mix, self.out
        return Weights(self.kernel, self.kernel_bias, mix.weight, mix.bias, out.weight, out.bias)

    def forward(
        self, x: Tensor, trunk: nn.Module, generated: Generated | None = None, grid: Grid | None = None
    ) -> Tensor:  # (batch, channels, *space)
        """The same shape."""
        grid = grid or self.grid(x.shape[2:])
        response = self.response if grid == self._usual else self._new_response(grid)
        kernel = self._kernel(generated or self.generated(trunk, [grid]), grid)
        return self.added(x, grid, kernel, self.weights(), response, self.shape.scale)

    def generated(self, trunk: nn.Module, grids: Iterable[Grid]) -> Generated:
        """What the generator gives for the kernels of these grids."""
        lags = hull(grid.kernel for grid in grids)
        return Generated(trunk, lags, lambda: mesh(self.lines(lags, self.kernel.device, self.kernel.dtype)))

    def _kernel(self, generated: Generated, grid: Grid) -> Tensor:
        """The kernel; without gradients it is kept for as long as no parameter changes."""
        if self.training or torch.is_grad_enabled() or torch.compiler.is_compiling():
            self._kept = None
            return self.rendered(generated, grid, self.weights(), self.window)
        trunk = generated.trunk
        made_of = (self.kernel, self.kernel_bias, *trunk.parameters(), *trunk.buffers())
        key = (grid, [(tensor.data_ptr(), tensor._version) for tensor in made_of])
        if self._kept is None or self._kept[0] != key:
            self._kept = key, self.rendered(generated, grid, self.weights(), self.window)
        return self._kept[1]

    def added(
        self, x: Tensor, grid: Grid, kernel: Tensor, weights: Weights, response: Tensor | None, scale: Tensor | float
    ) -> Tensor:
        """``x`` and the branch, added to its first channels and computed on the points of the grid."""
        # What a norm reads is kept: a part of x would keep all of it.
        y = self.norm(resample(first(x, len(weights.kernel), 1), grid.points).contiguous())
        y = fourier_convolution(y, kernel, grid.first, response)
        y = F.gelu(pointwise(y, weights.mix, weights.mix_bias))
        y = F.dropout(y, self.dropout, self.training)
        y = pointwise(y, weights.out, weights.out_bias)
        y = resample(_scaled_gelu(y, scale), x.shape[2:])
        # What the points of a whole signal would not take, those of a coarser one must not take, either.
        both = enumerate(zip(grid.points, x.shape[2:], grid.whole, strict=True), 2)
        return add_to_first(x, without_highest(y, [axis for axis, (own, now, whole) in both if own == now < whole]))

    def rendered(
        self, generated: Generated, grid: Grid, weights: Weights, window: Tensor | None
    ) -> Tensor:  # (channels, *lags)
        """The kernel times its mask, on the points of the training, then on those of the grid."""
        kernel = render(generated[grid.kernel], grid.taps, weights.kernel, weights.kernel_bias)
        kernel = kernel if window is None else kernel * window
        return resample_kernel(kernel, grid.kernel, self.trained, grid.points, grid.lags)

    def grid(self, sizes: Sequence[int], shape: BlockShape | None = None) -> Grid:
        """Where the block computes on an input of these sizes; its kernel lies where the mask of ``shape`` is not 0."""
        shape, low = shape or self.shape, tuple(sizes)
        if shape.resolution:
            axes = zip(shape.resolution, self.trained, sizes, strict=True)
            low = tuple(low_size(offset, shape.temperature, trained, size) for offset, trained, size in axes)
        kernel = tuple(self._lags(axis, shape) for axis in range(len(low)))
        lags = [lags_on(*axis) for axis in zip(self.trained, low, kernel, strict=True)]
        return Grid(low, tuple((0, last) for _, last in lags) if self.causal else tuple(lags), kernel, tuple(sizes))

    def _lags(self, axis: int, shape: BlockShape) -> tuple[int, int]:
        """The first and the last lag on the points of the training; zero lies between them."""
        most, longest = self.trained[axis] - 1, self.longest[axis]
        start, end = -1.0, 1.0
        if shape.kernel:
            reach = gaussian_reach(shape.kernel[axis])
            start, end = max(-1.0, shape.mean[axis] - reach), min(1.0, shape.mean[axis] + reach)
        last = min(most, max(0, int(end * longest + 1e-6)))
        first = max(-most, min(0, -int(-start * longest + 1e-6)))
        return 0 if self.causal else first, last

    def lines(self, lags: Lags, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        """Where the points of a kernel lie on every axis, made there: a CUDA graph copies nothing from the host."""
        return [
            torch.arange(first, last + 1, dtype=dtype, device=device) / longest
            for (first, last), longest in zip(lags, self.longest, strict=True)
        ]

    def frequencies(self, grid: Grid, device: torch.device) -> list[Tensor]:
        """Where the frequencies of the convolution lie on the axes of resolution masks."""
        sizes = transform_sizes(grid.points, grid.first, taps(grid.lags))
        axes = list(zip(sizes, self.trained, grid.points, strict=True))
        return [frequencies(*axis, device, last=number == len(axes)) for number, axis in enumerate(axes, 1)]

    def _new_window(self) -> Tensor | None:
        """That of a kernel whose size stays as it is."""
        shape = self.shape
        if not shape.kernel:
            return None
        lines = self.lines(self._usual.kernel, self.kernel.device, self.kernel.dtype)
        return product([gaussian(*line) for line in zip(lines, shape.kernel, shape.mean, strict=True)])

    def _new_response(self, grid: Grid) -> Tensor | None:
        """That of a resolution that stays as it is."""
        shape = self.shape
        if not shape.resolution:
            return None
        lines = zip(self.frequencies(grid, self.kernel.device), shape.resolution, strict=True)
        return product([sigmoid(line, offset, shape.temperature) for line, offset in lines])

    @torch.no_grad()
    def _keep_variance(self, trunk: nn.Module) -> None:
        """Kernels whose squares add up to 1, as they are rendered at first on the points of the training."""
        lags = self._usual.kernel
        kernel = render(self.generated(trunk, [self._usual])[lags], taps(lags), self.kernel, self.kernel_bias)
        kernel = kernel if self.window is None else kernel * self.window
        self.kernel.div_(kernel.flatten(1).norm(dim=1, keepdim=True).clamp_min(1e-6))


def residuals(x: Tensor, grids: Sequence[Grid], block: Callable[[int, Tensor], Tensor], *, pooled: bool) -> Tensor:
    """``x`` and what all blocks add, one after the other: on as many points as it takes from there on.

    ``pooled``: in the end only the mean over all points is read, which fewer points have, too.
    """
    finer: list[tuple[Tensor, Tensor]] = []  # signals, and what was left of each
    for number, grids_behind in enumerate(grids[start:] for start in range(len(grids))):
        points = tuple(map(max, zip(*(grid.points for grid in grids_behind), strict=True)))
        if points != x.shape[2:] and (pooled or len(grids_behind) > 1):
            low = resample(x, points)
            finer += [] if pooled else [(x, low)]
            x = low
        x = block(number, x)
    for whole, low in reversed(finer):
        x = whole + resample(x - low, whole.shape[2:])
    return x


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
        return torch.ops.aten.gelu_backward(gradient, z).mul_(scale), product.to(scale.dtype)


def pointwise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same linear map at every point. On a GPU one product for each sample: a convolution would turn its input."""
    points = x.flatten(2)
    if x.is_cuda:
        y = torch.baddbmm(bias[:, None], weight.expand(x.shape[0], -1, -1), points)
    else:
        y = F.conv1d(points, weight[..., None], bias)
    return y.unflatten(2, x.shape[2:])
