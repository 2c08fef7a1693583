"""How long the parts of a network take on a machine: a small model of its costs, from a few blocks that are timed.

What is timed is a prediction, for which kernels are rendered once; in a training step they are rendered every time.
"""

import itertools
import math
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.ccnn_block import Block, BlockShape
from eclose.ops.continuous import TRUNKS
from eclose.signature import Signature
from eclose.spaces.dnarch.complexity import Weighing, terms
from eclose.spaces.dnarch.ends import ends_of, signals
from eclose.spaces.trace import drawn
from eclose.train.cost import measure_latency

_PARTS = (0.25, 0.5, 1.0)  # of the largest width
_OFFSETS = (-0.3, 1.0)  # of resolution masks: a coarse and a fine one

# Parameters take no time by themselves; what a training step keeps is in the other values.
_UNTIMED = [Weighing._fields.index(name) for name in ("parameters", "kept", "dropped")]


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
    signature: Signature, options: dict[str, Any], widest: int, batch: int, device: torch.device, precision: str
) -> Weighing:
    """Milliseconds of every term of the cost, from blocks of several sizes, and of the ends; none is below zero.

    ``batch``: so many samples are predicted at once.
    """
    rows, times = [], []
    sizes, hidden = tuple(size // signals(options) for size in signature.sizes), options["hidden"]
    x = torch.zeros(batch, widest, *sizes, device=device)
    with torch.random.fork_rng([]):
        for part, inner, offset in itertools.product(_PARTS, _PARTS, _OFFSETS):
            widths = (max(1, round(part * widest)), max(1, round(inner * widest)), max(1, round(part * widest)))
            shape = BlockShape(widths, resolution=(offset,) * len(sizes))
            block = _Alone(shape, sizes, options["generator"], hidden).to(device)
            points = math.prod(block.block.grid(sizes).points)
            rows.append(terms(torch.tensor([float(points)]), torch.tensor([widths]).float(), hidden)[0])
            times.append(measure_latency(block, x, precision))

    def ends(width: int) -> float:
        network = ends_of(signature, width, options).to(device)
        return measure_latency(network, drawn(signature, batch).to(device), precision) / signals(options)

    return fitted(torch.stack(rows), times)._replace(ends=ends(widest), backbone_ends=ends(options["width"]))


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
