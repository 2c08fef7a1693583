"""What the modules of a network are given: seen by running an example through a copy of it."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.reference import one_line
from eclose.errors import ConfigError
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


def example_of(signature: Signature) -> Tensor:
    """A sample that a network for ``signature`` takes."""
    return torch.zeros(signature.input_shape(1), dtype=torch.long if signature.tokens else torch.float32)


def copied(model: nn.Module) -> nn.Module:
    """A deep copy, of networks too whose weights a hook computes."""
    computed = (value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor))
    # torch does not copy what has been computed; the hooks will compute it anew.
    return copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in computed if not tensor.is_leaf})


def inputs_of(model: nn.Module, example: Example, paths: Mapping[nn.Module, str]) -> dict[nn.Module, set[Given]]:
    """Of every module in ``paths`` all different inputs; the network and all random numbers are left as they were."""
    twin = copied(model).eval()
    places = {twin.get_submodule(path): module for module, path in paths.items()}
    seen: dict[nn.Module, set[Given]] = {module: set() for module in paths}
    running: list[str] = []

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        original = places[module]
        running.append(paths[original])
        if len(args) != 1 or kwargs or not isinstance(args[0], Tensor):
            raise ConfigError(f"'{running[-1]}' is called with something else than one tensor: {WAY_OUT}")
        if not args[0].is_floating_point() and not isinstance(module, nn.Identity):
            kind = str(args[0].dtype).removeprefix("torch.")
            raise ConfigError(
                f"'{running[-1]}' is given {kind} values, but operations take real floating-point ones: "
                f"convert them, or {WAY_OUT}"
            )
        seen[original].add(Given(args[0].shape, args[0].dtype, args[0].device))

    def end(*_: object) -> None:
        running.pop()

    for module in places:
        module.register_forward_pre_hook(begin, with_kwargs=True)
        module.register_forward_hook(end)
    devices = {parameter.device for parameter in twin.parameters() if parameter.device.type == "cuda"}
    try:
        with torch.random.fork_rng(list(devices)), torch.no_grad():
            twin(*example) if isinstance(example, tuple) else twin(example)
    except ConfigError:
        raise
    except Exception as error:
        where = f"'{running[-1]}'" if running else "the network"
        raise ConfigError(f"{where} fails on the example: {one_line(error)}") from error
    return seen
