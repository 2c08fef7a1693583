"""The network that a search ends with: chosen cells, an auxiliary tower, drop-path (NOS paper, 4.3)."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from eclose.backbones.layers import GlobalAverage
from eclose.ops.conv_layers import layer
from eclose.ops.separable import Sizes
from eclose.signature import Signature
from eclose.spaces.nos.block import Block, BlockChoice, DropPath
from eclose.spaces.nos.layout import KINDS, Layout, Place
from eclose.spaces.nos.network import CellNetwork

Cells = Mapping[str, Sequence[BlockChoice]]  # the blocks of a cell, by its kind


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


class EvaluationNetwork(CellNetwork):
    """Chosen cells. ``auxiliary`` is the weight of the loss of the tower, which stands behind the second reduction."""

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
