"""What a network of given sizes costs, as a formula that gradients go through (DNArch, section 2.5 and appendix C).

A block computes on ``points`` points with ``a``, ``b`` and ``c`` channels (convolved, between, added). The paper counts

    ``points a b + points b c``        two pointwise linear layers
    ``points log2(points) a``          the Fourier convolution; the paper leaves out ``a``, but every channel has one
    ``points (a + 2 b + c)``           norm, GELU and dropout, GELU

and so do we. Encoder and decoder do not count: no mask reaches them. Other counts weigh these and further terms.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class BlockSizes(NamedTuple):
    """Sizes of all blocks as tensors, whole numbers that have gradients."""

    points: Tensor  # (blocks,): points at which a block computes
    widths: Tensor  # (blocks, 3)
    depth: Tensor  # (): how many of the blocks are computed


class Weighing(NamedTuple):
    """How much each term counts: of multiplications, transforms, values that layers give, parameters, blocks.

    The last two are for memory: values of the channels that are convolved, and of those between the linear layers.
    """

    products: float = 0.0
    transforms: float = 0.0
    values: float = 0.0
    parameters: float = 0.0
    blocks: float = 0.0
    convolved: float = 0.0
    between: float = 0.0


COUNTS: Mapping[str, Weighing] = {
    "operations": Weighing(products=1.0, transforms=1.0, values=1.0),
    "parameters": Weighing(parameters=1.0),
    "memory": Weighing(values=1.0, convolved=2.0),
}
"""``memory``: ``points (3 a + 2 b + c)``, the values that a training step keeps for its way back, where most of its
memory goes: before and behind the norm, behind the convolution; before and behind the first GELU; before the second.
Dropout adds to them, see :func:`weighing_of`. Of any network but ``ccnn`` it is the values that its layers give.
"""


def weighing_of(count: str, dropout: float) -> Weighing:
    """How a network with this dropout counts: the factors of its values are kept, too."""
    return COUNTS[count]._replace(between=float(count == "memory" and dropout > 0))


def complexity(sizes: BlockSizes, weighing: Weighing, hidden: int) -> Tensor:  # ()
    """The cost of the first ``depth`` blocks. Depth has the gradient of so many blocks of mean cost."""
    each = terms(sizes.points, sizes.widths, hidden)
    cost = each @ torch.tensor(weighing, dtype=each.dtype, device=each.device)
    inside = torch.arange(len(cost), device=cost.device) < sizes.depth.detach()
    return (cost * inside).sum() * (sizes.depth / sizes.depth.detach())


def terms(points: Tensor, widths: Tensor, hidden: int) -> Tensor:  # (blocks,), (blocks, 3)
    """What a :class:`Weighing` weighs, ``(blocks, 7)``."""
    a, b, c = widths.unbind(-1)
    products = points * b * (a + c)
    transforms = points * torch.log2(points.clamp(min=2)) * a
    values = points * (a + 2 * b + c)
    parameters = a * (hidden + 3 + b) + b * (c + 1) + c  # rows of the generator, norm, two layers
    each = (products, transforms, values, parameters, torch.ones_like(points), points * a, points * b)
    return torch.stack(each, dim=-1)
