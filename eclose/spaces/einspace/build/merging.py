"""Two branches with operations of their own, and attention, which is two such forks around a softmax."""

from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F

from eclose.spaces.einspace.grammar import Op


class Halves(nn.Module):
    """What each of two branches gets: all of the input, or half of it along an axis."""

    def __init__(self, split: Op, lead: int) -> None:
        super().__init__()
        self.axis = lead + split.args[0] - 1 if split.name == "group" else None

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views."""
        if self.axis is None:
            return x, x
        first, second = x.chunk(2, self.axis)
        return first, second


class Merge(nn.Module):
    """``add``, ``concat``, ``matmul`` or ``scaled-matmul`` of two tensors."""

    def __init__(self, op: Op, lead: int) -> None:
        super().__init__()
        self.name = op.name
        self.axis = lead + op.args[0] - 1 if op.name == "concat" else None

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """One tensor."""
        if self.axis is not None:
            return torch.cat((first, second), self.axis)
        if self.name == "add":
            return first + second
        product = first @ second
        return product / sqrt(first.shape[-1]) if self.name == "scaled-matmul" else product


class TwoBranches(nn.Module):
    """``merge(first(x), second(x))``, or of halves of x."""

    def __init__(self, halves: Halves, first: nn.Module, second: nn.Module, merge: Merge) -> None:
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

    def __init__(self, outer: Halves, inner: Halves, before: nn.Module, parts: list[nn.Module], scaled: bool) -> None:
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
