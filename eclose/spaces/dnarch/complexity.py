"""What a network of given sizes costs, as a formula that gradients go through (DNArch, section 2.5 and appendix C).

A block computes on ``points`` points with ``a``, ``b`` and ``c`` channels (convolved, between, added). The paper counts

    ``points a b + points b c``        two pointwise linear layers
    ``points log2(points) a``          the Fourier convolution; the paper leaves out ``a``, but every channel has one
    ``points (a + 2 b + c)``           norm, GELU and dropout, GELU

and so do we. In the paper's count encoder, decoder and the generator of kernels are free: no mask reaches them. Other
counts weigh other terms, and these ends (``ends.py``) belong to them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor


class BlockSizes(NamedTuple):
    """Sizes of all blocks as tensors, whole numbers that have gradients."""

    points: Tensor  # (blocks,): points at which a block computes
    widths: Tensor  # (blocks, 3)
    depth: Tensor  # (): how many of the blocks are computed


class Weighing(NamedTuple):
    """How much each term of a block counts, and what is besides the blocks."""

    products: float = 0.0  # multiplications
    transforms: float = 0.0
    values: float = 0.0  # that layers give
    parameters: float = 0.0
    blocks: float = 0.0
    kept: float = 0.0  # values that a training step keeps for its way back
    dropped: float = 0.0  # those of them that dropout adds
    ends: float = 0.0  # no term: what the ends of the largest network cost, whatever the masks leave
    backbone_ends: float = 0.0  # likewise those of the network that is the unit


_TERMS = Weighing._fields.index("ends")  # what comes before is a weight

COUNTS: Mapping[str, Weighing] = {
    "operations": Weighing(products=1.0, transforms=1.0, values=1.0),
    "parameters": Weighing(parameters=1.0),
    "memory": Weighing(kept=1.0),
}
LATENCY = "latency"  # whose weights are measured


def weighing_of(count: str, dropout: float, ends: float = 0.0, backbone_ends: float = 0.0) -> Weighing:
    """How a network with this dropout counts: in its memory are the factors of its values, too."""
    dropped = float(count == "memory" and dropout > 0)
    return COUNTS[count]._replace(dropped=dropped, ends=ends, backbone_ends=backbone_ends)


def complexity(sizes: BlockSizes, weighing: Weighing, hidden: int) -> Tensor:  # ()
    """The cost of the first ``depth`` blocks and of the ends. Depth has the gradient of so many blocks of mean cost."""
    each = terms(sizes.points, sizes.widths, hidden)
    cost = each @ torch.tensor(weighing[:_TERMS], dtype=each.dtype, device=each.device)
    inside = torch.arange(len(cost), device=cost.device) < sizes.depth.detach()
    return (cost * inside).sum() * (sizes.depth / sizes.depth.detach()) + weighing.ends


def backbone_cost(points: int, width: int, blocks: int, weighing: Weighing, hidden: int) -> float:
    """The unit: what a network without masks costs."""
    whole = torch.full((blocks,), float(points)), torch.full((blocks, 3), float(width))
    sizes = BlockSizes(*whole, torch.tensor(float(blocks)))
    return float(complexity(sizes, weighing._replace(ends=weighing.backbone_ends), hidden))


def terms(points: Tensor, widths: Tensor, hidden: int) -> Tensor:  # (blocks,), (blocks, 3)
    """What a :class:`Weighing` weighs, ``(blocks, 7)``."""
    a, b, c = widths.unbind(-1)
    products = points * b * (a + c)
    transforms = points * torch.log2(points.clamp(min=2)) * a
    values = points * (a + 2 * b + c)
    parameters = a * (hidden + 3 + b) + b * (c + 1) + c  # rows of the generator, norm, two layers
    # Before and behind the norm, behind the convolution; before and behind the first GELU; before the second.
    kept = points * (3 * a + 2 * b + c)
    each = (products, transforms, values, parameters, torch.ones_like(points), kept, points * b)
    return torch.stack(each, dim=-1)


def in_words(choices: Mapping[str, Any], *, whole: bool) -> str:
    """By what a network is counted. ``whole``: all of its operations are, not those of its blocks alone."""
    count: str = choices["count"]
    if count == "operations" and not whole:
        return "the operations of its blocks"
    if count == LATENCY and "latency_batch" in choices:
        return f"its latency (predictions of {choices['latency_batch']} at once)"
    return f"its {count}"
