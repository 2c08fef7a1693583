"""What the modules of a network are given: seen by running an example through a copy of it."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.reference import one_line
from eclose.errors import ConfigError, Unsuited
from eclose.signature import Signature

Example = Tensor | tuple[Any, ...]
WAY_OUT = "leave it out with select=..."


@dataclass(frozen=True)
class Given:
    """The input of a module."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    @property
    def is_signal(self) -> bool:
        """Real values ``(batch, channels, *space)`` on 1 to 3 axes."""
        return self.dtype.is_floating_point and 3 <= len(self.shape) <= 5


Inputs = dict[nn.Module, set[Given]]
Begin = Callable[[str, tuple[Any, ...], dict[str, Any]], None]


def example_of(signature: Signature) -> Tensor:
    """A sample that a network for ``signature`` takes."""
    return torch.zeros(signature.input_shape(1), dtype=torch.long if signature.tokens else torch.float32)


def drawn(signature: Signature, number: int = 2) -> Tensor:
    """Samples that tell networks apart."""
    generator = torch.Generator().manual_seed(0)
    if signature.tokens:
        return torch.randint(signature.vocabulary, signature.input_shape(number), generator=generator)
    return torch.randn(signature.input_shape(number), generator=generator)


def copied(model: nn.Module) -> nn.Module:
    """A deep copy, of networks too whose weights a hook computes."""
    computed = (value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor))
    # torch does not copy what has been computed; the hooks will compute it anew.
    return copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in computed if not tensor.is_leaf})


def inputs_of(model: nn.Module, example: Example, paths: Mapping[nn.Module, str]) -> tuple[Inputs, Any]:
    """Of every module in ``paths`` all different inputs, and the output of the network."""
    places = {path: module for module, path in paths.items()}
    seen: Inputs = {module: set() for module in paths}

    def begin(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) != 1 or kwargs or not isinstance(args[0], Tensor):
            raise Unsuited(f"'{path}' is called with something else than one tensor: {WAY_OUT}")
        if not args[0].is_floating_point() and not isinstance(places[path], nn.Identity):
            kind = str(args[0].dtype).removeprefix("torch.")
            raise Unsuited(
                f"'{path}' is given {kind} values, but operations take real floating-point ones: "
                f"convert them, or {WAY_OUT}"
            )
        seen[places[path]].add(Given(args[0].shape, args[0].dtype, args[0].device))

    return seen, run(copied(model), example, places, begin)


def run(
    twin: nn.Module,
    example: Example,
    paths: Iterable[str] = (),
    begin: Begin | None = None,
    *,
    gradients: bool = False,
) -> Any:
    """What a copy of a network makes of the example; ``begin`` is told before a module in ``paths`` runs.

    The example and all random numbers are left as they were, the copy is not.
    """
    running: list[str] = []

    def enter(path: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append(path)
        if begin is not None:
            begin(path, args, kwargs)

    def leave(*_: object) -> None:
        running.pop()

    for path in paths:
        module = twin.get_submodule(path)
        module.register_forward_pre_hook(partial(enter, path), with_kwargs=True)
        module.register_forward_hook(leave)
    given = example if isinstance(example, tuple) else (example,)
    devices = {parameter.device for parameter in twin.parameters() if parameter.device.type == "cuda"}
    try:
        with torch.random.fork_rng(list(devices)), torch.set_grad_enabled(gradients):
            # Networks may write to their inputs.
            return twin.eval()(*(part.clone() if isinstance(part, Tensor) else part for part in given))
    except ConfigError:
        raise
    except Exception as error:
        where = f"'{running[-1]}'" if running else "the network"
        raise ConfigError(f"{where} fails on the example: {one_line(error)}") from error
