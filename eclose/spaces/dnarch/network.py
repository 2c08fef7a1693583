"""A continuous CNN whose kernel sizes, resolutions, widths and depth are learned while it is trained (DNArch, 2.4).

The largest network is built, and only what the masks leave is computed: weights and activations are cut, blocks beyond
the depth are skipped. Masks of channels are multiplied into the weights that make these channels, so that they cost
nothing, and :func:`trimmed` leaves a plain, smaller network.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.ccnn import CCNN
from eclose.backbones.ccnn_block import Block, BlockShape, Generated, Grid, Masks, Weights, hull, residuals
from eclose.ops.continuous import mesh
from eclose.ops.first_channels import Norm, first
from eclose.ops.masks import (
    START_WIDTH,
    Cut,
    GaussianMasks,
    Lines,
    SigmoidMasks,
    covered,
    gaussian,
    lengths,
    places,
    product,
    sigmoid,
    sigmoid_end,
    straight_through,
)
from eclose.ops.resolution import Lags, Sizes, low_sizes
from eclose.signature import Signature
from eclose.spaces.dnarch.budget import Budget, Budgeted, Offsets
from eclose.spaces.dnarch.complexity import COUNTS, BlockSizes, Weighing, complexity
from eclose.train.module_hooks import capturing


class MaskedCCNN(Budgeted, CCNN):
    """The largest network under masks. ``learn`` has letters: K kernel sizes, R resolutions, W widths, D depth."""

    static_shapes = False
    channels: Tensor
    depths: Tensor

    def __init__(
        self,
        signature: Signature,
        *,
        width: int,
        blocks: int,
        learn: str,
        largest: float,
        temperatures: Mapping[str, float],
        learn_mean: bool,
        learn_temperature: bool,
        step: int,
        budget: Budget | None,
        weighing: Weighing = COUNTS["operations"],
        hidden: int = 128,
        kernel_width: float = START_WIDTH,
        kernel: float = 0.0,
        **options: Any,
    ) -> None:
        most = round(width * largest) if "W" in learn else width
        number = round(blocks * largest) if "D" in learn else blocks
        axes = signature.axes
        masked = kernel_width if "K" in learn else kernel
        given = axes if masked else 0
        start = BlockShape((most,) * 3, (masked,) * given, (0.0,) * given)
        super().__init__(signature, most, [start] * number, hidden=hidden, **options)
        self.signature, self.step, self.width = signature, step, most
        self.trained = self._block(0).trained
        self.register_buffer("channels", places(most), persistent=False)
        self.register_buffer("depths", places(number), persistent=False)
        self._rendered: Rendered | None = None
        self.kernels = self.resolutions = self.widths = self.depth = None
        learned = {"learn_temperature": learn_temperature}
        if "K" in learn:
            steps = tuple(1 / lag for lag in self._block(0).longest)
            self.kernels = GaussianMasks((number, axes), steps, width=kernel_width, learn_mean=learn_mean)
        if "R" in learn:
            self.resolutions = SigmoidMasks((number, axes), temperatures["resolution"], **learned)
        if "W" in learn:
            self.widths = SigmoidMasks((number, 3), temperatures["width"], end=2 * width / most - 1, **learned)
            self._keep_variance()
        if "D" in learn:
            self.depth = SigmoidMasks((), temperatures["depth"], end=2 * blocks / number - 1, **learned)
        self.budget, self.weighing, self.hidden = budget, weighing, hidden
        self.begin_at_target()

    def _block(self, number: int) -> Block:
        block = self.blocks[number]
        assert isinstance(block, Block)
        return block

    @torch.no_grad()
    def _keep_variance(self) -> None:
        """Layers were drawn for all channels, but masks leave part of what they read: their weights make up for it."""
        assert self.widths is not None
        masks = sigmoid(self.channels, self.widths.offset[..., None], self.widths.temperature)  # (blocks, 3, width)
        gains = (self.width / masks.square().sum(-1)).sqrt()
        for number, (convolved, between, _) in enumerate(gains):
            self._block(number).mix.weight.mul_(convolved)
            self._block(number).out.weight.mul_(between)

    def residuals(self, x: Tensor) -> Tensor:  # (batch, width, *space)
        """The blocks that are open, each as large as its masks say."""
        now = self.sizes_of_graph if capturing() else self.rendered(x.shape[2:])
        parts = list(zip(now.grids, self._weights(now.cuts), self._masks(now), strict=True))
        scales = self._depth_values()
        generated = Generated(self.trunk, now.lags, lambda: now.points)

        def added(number: int, x: Tensor) -> Tensor:
            block, (grid, weights, masks) = self._block(number), parts[number]
            kernel = block.rendered(generated, grid, weights, masks.window)
            return block.added(x, grid, kernel, weights, masks.response, scales[number])

        return residuals(x, now.grids, added, pooled=self.pooled)

    def _masks(self, now: "Rendered") -> list[Masks]:
        """Those of kernels and resolutions, of all open blocks at once."""
        number = len(now.grids)
        windows: Sequence[Tensor | None] = [None] * number
        responses: Sequence[Tensor | None] = [None] * number
        if self.kernels is not None:
            width, mean = (first(each, number).reshape(-1, 1) for each in (self.kernels.width, self.kernels.mean))
            windows = self._by_block(now.kernels, gaussian(now.kernels.at, width, mean))
        elif kernel := self._block(0).shape.kernel:  # all have one width, along every axis
            windows = self._by_block(now.kernels, gaussian(now.kernels.at, kernel[0]))
        if self.resolutions is not None:
            offset, temperature = first(self.resolutions.offset, number).reshape(-1, 1), self.resolutions.temperature
            responses = self._by_block(now.frequencies, sigmoid(now.frequencies.at, offset, temperature))
        return [Masks(*each) for each in zip(windows, responses, strict=True)]

    def _by_block(self, lines: Lines, values: Tensor) -> list[Tensor]:
        """Products over the axes."""
        each, axes = lines.split(values), self.signature.axes
        return [product(each[start : start + axes]) for start in range(0, len(each), axes)]

    def _weights(self, cuts: Sequence[Cut]) -> list[Weights]:
        """Those of all open blocks, for the channels that are left."""
        number = len(cuts[0].lengths)
        weights = [self._block(each).weights() for each in range(number)]
        if self.widths is None:
            return weights
        offsets = first(self.widths.offset, number).T[..., None]  # (3, blocks, 1)
        return cut(weights, cuts, sigmoid(self.channels, offsets, self.widths.temperature))

    def shapes(self, *, known: bool = False) -> list[BlockShape]:
        """What is computed now, block by block."""
        host = self.on_host(known=known)
        number = len(self.blocks)
        if "depth.offset" in host:
            end = sigmoid_end(host["depth.offset"].item(), host["depth.temperature"].item())
            number = covered(end, number)
        return [self._shape(each, host) for each in range(number)]

    def rendered(self, sizes: Sequence[int] = (), *, known: bool = False) -> "Rendered":
        """See :class:`Budgeted`; of an input of other sizes than those of the training, if they are given."""
        shapes, weight = self.shapes(known=known), self.encoder.weight
        widths = tuple(shape.widths for shape in shapes)
        grids = tuple(self._block(each).grid(sizes or self.trained, shape) for each, shape in enumerate(shapes))
        key = widths, grids, weight.device, weight.dtype
        if self._rendered is None or self._rendered.key != key:
            self._rendered = self._new_rendered(key, widths, grids)
        return self._rendered

    @torch.inference_mode(False)  # a training may come to use what is made, too
    def _new_rendered(self, key: Hashable, widths: Sequence[Sizes], grids: Sequence[Grid]) -> "Rendered":
        weight, host = self.encoder.weight, torch.device("cpu")
        kernels, frequencies, block = [], [], self._block(0)
        for grid in grids:
            kernels += block.lines(grid.kernel, host, weight.dtype)
            frequencies += block.frequencies(grid, host)
        lags = hull(grid.kernel for grid in grids)
        return Rendered(
            key,
            grids,
            lags,
            [Cut(lengths, self.width, weight.device) for lengths in zip(*widths, strict=True)],
            Lines(kernels, weight.device),
            Lines(frequencies, weight.device),
            mesh(block.lines(lags, host, weight.dtype)).to(weight.device),
        )

    def _shape(self, number: int, host: Mapping[str, Tensor]) -> BlockShape:
        shape = self._block(number).shape
        if "kernels.width" in host:
            kernel, mean = (tuple(host[f"kernels.{part}"][number].tolist()) for part in ("width", "mean"))
            shape = replace(shape, kernel=kernel, mean=mean)
        if "resolutions.offset" in host:
            offsets = tuple(host["resolutions.offset"][number].tolist())
            shape = replace(shape, resolution=offsets, temperature=host["resolutions.temperature"].item())
        if "widths.offset" in host:
            temperature = host["widths.temperature"].item()
            ends = [sigmoid_end(offset, temperature) for offset in host["widths.offset"][number].tolist()]
            first, second, third = (self._rounded(covered(end, self.width)) for end in ends)
            shape = replace(shape, widths=(first, second, third))
        return shape

    def tables(self) -> dict[str, nn.Module]:
        """Masks by what they belong to, in the order in which a budget changes them."""
        tables = {name: getattr(self, name) for name in ("widths", "resolutions", "depth", "kernels")}
        return {name: table for name, table in tables.items() if table is not None}

    @torch.no_grad()
    def found(self) -> list[BlockShape]:
        """The same with what depth has left of every block, for a network that has no masks."""
        scales = torch.tensor(self._depth_values()).tolist()
        return [replace(shape, scale=scale) for shape, scale in zip(self.shapes(), scales, strict=False)]

    def _rounded(self, width: int) -> int:
        """Up to the next multiple of the step: few different sizes, and such as GPUs are quick at."""
        return min(self.width, -(-width // self.step) * self.step)

    def _depth_values(self) -> Sequence[Tensor | float]:  # (blocks,)
        if self.depth is None:
            return [1.0] * len(self.blocks)
        return sigmoid(self.depths, self.depth.offset, self.depth.temperature).unbind()

    def sizes(self, offsets: Offsets) -> BlockSizes:
        """What these masks leave, for the complexity."""
        number = len(self.blocks)
        widths = torch.full((number, 3), float(self.width))
        depth = torch.tensor(float(number))
        if "widths" in offsets:
            length = lengths(*offsets["widths"], self.width)
            rounded = (length.detach() / self.step).ceil() * self.step  # what is computed is what counts
            widths = straight_through(length, rounded.clamp(max=self.width))
        if "depth" in offsets:
            depth = lengths(*offsets["depth"], number)
        return BlockSizes(self._points(offsets).prod(-1), widths, depth)

    def _points(self, offsets: Offsets) -> Tensor:  # (blocks, axes)
        if "resolutions" in offsets:
            return low_sizes(*offsets["resolutions"], self.trained)
        return torch.tensor([self.trained] * len(self.blocks), dtype=torch.float32)

    def cost(self, offsets: Offsets) -> Tensor:  # ()
        """See :class:`Budgeted`."""
        return complexity(self.sizes(offsets), self.weighing, self.hidden)

    def counted(self, offsets: Offsets) -> Hashable:
        """See :class:`Budgeted`. The gradient of an axis follows from the points of the others."""
        return str([size.tolist() for size in (self._points(offsets), *self.sizes(offsets))])


@dataclass(frozen=True)
class Rendered:
    """All sizes that are computed, and what follows from them alone, made once for as long as they stay.

    It tells CUDA graphs apart: each keeps its own, and with it the tensors that it reads.
    """

    key: Hashable
    grids: Sequence[Grid] = field(compare=False)  # of all open blocks
    lags: Lags = field(compare=False)  # of the kernel that all of theirs are parts of
    cuts: Sequence[Cut] = field(compare=False)  # of the channels that are convolved, lie between, are added
    kernels: Lines = field(compare=False)  # one for each axis of every block
    frequencies: Lines = field(compare=False)  # likewise
    points: Tensor = field(compare=False)  # (points, axes): of that kernel


def cut(blocks: Sequence[Weights], cuts: Sequence[Cut], masks: Tensor) -> list[Weights]:  # (3, blocks, width)
    """The weights of the channels that are computed, each times its mask; those of all blocks at once."""
    tensors = list(zip(*blocks, strict=True))  # by their kind
    parts = []
    for channels, mask, rows, bias in zip(cuts, masks.flatten(1).unbind(), tensors[::2], tensors[1::2], strict=True):
        values = channels(mask)
        parts.append((channels(torch.cat(rows)) * values[:, None]).split(channels.lengths))
        parts.append((channels(torch.cat(bias)) * values).split(channels.lengths))
    return [
        Weights(rows, bias, first(mix, len(rows), 1), mix_bias, first(out, len(mix), 1), out_bias)
        for rows, bias, mix, mix_bias, out, out_bias in zip(*parts, strict=True)
    ]


@torch.no_grad()
def trimmed(network: MaskedCCNN, plain: CCNN) -> CCNN:
    """``plain``, a network of the sizes that are left, with the weights of the masked one."""
    plain.load_state_dict(
        {name: value for name, value in network.state_dict().items() if name in plain.state_dict()}
        | {name: value for name, value in plain.state_dict().items() if name.startswith("blocks.")}
    )
    weights = network._weights(network.rendered().cuts)
    for number, (block, values) in enumerate(zip(plain.blocks, weights, strict=True)):
        assert isinstance(block, Block)
        for mine, value in zip(block.weights(), values, strict=True):
            mine.copy_(value)
        _copy_norm(block.norm, network._block(number).norm)
    return plain


def _copy_norm(small: Norm, large: Norm) -> None:
    for mine, value in zip(small.state_dict().values(), large.state_dict().values(), strict=True):
        mine.copy_(value[: len(mine)])
