"""A start that is no known operation: K, L and M of an operation drawn at random (Chrysalis paper, C.1.1)."""

import torch

from eclose.ops.kaleidoscope import butterfly, unitary
from eclose.ops.xd.architecture import Architecture


@torch.no_grad()
def random_architecture(architecture: Architecture, depth: int, generator: torch.Generator) -> Architecture:
    """Another architecture for the same layer, of this depth, and that is its start.

    K and M of every axis are random unitary matrices, L one times sqrt(n). Of the Fourier transforms of a convolution
    L is larger by the same factor: outputs have about half of their mean square, that of their real
    part.
    """
    random = Architecture(
        architecture.axes,
        architecture.channels,
        architecture.radices,
        depth=(depth,) * 3,
        bias=architecture.b is not None,
        gates=architecture.gates,
        dtype=architecture.entries()[0].dtype,
    )
    filters = {id(part) for part in random.L}
    for part in random.parts():
        entries = unitary(
            part.matrix.size, depth, radices=part.radices, increasing=part.increasing, generator=generator
        ).entries
        if id(part) in filters:
            stages = butterfly.views(entries[0].movedim(-1, 0), part.radices)
            for radix, stage in zip(part.radices, stages, strict=True):
                stage.mul_(radix**0.5)  # as in an unnormalised Fourier transform, every stage by as much
        part.entries.copy_(entries)
    random.drawn, random.convolves = True, False
    random.start = {name: parameter.detach().clone() for name, parameter in random.named_parameters()}
    return random.to(architecture.entries()[0].device).train(architecture.training)
