"""The rules that move parameters, and which parameters they decay.

Fused kernels are used where every parameter allows it. On the CPU they take a third of the time of torch's
default (Adam, parameters of a ResNet-20) and are deterministic bit for bit, for any number of threads.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from eclose.errors import ConfigError
from eclose.registry import Registry
from eclose.train.relative_steps import RelativeAdam, RelativeSGD

optimisers = Registry("optimiser")

Groups = list[dict[str, Any]]  # each with params, lr, weight_decay and name


@optimisers.register("sgd")
def sgd(groups: Groups, *, momentum: float = 0.9, nesterov: bool = False) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    if not 0.0 <= momentum < 1.0:
        raise ValueError(f"momentum is {momentum}, but must be at least 0 and below 1")
    fused = _can_fuse(groups)
    optimiser = torch.optim.SGD(groups, momentum=momentum, nesterov=nesterov, fused=fused)
    if fused and momentum:
        _start_momentum(optimiser)
    return optimiser


@optimisers.register("relative_sgd")
def relative_sgd(groups: Groups, *, momentum: float = 0.9) -> Optimizer:
    """SGD with momentum whose step is relative to the size of what it moves; its weight decay is decoupled."""
    return RelativeSGD(groups, momentum=momentum)


@optimisers.register("relative_adam")
def relative_adam(groups: Groups, *, momentum: float = 0.9) -> Optimizer:
    """Adam whose step is relative to the size of what it moves; its weight decay is decoupled."""
    return RelativeAdam(groups, momentum=momentum)


@optimisers.register("adam")
def adam(groups: Groups, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam; its weight decay is the L2 penalty, part of the gradient."""
    return torch.optim.Adam(groups, betas=_pair(betas), eps=eps, fused=_can_fuse(groups))


@optimisers.register("adamw")
def adamw(groups: Groups, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam with decoupled weight decay."""
    return torch.optim.AdamW(groups, betas=_pair(betas), eps=eps, fused=_can_fuse(groups))


@optimisers.register("adadelta")
def adadelta(groups: Groups, *, rho: float = 0.9, eps: float = 1e-6) -> Optimizer:
    """Adadelta; a learning rate of 1 is its original form."""
    return torch.optim.Adadelta(groups, rho=rho, eps=eps)


def make_optimiser(name: str, groups: Groups, options: Mapping[str, Any]) -> Optimizer:
    """The optimiser ``name`` over ``groups`` (see :func:`parameter_groups`) with its options set."""
    member = optimisers[name]
    settings = member.complete(options, "optimiser")
    if not any(group["params"] for group in groups):
        raise ConfigError(f"optimiser '{name}' has nothing to train: no parameter requires a gradient")
    if math.inf in settings.values():
        raise ConfigError(f"optimiser '{name}': its options must be finite, but are {settings}")
    try:
        optimiser: Optimizer = member.make(groups, **settings)
    except ValueError as error:  # torch checks the ranges of rates, betas and the rest
        raise ConfigError(f"optimiser '{name}': {error}") from None
    return optimiser


def parameter_groups(
    model: nn.Module, learning_rate: float, weight_decay: float, *, decay_vectors: bool, widest: int = 0
) -> Groups:
    """Trainable parameters in the order of the model: the groups ``decayed`` and ``undecayed``.

    Undecayed are parameters that their module names in its ``undecayed`` and, unless ``decay_vectors``, those with
    at most one axis (biases, scales of normalisations). Weights with more than ``widest`` inputs a unit are in groups
    of their own, one for each number of inputs, with a rate that is lower in proportion: Adam moves every entry by
    the rate, so that the sum over many inputs moves by as many times that. A group without members is left out.
    """
    exempt, inputs = _named(model, "undecayed"), _inputs(model) if widest else {}
    groups: dict[tuple[str, int], dict[str, Any]] = {}
    for parameter in model.parameters():  # gives a shared parameter once
        if parameter.requires_grad:
            vector = parameter.ndim <= 1 and not decay_vectors
            name = "undecayed" if vector or id(parameter) in exempt else "decayed"
            wide = max(inputs.get(id(parameter), 0), widest)
            decay, lower = weight_decay if name == "decayed" else 0.0, widest / wide if wide else 1.0
            group = {"name": name, "params": [], "lr": learning_rate * lower, "weight_decay": decay}
            groups.setdefault((name, wide), group)["params"].append(parameter)
    return [groups[key] for key in sorted(groups)]


def _inputs(model: nn.Module) -> dict[int, int]:
    """How many inputs a unit sums up, by id of its weight."""
    unlike = _named(model, "unslowed")
    weights = [(name, p) for name, p in model.named_parameters() if p.ndim > 1 and id(p) not in unlike]
    return {id(p): p[0].numel() for name, p in weights if name.endswith("weight")}


def _named(model: nn.Module, attribute: str) -> set[int]:
    """Ids of what modules name. Marks on the parameters would not do: copies and loaded tensors lose them."""
    return {
        id(parameter)
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if name in getattr(module, attribute, ())
    }


def _can_fuse(groups: Groups) -> bool | None:
    """True if each parameter has a fused kernel; None leaves the choice of the next best to torch."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    able = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return True if able else None


def _start_momentum(optimiser: Optimizer) -> None:
    """Momentum of zero, from which the first step gives the gradient itself, as in torch.

    Fused SGD fails when one parameter gets its first gradient later than the rest of its group, as the
    architecture of a supernet does after the warm-up.
    """
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(
                parameter, memory_format=torch.preserve_format
            )


def _pair(betas: tuple[float, ...]) -> tuple[float, float]:
    if len(betas) != 2:
        raise ConfigError(f"betas are {list(betas)}, but must be two numbers")
    return betas[0], betas[1]
