"""How long the parts of a network take on a machine: a small model of its costs, from a few blocks that are timed.

What is timed is a prediction, for which kernels are rendered once; in a training step they are rendered every time.
"""

import itertools
import math

import torch
from torch import Tensor, nn

from eclose.backbones.ccnn_block import Block, BlockShape
from eclose.ops.continuous import TRUNKS
from eclose.spaces.dnarch.complexity import Weighing, terms
from eclose.train.cost import measure_latency

_SAMPLES = 8
_PARTS = (0.25, 0.5, 1.0)  # of the largest width
_OFFSETS = (-0.3, 1.0)  # of resolution masks: a coarse and a fine one

# Parameters take no time by themselves; what only memory counts is in the other values.
_UNTIMED = [Weighing._fields.index(name) for name in ("parameters", "convolved", "between")]


class _Alone(nn.Module):
    """A block with its generator."""

    def __init__(self, shape: BlockShape, sizes: tuple[int, ...], generator: str, hidden: int) -> None:
        super().__init__()
        self.trunk = TRUNKS[generator](len(sizes), hidden, 1.0)
        self.block = Block(shape, sizes, self.trunk, hidden)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x, self.trunk)
        return y


def calibrated(
    sizes: tuple[int, ...], width: int, device: torch.device, precision: str, *, hidden: int, generator: str
) -> Weighing:
    """Milliseconds of every term of the cost, from blocks of several sizes; none is below zero."""
    rows, times = [], []
    x = torch.zeros(_SAMPLES, width, *sizes, device=device)
    with torch.random.fork_rng([]):
        for part, inner, offset in itertools.product(_PARTS, _PARTS, _OFFSETS):
            widths = (max(1, round(part * width)), max(1, round(inner * width)), max(1, round(part * width)))
            shape = BlockShape(widths, resolution=(offset,) * len(sizes))
            block = _Alone(shape, sizes, generator, hidden).to(device)
            points = math.prod(block.block.grid(sizes).points)
            rows.append(terms(torch.tensor([float(points)]), torch.tensor([widths]).float(), hidden)[0])
            times.append(measure_latency(block, x, precision))
    return fitted(torch.stack(rows), times)


def fitted(terms: Tensor, times: list[float]) -> Weighing:  # (networks, 7)
    """What every term takes, so that networks with these terms take these times; none is below zero."""
    matrix, wanted = terms.double().clone(), torch.tensor(times).double()
    matrix[:, _UNTIMED] = 0.0
    return Weighing(*_not_negative(matrix / wanted[:, None], torch.ones_like(wanted)).tolist())


def _not_negative(matrix: Tensor, wanted: Tensor) -> Tensor:
    """Least squares over those columns whose weights are above zero."""
    used = [column for column in range(matrix.shape[1]) if matrix[:, column].any()]
    weights = torch.zeros(matrix.shape[1], dtype=matrix.dtype)
    while used:
        scale = matrix[:, used].norm(dim=0)
        found = torch.linalg.lstsq(matrix[:, used] / scale, wanted[:, None], driver="gelsd").solution[:, 0] / scale
        if (found > 0).all():
            weights[used] = found
            break
        used.pop(int(found.argmin()))
    return weights
