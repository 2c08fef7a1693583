"""A start that is no known operation: K, L and M of an operation drawn at random (Chrysalis paper, C.1.1)."""

import torch

from eclose.ops.kaleidoscope import butterfly, unitary
from eclose.ops.xd.architecture import Architecture


@torch.no_grad()
def draw(architecture: Architecture, generator: torch.Generator) -> None:
    """K and M of every axis become random unitary matrices, L one times sqrt(n), and that is their start.

    Of the Fourier transforms of a convolution L is larger by the same factor: outputs keep their size.
    """
    filters = {id(part) for part in architecture.L}
    for part in architecture.parts():
        drawn = unitary(
            part.matrix.size, len(part.entries), radices=part.radices, increasing=part.increasing, generator=generator
        ).entries
        if id(part) in filters:
            for radix, stage in zip(part.radices, butterfly.views(drawn[0].movedim(-1, 0), part.radices), strict=True):
                stage.mul_(radix**0.5)  # as in an unnormalised Fourier transform, every stage by as much
        part.entries.copy_(drawn)
    architecture.drawn, architecture.convolves = True, False
    architecture.start = {name: parameter.detach().clone() for name, parameter in architecture.named_parameters()}
