"""Networks by name: those of this package and the user's own."""

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from eclose.backbones.fit import need_axes
from eclose.backbones.reference import load_reference, one_line
from eclose.backbones.tokens import EMBEDDING_WIDTH, TokenEmbedding
from eclose.errors import ConfigError
from eclose.registry import Registry
from eclose.signature import Signature

backbones = Registry("backbone")


def default_backbone(signature: Signature) -> str:
    """The name of the network for data of which nothing else is known."""
    return "resnet" if signature.pooled else "unet"


def make_backbone(name: str, signature: Signature, options: Mapping[str, Any]) -> nn.Module:
    """A new network for ``signature``: a registered name, or a user's ``package.module:attribute``.

    Registered networks see tokens through a :class:`TokenEmbedding`; the user's own read the raw input.
    """
    if ":" in name:
        return load_reference(name, signature, options)
    try:
        member = backbones[name]
    except ConfigError as error:
        raise ConfigError(f"{error}; your own network is named as package.module:attribute") from None
    complete = member.complete(options, "backbone")
    need_axes(name, signature)
    if not signature.tokens:
        network: nn.Module = member.make(signature, **complete)
        return network
    embedded = dataclasses.replace(signature, channels=EMBEDDING_WIDTH, vocabulary=0)
    parts = OrderedDict(embedding=TokenEmbedding(signature.vocabulary), network=member.make(embedded, **complete))
    return nn.Sequential(parts)


def check_output(model: nn.Module, signature: Signature, name: str) -> None:
    """Run two inputs through ``model`` and refuse it if what comes out does not fit ``signature``.

    The model is left as it was: parameters, buffers and the training mode of every part.
    """
    x = _example(model, signature)
    given, wanted = tuple(x.shape), signature.output_shape(2)
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            y = model(x)
    except Exception as error:
        raise ConfigError(
            f"backbone '{name}' failed on an input of shape {given}: {one_line(error)}; "
            f"for this task it must map {given} to {wanted}"
        ) from error
    finally:
        for module, mode in training.items():
            module.training = mode
    got = tuple(y.shape) if isinstance(y, torch.Tensor) else f"a {type(y).__name__}"
    if got != wanted:
        raise ConfigError(
            f"backbone '{name}' gives {got} for an input of shape {given}, but this {signature.kind} task "
            f"needs {wanted}; change its last layers or choose another backbone"
        )


def _example(model: nn.Module, signature: Signature) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)  # a local one: the run's random numbers stay untouched
    shape = signature.input_shape(2)
    parameter = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    if signature.tokens:
        return torch.randint(signature.vocabulary, shape, generator=generator).to(parameter.device)
    return torch.randn(shape, generator=generator).to(parameter)
