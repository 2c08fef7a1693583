"""Turn the convolutions of any network into XD-operations that compute the same function at the start."""

import copy
import fnmatch
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.ops.xd import XD, Together
from eclose.spaces.architecture import architecture as architecture

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
Select = str | Callable[[str, nn.Module], bool]


def relax(
    model: nn.Module,
    example: Tensor,
    *,
    depth: tuple[int, int, int] = (1, 1, 1),
    bias: bool = True,
    gates: bool = True,
    paper: bool = False,
    fewest: bool = False,
    select: Select | None = None,
) -> nn.Module:
    """A copy of ``model`` whose convolutions are XD-operations; it computes the same function at the start.

    ``example`` is run once to see every convolution's input size. ``depth`` is that of K, L and M; ``bias`` and
    ``gates`` say whether b and C are learned (Definition 3.2 of paper 000); ``paper`` makes all sizes powers of
    two, ``fewest`` their factors as few and large as possible (faster, more parameters). ``select`` is a pattern of
    module paths (``"blocks.*"``) or a predicate of path and module; by default every convolution with more than one
    tap is relaxed. Weights, and the names of all parameters, stay.
    """
    model = copy.deepcopy(model)
    chosen = _chosen(model, select)
    sizes = _input_sizes(model, example, chosen)
    made: dict[nn.Module, XD] = {}  # a module that stands in several places stays one
    for path, module in chosen:
        if module not in made:
            try:
                made[module] = XD.from_conv(
                    module,  # type: ignore[arg-type]
                    sizes[module],
                    depth=depth,
                    bias=bias,
                    gates=gates,
                    paper=paper,
                    fewest=fewest,
                )
            except ValueError as error:
                raise ConfigError(f"'{path}' cannot be relaxed: {error}") from None
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[module])
    together = Together(operation.architecture for operation in made.values())
    for operation in made.values():
        operation.architecture.together = together
    return model


def _chosen(model: nn.Module, select: Select | None) -> list[tuple[str, nn.Module]]:
    convolutions: list[tuple[str, nn.Module]] = [
        (path, module)
        for path, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, CONVOLUTIONS) and path
    ]
    if select is None:
        chosen = [(path, module) for path, module in convolutions if max(module.kernel_size) > 1]  # type: ignore[arg-type]
    elif isinstance(select, str):
        chosen = [(path, module) for path, module in convolutions if fnmatch.fnmatchcase(path, select)]
    else:
        chosen = [(path, module) for path, module in convolutions if select(path, module)]
    if not chosen:
        paths = ", ".join(path for path, _ in convolutions) or "none"
        raise ConfigError(f"nothing to relax: no chosen convolution in the network (its convolutions: {paths})")
    return chosen


def _input_sizes(
    model: nn.Module, example: Tensor, chosen: Iterable[tuple[str, nn.Module]]
) -> dict[nn.Module, tuple[int, ...]]:
    seen: dict[nn.Module, set[tuple[int, ...]]] = {}
    paths = {module: path for path, module in chosen}

    def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        axes = len(module.kernel_size)  # type: ignore[arg-type]
        seen.setdefault(module, set()).add(tuple(inputs[0].shape[-axes:]))

    handles = [module.register_forward_pre_hook(look) for module in paths]
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    for module, path in paths.items():
        if module not in seen:
            raise ConfigError(f"'{path}' never runs on the example: leave it out with select=...")
        if len(seen[module]) > 1:
            raise ConfigError(f"'{path}' runs on inputs of several sizes {sorted(seen[module])}: leave it out")
    return {module: next(iter(sizes)) for module, sizes in seen.items()}
