"""Two branches with operations of their own, and attention: ``softmax(q k^T) v``, two such forks around a softmax."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from eclose.spaces.einspace.grammar import SOFTMAX, Op
from eclose.spaces.einspace.normal_form import Chain, Fork


class TwoBranches(nn.Module):
    """``merge(first(x), second(x))``, or of halves of x."""

    def __init__(self, halves: nn.Module, first: nn.Module, second: nn.Module, merge: nn.Module) -> None:
        super().__init__()
        self.halves, self.first, self.second, self.merge = halves, first, second, merge

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One tensor."""
        one, two = self.halves(x)
        y: torch.Tensor = self.merge(self.first(one), self.second(two))
        return y


class Attention(nn.Module):
    """``softmax(query(x) key(x)^T * scale) value(x)`` in one kernel.

    ``outer`` divides the input between scores and values, ``inner`` what ``before`` makes of the first between
    queries and keys.
    """

    def __init__(
        self, outer: nn.Module, inner: nn.Module, before: nn.Module, parts: list[nn.Module], scaled: bool
    ) -> None:
        super().__init__()
        self.outer, self.before, self.inner = outer, before, inner
        self.query, self.key, self.value = parts
        self.scale = None if scaled else 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``(..., queries, features of the values)``."""
        scores, values = self.outer(x)
        queries, keys = self.inner(self.before(scores))
        q, k, v = self.query(queries), self.key(keys), self.value(values)
        if q.ndim == 3:  # the fast kernels want an axis of heads
            q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
            return F.scaled_dot_product_attention(q, k, v, scale=self.scale).squeeze(1)
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale)


class Scores(NamedTuple):
    """The first branch of attention, without its softmax."""

    before: Chain
    fork: Fork  # of queries and transposed keys

    @property
    def scaled(self) -> bool:
        """Whether products are divided by the root of their length."""
        return self.fork.merge.name == "scaled-matmul"


def scores(fork: Fork) -> Scores | None:
    """What is multiplied with the values if ``fork`` is attention."""
    if fork.merge.name != "matmul":
        return None
    match fork.branches[0]:
        case (*before, Fork(_, _, Op("matmul" | "scaled-matmul")) as inner, last) if last == SOFTMAX:
            return Scores(tuple(before), inner)
    return None
