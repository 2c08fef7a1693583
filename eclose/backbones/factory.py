"""Networks by name: those of this package and the user's own."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from eclose.backbones.needs import need_axes
from eclose.backbones.reference import load_reference, one_line
from eclose.backbones.tokens import EMBEDDING_WIDTH, TokenEmbedding
from eclose.errors import ConfigError
from eclose.registry import Registry
from eclose.signature import Signature

backbones = Registry("backbone")

_NO_EMBEDDING = ("linear", "linear_plus")  # they read tokens themselves, or not at all


def make_backbone(name: str, signature: Signature, options: Mapping[str, Any]) -> nn.Module:
    """A new network for ``signature``: a registered name, or a user's ``package.module:attribute``.

    Most registered networks see tokens through a :class:`TokenEmbedding`; the user's own read the raw input.
    """
    if ":" in name:
        return _materialised(load_reference(name, signature, options), signature, name)
    try:
        member = backbones[name]
    except ConfigError as error:
        raise ConfigError(f"{error}; your own network is named as package.module:attribute") from None
    for option in options:
        if option not in member.options:  # a user's own were looked at before: this is a network out of a file
            raise ConfigError(
                f"backbone '{name}' has no option '{option}' in this version of eclose: "
                "open the run with the version that made it, or search again"
            )
    complete = member.complete(options, "backbone")
    need_axes(name, signature)
    if name in _NO_EMBEDDING:
        network: nn.Module = member.make(signature, **complete)
        return network
    return behind_embedding(signature, lambda seen: member.make(seen, **complete))


def behind_embedding(signature: Signature, make: Callable[[Signature], nn.Module]) -> nn.Module:
    """What ``make`` gives for the input it sees: tokens go through a :class:`TokenEmbedding` first."""
    if not signature.tokens:
        return make(signature)
    seen = dataclasses.replace(signature, channels=EMBEDDING_WIDTH, vocabulary=0)
    return nn.Sequential(OrderedDict(embedding=TokenEmbedding(signature.vocabulary), network=make(seen)))


def check_output(model: nn.Module, signature: Signature, name: str) -> None:
    """Run two inputs through ``model`` and refuse it if what comes out does not fit ``signature``.

    The model is left as it was: parameters, buffers and the training mode of every part.
    """
    with _unchanged(model), torch.no_grad():
        _output(model, signature, name)


def check_training(model: nn.Module, signature: Signature, name: str, batch: int = 2) -> None:
    """Refuse a network that cannot be trained or whose weights cannot be saved: one pass forwards and back.

    The model is left as it was, and so are the random numbers.
    """
    _check_state(model, name)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ConfigError(f"backbone '{name}' has nothing to train: no parameter requires a gradient")
    with torch.random.fork_rng([]), _unchanged(model):
        output = _output(model, signature, name, batch, training=True)
        if not output.requires_grad or not output.is_floating_point():
            kind = str(output.dtype).removeprefix("torch.")
            raise ConfigError(
                f"backbone '{name}' gives {kind} values through which no gradient reaches its parameters: "
                "leave out detach, no_grad, argmax and the like in its forward"
            )
        try:
            output.sum().backward()
        except Exception as error:
            raise ConfigError(f"backbone '{name}' failed in its backward pass: {one_line(error)}") from error
        if any(parameter.grad is not None and parameter.grad.is_sparse for parameter in parameters):
            raise ConfigError(f"backbone '{name}' has sparse gradients, which are not supported: leave out sparse=True")


def _output(
    model: nn.Module, signature: Signature, name: str, batch: int = 2, *, training: bool = False
) -> torch.Tensor:
    """What ``model`` makes of an example; refused unless it fits ``signature``."""
    x = _example(model, signature, batch)
    given, wanted = tuple(x.shape), signature.output_shape(batch)
    where = " in training" if training else ""
    try:
        model.train(training)
        y = model(x)
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"backbone '{name}' failed{where} on an input of shape {given}: {one_line(error)}; "
            f"for this task it must map {given} to {wanted}{_advice(model, batch)}"
        ) from error
    got = tuple(y.shape) if isinstance(y, torch.Tensor) else f"a {type(y).__name__}"
    if got != wanted:
        raise ConfigError(
            f"backbone '{name}' gives {got}{where} for an input of shape {given}, but this {signature.kind} task "
            f"needs {wanted}; change its last layers or choose another backbone"
        )
    return y


def _advice(model: nn.Module, batch: int) -> str:
    """What else a failure may come from: a single sample, or weights of another type than the inputs."""
    if batch == 1:
        return ", or the batches (train.batch) must have 2 samples or more"
    kinds = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.is_floating_point()} - {"float32"}
    return f" and take float32, but it has parameters of {', '.join(sorted(kinds))}" if kinds else ""


def _check_state(model: nn.Module, name: str) -> None:
    for key, value in model.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise ConfigError(
                f"backbone '{name}' has '{key}' (a {type(value).__name__}) in its state_dict, but weights are saved "
                "as tensors only: make it a buffer, or leave out get_extra_state"
            )


def _materialised(model: nn.Module, signature: Signature, name: str) -> nn.Module:
    """``model`` with its lazy parts (``nn.LazyLinear``) initialised by an example."""
    if _lazy(model):
        with _modes_kept(model), torch.no_grad():
            _output(model, signature, name)
    if _lazy(model):
        raise ConfigError(f"backbone '{name}' has lazy layers that its forward does not use: leave them out")
    return model


def _lazy(model: nn.Module) -> bool:
    return any(is_lazy(tensor) for tensor in chain(model.parameters(), model.buffers()))


@contextmanager
def _modes_kept(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Afterwards buffers and training modes are as before, and there are no gradients.

    Not a copy: some networks cannot be copied, and a user's function may give the same network every time.
    """
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        with _modes_kept(model):
            yield
    finally:
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for buffer, value in before:
                if not torch.equal(buffer, value):  # one whose elements share memory cannot be written
                    buffer.copy_(value)


def _example(model: nn.Module, signature: Signature, batch: int) -> torch.Tensor:
    """Inputs as a training gives them, on the device of ``model``."""
    generator = torch.Generator().manual_seed(0)  # a local one: the run's random numbers stay untouched
    shape = signature.input_shape(batch)
    device = next((parameter.device for parameter in model.parameters()), None)
    if signature.tokens:
        return torch.randint(signature.vocabulary, shape, generator=generator).to(device)
    return torch.randn(shape, generator=generator, dtype=torch.float32).to(device)
