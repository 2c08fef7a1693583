"""What networks cost, measured on them: no formula is asked."""

import torch
from torch import Tensor, nn

from eclose.signature import Signature
from tests.contracts.cases import inputs


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def kept_a_sample(network: nn.Module, signature: Signature) -> float:
    """Numbers that one sample more adds to what autograd keeps: whole storages, each once."""
    return (_kept(network, inputs(signature, 11)) - _kept(network, inputs(signature, 7))) / 4


def _kept(network: nn.Module, x: Tensor) -> float:
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network.train()(x)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / 4
