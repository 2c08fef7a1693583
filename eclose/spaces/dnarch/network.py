"""A continuous CNN whose kernel sizes, resolutions, widths and depth are learned while it is trained (DNArch, 2.4).

The largest network is built, and only what the masks leave is computed: weights and activations are cut, blocks beyond
the depth are skipped. Masks of channels are multiplied into the weights that make these channels, so that they cost
nothing, and :func:`trimmed` leaves a plain, smaller network.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.ccnn import CCNN, Block, BlockShape, Known, Masks, Norm, Weights, add_to_first, first
from eclose.ops.masks import (
    START_WIDTH,
    GaussianMasks,
    SigmoidMasks,
    covered,
    lengths,
    places,
    sigmoid,
    sigmoid_end,
    straight_through,
)
from eclose.ops.resolution import low_sizes
from eclose.signature import Signature
from eclose.spaces.dnarch.budget import Budget, Budgeted, Offsets
from eclose.spaces.dnarch.complexity import COUNTS, BlockSizes, Weighing, complexity
from eclose.train.module_hooks import capturing


class MaskedCCNN(Budgeted, CCNN):
    """The largest network under masks. ``learn`` has letters: K kernel sizes, R resolutions, W widths, D depth."""

    static_shapes = False
    shapes_of_graph: Sequence[BlockShape] = ()

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
        **options: Any,
    ) -> None:
        most = round(width * largest) if "W" in learn else width
        number = round(blocks * largest) if "D" in learn else blocks
        axes = signature.axes
        start = BlockShape((most,) * 3)
        if "K" in learn:
            start = replace(start, kernel=(kernel_width,) * axes, mean=(0.0,) * axes)
        super().__init__(signature, most, [start] * number, hidden=hidden, **options)
        self.signature, self.step, self.width = signature, step, most
        self.trained = self._block(0).trained
        self.kernels = self.resolutions = self.widths = self.depth = None
        learned = {"learn_temperature": learn_temperature}
        if "K" in learn:
            steps = tuple(1 / lag for lag in self._block(0).longest)
            self.kernels = GaussianMasks((number, axes), steps, width=kernel_width, learn_mean=learn_mean)
        if "R" in learn:
            self.resolutions = SigmoidMasks((number, axes), temperatures["resolution"], **learned)
        if "W" in learn:
            self.widths = SigmoidMasks((number, 3), temperatures["width"], end=2 * width / most - 1, **learned)
        if "D" in learn:
            self.depth = SigmoidMasks((), temperatures["depth"], end=2 * blocks / number - 1, **learned)
        self.budget, self.weighing, self.hidden = budget, weighing, hidden
        self.begin_at_target()

    def _block(self, number: int) -> Block:
        block = self.blocks[number]
        assert isinstance(block, Block)
        return block

    def residuals(self, x: Tensor) -> Tensor:  # (batch, width, *space)
        """The blocks that are open, each as large as its masks say."""
        shapes = self.shapes_of_graph if capturing() else self.shapes()
        values, scales = self._width_values(), self._depth_values()
        known: Known = {}
        for number, shape in enumerate(shapes):
            block = self._block(number)
            weights = self._weights(number, values, shape.widths)
            low, masks = block.low_sizes(x.shape[2:], shape), self._masks(number)
            kernel = block.rendered(self.trunk, low, shape, weights, masks, known)
            x = add_to_first(x, block.branch(x, low, kernel, weights, masks, scales[number]))
        return x

    def _weights(self, number: int, values: Tensor | None, sizes: Sequence[int]) -> Weights:
        weights = self._block(number).weights()
        return weights if values is None else cut(weights, sizes, values[number])

    def shapes(self) -> list[BlockShape]:
        """What is computed now, block by block."""
        host = self._on_host()
        number = len(self.blocks)
        if "depth.offset" in host:
            end = sigmoid_end(host["depth.offset"].item(), host["depth.temperature"].item())
            number = covered(end, number)
        return [self._shape(each, host) for each in range(number)]

    def rendered(self) -> Hashable:
        """See :class:`Budgeted`: channels, lags and points of every block."""
        self.shapes_of_graph = self.shapes()
        found = []
        for number, shape in enumerate(self.shapes_of_graph):
            block = self._block(number)
            low = block.low_sizes(self.trained, shape)
            lags = tuple(block.lags(axis, low, shape) for axis in range(len(low)))
            found.append((shape.widths, lags, low))
        return tuple(found)

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

    def _on_host(self) -> dict[str, Tensor]:
        """The parameters of all masks on the CPU; they come from the device at once."""
        own = {f"{name}.{part}": p.detach() for name, t in self.tables().items() for part, p in t.named_parameters()}
        numbers = torch.cat([value.flatten() for value in own.values()]).cpu().split([p.numel() for p in own.values()])
        return {name: part.view(own[name].shape) for name, part in zip(own, numbers, strict=True)}

    @torch.no_grad()
    def found(self) -> list[BlockShape]:
        """The same with what depth has left of every block, for a network that has no masks."""
        scales = torch.tensor(self._depth_values()).tolist()
        return [replace(shape, scale=scale) for shape, scale in zip(self.shapes(), scales, strict=False)]

    def _rounded(self, width: int) -> int:
        """Up to the next multiple of the step: few different sizes, and such as GPUs are quick at."""
        return min(self.width, -(-width // self.step) * self.step)

    def _width_values(self) -> Tensor | None:  # (blocks, 3, width)
        if self.widths is None:
            return None
        at = places(self.width, self.widths.offset.device)
        return sigmoid(at, self.widths.offset[..., None], self.widths.temperature)

    def _depth_values(self) -> Sequence[Tensor | float]:  # (blocks,)
        if self.depth is None:
            return [1.0] * len(self.blocks)
        values = sigmoid(places(len(self.blocks), self.depth.offset.device), self.depth.offset, self.depth.temperature)
        return values.unbind()

    def _masks(self, number: int) -> Masks:
        kernels, resolutions = self.kernels, self.resolutions
        return Masks(
            () if kernels is None else kernels.width[number],
            () if kernels is None else kernels.mean[number],
            () if resolutions is None else resolutions.offset[number],
            None if resolutions is None else resolutions.temperature,
        )

    def sizes(self, offsets: Offsets) -> BlockSizes:
        """What these masks leave, for the complexity."""
        number = len(self.blocks)
        device = next(iter(offsets.values()))[0].device if offsets else torch.device("cpu")
        points = torch.full((number,), float(prod(self.trained)), device=device)
        widths = torch.full((number, 3), float(self.width), device=device)
        depth = torch.tensor(float(number), device=device)
        if "resolutions" in offsets:
            points = low_sizes(*offsets["resolutions"], self.trained).prod(-1)
        if "widths" in offsets:
            length = lengths(*offsets["widths"], self.width)
            rounded = (length.detach() / self.step).ceil() * self.step  # what is computed is what counts
            widths = straight_through(length, rounded.clamp(max=self.width))
        if "depth" in offsets:
            depth = lengths(*offsets["depth"], number)
        return BlockSizes(points, widths, depth)

    def cost(self, offsets: Offsets) -> Tensor:  # ()
        """See :class:`Budgeted`."""
        return complexity(self.sizes(offsets), self.weighing, self.hidden)


def cut(weights: Weights, sizes: Sequence[int], masks: Tensor) -> Weights:  # (3, width)
    """The weights of the channels that are computed, each times its mask."""
    a, b, c = sizes
    inner, middle, outer = (first(mask, size) for mask, size in zip(masks.unbind(), sizes, strict=True))
    return Weights(
        first(weights.kernel, a) * inner[:, None],
        first(weights.kernel_bias, a) * inner,
        first(first(weights.mix, b), a, 1) * middle[:, None],
        first(weights.mix_bias, b) * middle,
        first(first(weights.out, c), b, 1) * outer[:, None],
        first(weights.out_bias, c) * outer,
    )


@torch.no_grad()
def trimmed(network: MaskedCCNN, plain: CCNN) -> CCNN:
    """``plain``, a network of the sizes that are left, with the weights of the masked one."""
    plain.load_state_dict(
        {name: value for name, value in network.state_dict().items() if name in plain.state_dict()}
        | {name: value for name, value in plain.state_dict().items() if name.startswith("blocks.")}
    )
    values = network._width_values()
    for number, (block, shape) in enumerate(zip(plain.blocks, network.shapes(), strict=True)):
        assert isinstance(block, Block)
        for mine, value in zip(block.weights(), network._weights(number, values, shape.widths), strict=True):
            mine.copy_(value)
        _copy_norm(block.norm, network._block(number).norm)
    return plain


def _copy_norm(small: Norm, large: Norm) -> None:
    for mine, value in zip(small.state_dict().values(), large.state_dict().values(), strict=True):
        mine.copy_(value[: len(mine)])
