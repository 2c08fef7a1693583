"""The architecture of a supernet: the parameters that a search moves besides the weights.

A module that has some says so by a method ``arch_parameters``. Marks on the parameters themselves would not do: they
are lost when a network is copied.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError


class Parameters(NamedTuple):
    """All parameters of a network, for two optimisers."""

    weights: list[nn.Parameter]
    architecture: list[nn.Parameter]


def architecture(network: nn.Module) -> Parameters:
    """The parameters of a network in two lists: its weights, and what says which operations it has.

    For a training loop of one's own around a network that :func:`eclose.relax` made.
    """
    if not isinstance(network, nn.Module):
        raise ConfigError(f"a network is split into its parameters, an nn.Module, not {type(network).__name__}")
    own = named_architecture(network)
    if not own:
        raise ConfigError("the network has no architecture to train: eclose.relax gives it one")
    return Parameters([p for name, p in network.named_parameters() if name not in own], list(own.values()))


def named_architecture(model: nn.Module) -> dict[str, nn.Parameter]:
    """The architecture parameters of a network, by name."""
    own: set[int] = set()
    for module in model.modules():
        ask = getattr(module, "arch_parameters", None)
        if ask is not None:
            own.update(id(parameter) for parameter in ask())
    return {name: parameter for name, parameter in model.named_parameters() if id(parameter) in own}


def architecture_size(model: nn.Module) -> int:
    """How many numbers of it a training moves; a found architecture that was frozen counts none."""
    return sum(parameter.numel() for parameter in named_architecture(model).values() if parameter.requires_grad)


def saved_architecture(model: nn.Module) -> dict[str, Tensor]:
    """The values of :func:`architecture`, on the CPU."""
    return {name: parameter.detach().cpu().clone() for name, parameter in named_architecture(model).items()}


@torch.no_grad()
def set_architecture(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Give those architecture parameters that are named in ``values`` their values."""
    for name, parameter in named_architecture(model).items():
        if name in values:
            parameter.copy_(values[name])


def check_fit(network: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Refuse an architecture that was found in another network than this one, or at other sizes."""
    own = named_architecture(network)
    if other := sorted(own.keys() ^ values.keys()):
        raise ConfigError(f"the network for it has other layers than the one that was found (at '{other[0]}')")
    for name, parameter in own.items():
        if parameter.shape != values[name].shape:
            found, needed = (" x ".join(map(str, shape)) for shape in (values[name].shape, parameter.shape))
            raise ConfigError(f"'{name}' was found with {found} numbers, and {needed} are needed")


def freeze_architecture(model: nn.Module) -> None:
    """Leave only the weights to training."""
    for parameter in named_architecture(model).values():
        parameter.requires_grad_(False)
