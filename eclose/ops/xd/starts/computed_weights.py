"""Layers whose weight is computed before every run: weight norm, spectral norm, pruning.

An operation that starts as such a layer computes its weight in the same way, from the same parameters under the same
names, whether a parametrisation or (older) a hook does it.
"""

from typing import TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrize

Operation = TypeVar("Operation", bound=nn.Module)


def as_parameter(tensor: Tensor) -> nn.Parameter:
    """A parameter itself; for what is computed a place, which :func:`adopt` fills."""
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor.detach().clone())


def adopt(operation: Operation, layer: nn.Module) -> Operation:
    """``operation`` with the computed tensors and the forward hooks of ``layer``."""
    for name in ("weight", "bias"):
        if parametrize.is_parametrized(layer, name):
            parametrize.register_parametrization(operation, name, nn.Identity())
            operation.parametrizations[name] = layer.parametrizations[name]  # type: ignore[index,operator]
        elif isinstance(computed := getattr(layer, name, None), Tensor) and not isinstance(computed, nn.Parameter):
            delattr(operation, name)
            setattr(operation, name, computed.detach())
    for name, parameter in layer.named_parameters(recurse=False):
        if not hasattr(operation, name):
            operation.register_parameter(name, parameter)
    for name, buffer in layer.named_buffers(recurse=False):
        operation.register_buffer(name, buffer, persistent=name not in layer._non_persistent_buffers_set)
    for key, hook in layer._forward_pre_hooks.items():
        operation.register_forward_pre_hook(hook, with_kwargs=key in layer._forward_pre_hooks_with_kwargs)
    for key, after in layer._forward_hooks.items():
        operation.register_forward_hook(after, with_kwargs=key in layer._forward_hooks_with_kwargs)
    return operation
