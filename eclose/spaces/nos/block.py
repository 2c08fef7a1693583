"""The heterogeneous residual block (NOS paper, equations 2 to 5): what operations give is put together in two tiers.

A tier reads features and gives features. The first reads all nodes before it, the second what the first has given (the
surrogate node). Either calibrates the features that its operations give by the attentions and kernels given beside.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eclose.ops.dynamic import centred, convolved
from eclose.spaces.nos.operations import ATTENTION, DYNAMIC, FEATURE, OPERATIONS, SKIP, Site, built


class DropPath(nn.Module):
    """Drop-path (Larsson et al. 2017): while a network is trained, single samples go without single operations.

    What stays is scaled up, so that the mean over the draws is the output itself. All operations of a network share it.

    The probability rises to its value over so many ``epochs``; with 0 it is there from the first step on.
    """

    kept: Tensor

    def __init__(self, probability: float, epochs: float = 0.0) -> None:
        super().__init__()
        self.probability, self.epochs = probability, epochs
        self.register_buffer("kept", torch.tensor(1 - probability), persistent=False)

    def before_step(self, epochs: float) -> None:
        """See ``train/module_hooks.py``; the number goes into a tensor, which a CUDA graph reads."""
        if self.probability and self.epochs:
            self.kept.fill_(1 - self.probability * min(1.0, epochs / self.epochs))

    def forward(self, x: Tensor) -> Tensor:  # (batch, ...)
        """The same shape."""
        if not self.training or not self.probability:
            return x
        stays = torch.rand(x.shape[0], *(1,) * (x.dim() - 1), device=x.device) < self.kept
        return x * (stays / self.kept).to(x.dtype)


Choice = tuple[int, str]  # the node that is read, and the operation


class BlockChoice(NamedTuple):
    """What stays of a block: operations of the first tier, and that of the second; plain DARTS has only the first."""

    first: tuple[Choice, ...]
    second: str | None


def calibrated(features: Tensor, attentions: Iterable[Tensor] = (), kernels: Iterable[Tensor] = ()) -> Tensor:
    """``F + F * A + sum over D of F (*) D``, where ``A`` is the sum of all attentions (3, 5).

    A factor that is the same at all points is a kernel of one point, and kernels of any size add up to one kernel: a
    single convolution does them together. Only factors of points are multiplied.
    """
    attentions, kernels = list(attentions), list(kernels)
    maps = [each for each in attentions if each.shape[1] == 1]  # (batch, 1, *space)
    gains = [1 + reduce(add, found)] if (found := [each for each in attentions if each.shape[1] > 1]) else []
    if kernels:
        taps = max(kernel.shape[-1] for kernel in kernels)
        point = gains[0] if gains else kernels[0].new_ones((1,) * kernels[0].dim())
        output = convolved(features, reduce(add, [centred(kernel, taps) for kernel in (point, *kernels)]))
    else:
        output = features * gains[0] if gains else features
    return torch.addcmul(output, features, reduce(add, maps)) if maps else output


class Tier(nn.Module):
    """Chosen operations. Where none of them gives features, those are calibrated that the tier reads.

    Paths are dropped only where another one stays: not the only operation that gives features.
    """

    def __init__(self, sites: Sequence[Site], choices: Sequence[Choice], drop_path: DropPath) -> None:
        super().__init__()
        self.drop_path = drop_path
        self.operations = nn.ModuleList(built(name, sites[source], affine=True) for source, name in choices)
        kinds = [OPERATIONS[name].kind for _, name in choices]
        alone = kinds.count(FEATURE) == 1
        self.reads = [
            (source, kind, name != SKIP and not (alone and kind == FEATURE))
            for (source, name), kind in zip(choices, kinds, strict=True)
        ]

    def forward(self, nodes: Sequence[Tensor]) -> Tensor:  # each (batch, channels, *space)
        """``(batch, channels, *space)``."""
        given: dict[str, list[Tensor]] = {FEATURE: [], ATTENTION: [], DYNAMIC: []}
        for operation, (source, kind, drops) in zip(self.operations, self.reads, strict=True):
            output = operation(nodes[source])
            given[kind].append(self.drop_path(output) if drops else output)
        features = reduce(add, given[FEATURE]) if given[FEATURE] else nodes[0]
        return calibrated(features, given[ATTENTION], given[DYNAMIC])


class Block(nn.Module):
    """The block of a cell that was chosen."""

    def __init__(self, sites: Sequence[Site], within: Site, choice: BlockChoice, drop_path: DropPath) -> None:
        super().__init__()
        self.first = Tier(sites, choice.first, drop_path)
        self.second = None if choice.second is None else Tier([within], [(0, choice.second)], drop_path)

    def forward(self, nodes: Sequence[Tensor]) -> Tensor:  # each (batch, channels, *space)
        """The next node."""
        surrogate: Tensor = self.first(nodes)
        return surrogate if self.second is None else self.second([surrogate])
