"""Cells in a row: stem, cells, head. What is searched and what is trained in the end differ in their blocks only.

What a search ends with has an auxiliary tower and drop-path, too (NOS paper, 4.3).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.backbones.layers import GlobalAverage
from eclose.backbones.tokens import TokenEmbedding
from eclose.ops.conv_layers import layer
from eclose.ops.separable import Sizes, pointwise, shortening
from eclose.signature import Signature
from eclose.spaces.nos.block import Block, BlockChoice, DropPath
from eclose.spaces.nos.layout import KINDS, Layout, Place

MakeBlock = Callable[[Place, int], nn.Module]
Cells = Mapping[str, Sequence[BlockChoice]]  # the blocks of a cell, by its kind


class Cell(nn.Module):
    """Two inputs, brought to one shape; blocks, each of which reads all nodes before it; all blocks side by side."""

    def __init__(self, place: Place, blocks: int, make: MakeBlock, affine: bool) -> None:
        super().__init__()
        axes, width, late = len(place.stride), place.width, place.catches_up
        first, second = place.channels
        shortens = max(late) > 1
        self.before = shortening(first, width, late, affine) if shortens else pointwise(first, width, axes, affine)
        self.last = pointwise(second, width, axes, affine)
        self.blocks = nn.ModuleList(make(place, number) for number in range(blocks))

    def forward(self, before: Tensor, last: Tensor, shares: Sequence[Any] = ()) -> Tensor:
        """``(batch, blocks * width, *space)``; ``shares``: the weights of each block, where it is searched."""
        nodes = [self.before(before), self.last(last)]
        for number, block in enumerate(self.blocks):
            nodes.append(block(nodes, *shares[number : number + 1]))
        return torch.cat(nodes[2:], dim=1)


class Stem(nn.Module):
    """What the first two cells read: twice the same, or the second shorter by one stride (DARTS on ImageNet)."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        first, second = layout.stem_channels
        *early, late = layout.stem
        self.late: nn.Module | None = None
        if not early:
            early = [late]
        else:
            self.late = nn.Sequential(nn.ReLU(), *_convolved(first, second, late))
        layers: list[nn.Module] = []
        channels = layout.channels
        for number, stride in enumerate(early, start=1):
            outputs = first if number == len(early) else max(1, first // 2)
            layers += [*([nn.ReLU()] if layers else []), *_convolved(channels, outputs, stride)]
            channels = outputs
        self.early = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # (batch, channels, *space)
        """``before`` and ``last`` of the first cell."""
        x = self.early(x)
        return x, x if self.late is None else self.late(x)


def _convolved(inputs: int, outputs: int, stride: Sizes) -> list[nn.Module]:
    conv = layer("Conv", len(stride))(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return [conv, layer("BatchNorm", len(stride))(outputs)]


class DenseHead(nn.Module):
    """An answer at every point: the ends of all stages at the size of the input, added, and two convolutions."""

    def __init__(self, channels: Sequence[int], signature: Signature, width: int) -> None:
        super().__init__()
        conv, axes = layer("Conv", signature.axes), signature.axes
        self.sizes = signature.sizes
        self.inputs = nn.ModuleList(conv(each, width, 1, bias=False) for each in channels)
        norms = [layer("BatchNorm", axes)(width) for _ in range(2)]
        middle = conv(width, width, 3, padding=1, bias=False)
        self.answer = nn.Sequential(norms[0], nn.ReLU(), middle, norms[1], nn.ReLU(), conv(width, signature.outputs, 1))

    def forward(self, ends: Sequence[Tensor]) -> Tensor:
        """``(batch, outputs, *space)``."""
        answers = [self._whole(conv(end)) for conv, end in zip(self.inputs, ends, strict=True)]
        answer: Tensor = self.answer(reduce(add, answers))
        return answer

    def _whole(self, x: Tensor) -> Tensor:
        # The nearest point: its backward pass is deterministic on CUDA.
        return x if x.shape[2:] == self.sizes else F.interpolate(x, size=self.sizes, mode="nearest")


class PooledHead(nn.Sequential):
    """One answer a sample: the mean over space of the last end, and a linear layer."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__(GlobalAverage(), nn.Linear(channels, outputs))

    def forward(self, ends: Sequence[Tensor]) -> Tensor:
        """``(batch, outputs)``."""
        answer: Tensor = super().forward(ends[-1])
        return answer


class CellNetwork(nn.Module):
    """Stem, cells, head."""

    def __init__(self, signature: Signature, layout: Layout, blocks: int, make: MakeBlock, affine: bool) -> None:
        super().__init__()
        self.layout = layout
        self.embed = TokenEmbedding(signature.vocabulary) if signature.tokens else nn.Identity()
        self.stem = Stem(layout)
        self.cells = nn.ModuleList(Cell(place, blocks, make, affine) for place in layout.places)
        widths = [blocks * layout.places[number].width for number in layout.ends]
        first = layout.places[0]
        self.head: nn.Module
        if signature.pooled:
            self.head = PooledHead(widths[-1], signature.outputs)
        else:
            self.head = DenseHead(widths, signature, blocks * first.width)

    def outputs(self, x: Tensor, shares: Mapping[str, Sequence[Any]] | None = None) -> list[Tensor]:
        """Of every cell; ``shares``: the weights of the blocks by the kind of the cell."""
        before, last = self.stem(self.embed(x))
        outputs = []
        for place, cell in zip(self.layout.places, self.cells, strict=True):
            before, last = last, cell(before, last, shares[place.kind] if shares else ())
            outputs.append(last)
        return outputs

    def answer(self, outputs: Sequence[Tensor]) -> Tensor:
        """Of the network, from the outputs of its cells."""
        answer: Tensor = self.head([outputs[number] for number in self.layout.ends])
        return answer


class AuxiliaryTower(nn.Sequential):
    """A second answer from the middle of a network, while it is trained: that of DARTS, for inputs of any size."""

    only_in_training = True

    def __init__(self, channels: int, sizes: Sizes, outputs: int) -> None:
        axes = len(sizes)
        conv, norm = layer("Conv", axes), layer("BatchNorm", axes)
        window = tuple(min(5, size) for size in sizes)
        stride = tuple(3 if size >= 8 else 2 for size in sizes)
        left = (1 + (size - taps) // step for size, taps, step in zip(sizes, window, stride, strict=True))
        super().__init__(
            nn.ReLU(),
            layer("AvgPool", axes)(window, stride=stride),
            conv(channels, 128, 1, bias=False),
            norm(128),
            nn.ReLU(),
            conv(128, 768, tuple(min(2, size) for size in left), bias=False),
            norm(768),
            nn.ReLU(),
            GlobalAverage(),
            nn.Linear(768, outputs),
        )


class ChosenNetwork(CellNetwork):
    """What a search ends with: cells that were chosen.

    ``auxiliary`` is the weight of the loss of the tower, which stands behind the second reduction.
    """

    def __init__(
        self, signature: Signature, layout: Layout, cells: Cells, auxiliary: float, drop_path: DropPath
    ) -> None:
        def block(place: Place, number: int) -> nn.Module:
            return Block(place.sites(number), place.site(-1), cells[place.kind][number], drop_path)

        blocks = len(cells[KINDS[0]])
        super().__init__(signature, layout, blocks, block, affine=True)
        self.auxiliary, self.tower_at = auxiliary, 2 * len(layout.places) // 3
        self.tower: nn.Module | None = None
        self._second_answer: Tensor | None = None
        if auxiliary and signature.kind == "classification":  # its answer has no units
            place = layout.places[self.tower_at]
            self.tower = AuxiliaryTower(blocks * place.width, place.after, signature.outputs)

    def forward(self, x: Tensor) -> Tensor:  # as the signature says
        """As the signature says."""
        outputs = self.outputs(x)
        self._second_answer = None
        if self.training and self.tower is not None:
            self._second_answer = self.tower(outputs[self.tower_at])
        return self.answer(outputs)

    def auxiliary_outputs(self) -> list[tuple[float, Tensor]]:
        """See ``train/module_hooks.py``."""
        answer, self._second_answer = self._second_answer, None  # a network that holds no graph can be copied
        return [] if answer is None else [(self.auxiliary, answer)]
