"""Penalties on the matrices of XD-operations, added to the loss of every sample while a supernet is trained."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.ops.kaleidoscope import Kaleidoscope, dense, pairs
from eclose.ops.precision import full_precision
from eclose.ops.xd import XD
from eclose.train import Objective

Penalty = Callable[[], Tensor]


@dataclass(frozen=True)
class Penalised(Objective):
    """Loss on samples plus a penalty on the model, which is the same for every sample."""

    penalty: Penalty

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """Values ``(batch,)``."""
        return super().__call__(model, x, y) + self.penalty()


class DistancePenalty:
    """``sum ||B - B_0||^2 / ||B_0||^2`` over K, L and M of every axis and operation, from B_0 at the start.

    Of a matrix that starts as zero (L of a pooling) the squared norm itself counts.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parts = [part for operation in _operations(model) for part in _matrices(operation, "KLM")]
        with torch.no_grad():
            starts = dense([part.matrix for part in self.parts])
            scales = [torch.full_like(start, 1 / (start.norm().item() or 1.0)) for start in starts]
            self.start, self.scale = _flat(starts), _flat(scales)

    def __call__(self) -> Tensor:
        """One number."""
        if not _trained(self.parts):
            return self.start.new_zeros(())
        now = _flat(dense([part.matrix for part in self.parts]))
        return ((now - self.start) * self.scale).square().sum()


class PermutationPenalty:
    """How far ``P = M_0^-1 M`` is from a permutation, summed over axes and operations (XD paper, footnote 8).

    A convolution of permuted inputs has ``M = M_0 P``, where M_0 is the transform at the start.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parts = [part for operation in _operations(model) for part in _matrices(operation, "M")]
        places = defaultdict(list)
        for place, part in enumerate(self.parts):
            places[part.matrix.size].append(place)
        self.places = list(places.values())
        with torch.no_grad():
            starts = dense([part.matrix for part in self.parts])
            self.back = [_inverse(torch.stack([starts[place] for place in alike])) for alike in self.places]

    def __call__(self) -> Tensor:
        """One number."""
        if not _trained(self.parts):
            return self.back[0].new_zeros(())
        now = dense([part.matrix for part in self.parts])
        with full_precision(now[0].device.type):
            found = [
                unlike_permutation(pairs.matmul(back, torch.stack([now[place] for place in alike])))
                for back, alike in zip(self.back, self.places, strict=True)
            ]
        return torch.stack(found).sum()


def unlike_permutation(matrices: Tensor) -> Tensor:  # (count, n, n, 2)
    """Zero exactly at permutations, up to a phase of every entry.

    Over the moduli of a row: the sum less the root of the sum of squares, zero where one entry alone is not; and
    ``(root - 1)^2``, without which no entry at all would do. The mean over rows, and likewise over columns.
    """
    modulus = torch.linalg.vector_norm(matrices, dim=-1)  # its derivative at zero is zero, not nan
    total = modulus.new_zeros(())
    for axis in (1, 2):
        length = torch.linalg.vector_norm(modulus, dim=axis)
        total = total + (modulus.sum(axis) - length + (length - 1).square()).mean(1).sum()
    return total


PENALTIES: Mapping[str, type[DistancePenalty | PermutationPenalty]] = {
    "distance_penalty": DistancePenalty,
    "permutation_penalty": PermutationPenalty,
}


def penalised(objective: Objective, model: nn.Module, weights: Mapping[str, float]) -> Objective:
    """The objective with the penalties whose weight is not zero."""
    terms = [(weight, PENALTIES[name](model)) for name, weight in weights.items() if weight]
    if not terms:
        return objective
    return Penalised(objective.loss, objective.spread, lambda: torch.stack([w * term() for w, term in terms]).sum())


def check_penalties(model: nn.Module, weights: Mapping[str, float]) -> None:
    """Refuse weights below zero, and penalties of networks that have no matrices."""
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"strategy.{name} is {weight}, but must be at least 0 and finite")
        if weight and not _operations(model):
            raise ConfigError(f"strategy.{name} works on K-matrices, and this network has none: it is for the space xd")


def _trained(parts: Iterable[Kaleidoscope]) -> bool:
    """Frozen at the start, as in a warm-up, all penalties are zero."""
    return any(part.entries.requires_grad for part in parts)


def _operations(model: nn.Module) -> list[XD]:
    return [module for module in model.modules() if isinstance(module, XD)]


def _matrices(operation: XD, names: str) -> Iterable[Kaleidoscope]:
    for name in names:
        for part in getattr(operation.architecture, name):
            assert isinstance(part, Kaleidoscope)
            yield part


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def _inverse(matrices: Tensor) -> Tensor:  # (count, n, n, 2)
    return pairs.from_complex(torch.linalg.inv(pairs.to_complex(matrices.double()))).to(matrices)
