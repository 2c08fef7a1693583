"""Penalties on the matrices of XD-operations, added to the loss of every sample while a supernet is trained."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.ops.kaleidoscope import Kaleidoscope, dense, pairs
from eclose.ops.precision import full_precision
from eclose.ops.xd import XD


class MatrixPenalty(nn.Module):
    """A number that tells how far the matrices of a network are from what is wanted, from their start on.

    The matrices belong to the operations: a penalty has no parameters and saves nothing.
    """

    names = "KLM"  # of the matrices that count

    def __init__(self, model: nn.Module, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = weight
        self.parts = [part for operation in operations_of(model) for part in _matrices(operation, self.names)]

    def extra_loss(self) -> Tensor:
        """The verb of ``train/module_hooks.py``. Frozen at the start, as in a warm-up, all penalties are zero."""
        if not any(part.entries.requires_grad for part in self.parts):
            return self.parts[0].entries.new_zeros(())
        return self.weight * self()


class DistancePenalty(MatrixPenalty):
    """``sum ||B - B_0||^2 / ||B_0||^2`` over K, L and M of every axis and operation, from B_0 at the start.

    Of a matrix that starts as zero (L of a pooling) the squared norm itself counts.
    """

    start: Tensor
    scale: Tensor

    def __init__(self, model: nn.Module, weight: float = 1.0) -> None:
        super().__init__(model, weight)
        with torch.no_grad():
            starts = dense([part.matrix for part in self.parts])
            scales = [torch.full_like(start, 1 / (start.norm().item() or 1.0)) for start in starts]
        self.register_buffer("start", _flat(starts), persistent=False)
        self.register_buffer("scale", _flat(scales), persistent=False)

    def forward(self) -> Tensor:
        """One number."""
        now = _flat(dense([part.matrix for part in self.parts]))
        return ((now - self.start) * self.scale).square().sum()


class PermutationPenalty(MatrixPenalty):
    """How far ``P = M_0^-1 M`` is from a permutation, summed over axes and operations (XD paper, footnote 8).

    A convolution of permuted inputs has ``M = M_0 P``, where M_0 is the transform at the start.
    """

    names = "M"

    def __init__(self, model: nn.Module, weight: float = 1.0) -> None:
        super().__init__(model, weight)
        places = defaultdict(list)
        for place, part in enumerate(self.parts):
            places[part.matrix.size].append(place)
        self.places = list(places.values())
        with torch.no_grad():
            starts = dense([part.matrix for part in self.parts])
        for number, alike in enumerate(self.places):
            back = _inverse(torch.stack([starts[place] for place in alike]))
            self.register_buffer(f"back{number}", back, persistent=False)

    def forward(self) -> Tensor:
        """One number."""
        now = dense([part.matrix for part in self.parts])
        with full_precision(now[0].device.type):
            values = [
                unlike_permutation(pairs.matmul(back, torch.stack([now[place] for place in alike])))
                for back, alike in zip(self.buffers(), self.places, strict=True)
            ]
        return torch.stack(values).sum()


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


_PENALTIES: Mapping[str, type[MatrixPenalty]] = {
    "distance_penalty": DistancePenalty,
    "permutation_penalty": PermutationPenalty,
}


def penalise(model: nn.Module, weights: Mapping[str, float]) -> None:
    """Hang those penalties whose weight is not zero on the first operation: a network may be a sequence of layers."""
    for name, weight in weights.items():
        if weight:
            operations_of(model)[0].add_module(name, _PENALTIES[name](model, weight))


def check_penalties(weights: Mapping[str, float]) -> None:
    """Refuse weights below zero."""
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise ConfigError(f"space.{name} is {weight}, but must be at least 0 and finite")


def operations_of(model: nn.Module) -> list[XD]:
    """The XD-operations of a network."""
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
