"""Cells of NOS written down by hand, with the layers of a network of ours: what our bookkeeping is measured by."""

import torch
from torch import Tensor, nn

from eclose.ops.dynamic import convolved
from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.layout import NORMAL, REDUCTION, Layout, Place
from eclose.spaces.nos.network import CellNetwork, ChosenNetwork

BLOCKS = 4
CELLS = {
    NORMAL: (
        BlockChoice(((0, "sep_conv_3"), (1, "spatial_attention")), "dynamic_conv_3"),
        BlockChoice(((0, "channel_attention"), (1, "sep_conv_3")), "skip"),
        BlockChoice(((1, "skip"), (2, "dil_conv_3")), "channel_attention"),
        BlockChoice(((0, "sep_conv_5"), (3, "dynamic_conv_5")), "sep_conv_3"),
    ),
    REDUCTION: (
        BlockChoice(((0, "max_pool_3"), (1, "sep_conv_3")), "skip"),
        BlockChoice(((0, "skip"), (1, "max_pool_3")), "channel_attention"),
        BlockChoice(((1, "sep_conv_3"), (2, "spatial_attention")), "skip"),
        BlockChoice(((0, "max_pool_3"), (2, "skip")), "dil_conv_3"),
    ),
}


class ByHand(CellNetwork):
    """The cells above, written down as one would: equations (3) and (5) term by term, no tiers, no choices."""

    def __init__(self, signature: Signature, layout: Layout, ours: ChosenNetwork) -> None:
        class Nothing(nn.Module):
            def __init__(self, place: Place, number: int) -> None:
                super().__init__()

        super().__init__(signature, layout, BLOCKS, Nothing, affine=True)
        self.stem, self.head, self.cells = ours.stem, ours.head, nn.ModuleList()
        hands = {NORMAL: NormalByHand, REDUCTION: ReductionByHand}
        self.cells.extend(hands[p.kind](c) for p, c in zip(layout.places, ours.cells, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        before, last = self.stem(x)
        for cell in self.cells:
            before, last = last, cell(before, last)
        answer: Tensor = self.head([last])
        return answer


class CellByHand(nn.Module):
    """Holds the layers of one of our cells under short names."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.before, self.last = cell.before, cell.last
        for number, block in enumerate(cell.blocks):
            for letter, module in zip("abc", [*block.first.operations, *block.second.operations], strict=True):
                setattr(self, f"{letter}{number}", module)


class NormalByHand(CellByHand):
    """Figure 4 style, normal."""

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        s, t = self.before(before), self.last(last)
        h = self.a0(s)
        h = h + h * self.b0(t)
        n0 = h + convolved(h, self.c0(h))
        h = self.b1(t)
        n1 = h + h * self.a1(s)
        h = t + self.b2(n0)
        n2 = h + h * self.c2(h)
        h = self.a3(s)
        h = h + convolved(h, self.b3(n1))
        n3 = self.c3(h)
        return torch.cat([n0, n1, n2, n3], dim=1)


class ReductionByHand(CellByHand):
    """Likewise, reduction."""

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        s, t = self.before(before), self.last(last)
        n0 = self.a0(s) + self.b0(t)
        h = self.a1(s) + self.b1(t)
        n1 = h + h * self.c1(h)
        h = self.a2(t)
        n2 = h + h * self.b2(n0)
        n3 = self.c3(self.a3(s) + n0)
        return torch.cat([n0, n1, n2, n3], dim=1)
