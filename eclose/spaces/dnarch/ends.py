"""What no mask of a continuous CNN reaches: encoder, decoder, the generator of kernels, the embedding of tokens.

They are part of what a network costs: of its parameters, its memory and its time.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.ccnn import CCNN
from eclose.backbones.factory import behind_embedding
from eclose.signature import Signature
from eclose.spaces.trace import drawn

_SIZES = ("width", "blocks", "kernel")  # that the ends alone do not have, or are given apart


class _WithoutBlocks(CCNN):
    def residuals(self, x: Tensor) -> Tensor:
        return x


def ends_of(signature: Signature, width: int, options: Mapping[str, Any]) -> nn.Module:
    """A network of this width without its blocks; ``options``: those of the backbone."""
    others = {name: value for name, value in options.items() if name not in _SIZES}
    with torch.random.fork_rng([]):
        return behind_embedding(signature, lambda seen: _WithoutBlocks(seen, width, (), **others))


def cost_of_ends(count: str, signature: Signature, width: int, options: Mapping[str, Any]) -> float:
    """In the unit of a count; the paper's leaves them out."""
    if count == "operations":
        return 0.0
    ends = ends_of(signature, width, options)
    if count == "parameters":
        return float(sum(parameter.numel() for parameter in ends.parameters()))
    more, fewer = (_kept(ends, drawn(signature, number)) for number in (3, 2))
    return (more - fewer) / signals(options)  # of one sample: weights and statistics are in both


def signals(options: Mapping[str, Any]) -> int:
    """How many of an input the blocks are counted for: once, where two of them are compared."""
    return 2 if options["pair"] else 1


def _kept(network: nn.Module, x: Tensor) -> float:
    """What a training step on ``x`` keeps for its way back, in numbers: whole storages, each once."""
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network.train()(x)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / torch.float32.itemsize
