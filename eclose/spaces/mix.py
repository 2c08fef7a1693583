"""Turn layers of any network into mixtures of the operations of DARTS (paper 000, section 2)."""

import copy
import fnmatch
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from eclose.backbones.resnet20 import SubsampledIdentity
from eclose.errors import ConfigError
from eclose.ops.mixture import Mixture, mixture_of_conv, mixture_of_pool, mixture_of_skip
from eclose.registry import nearest

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
SKIPS = {nn.Identity: 1, SubsampledIdentity: 2}  # stride
SHORTCUTS = ("shortcut", "skip", "downsample")  # names of places: elsewhere an identity is no layer at all
KINDS = ("conv", "pool", "skip")


def mix(
    model: nn.Module,
    example: Tensor,
    *,
    perturb: float = 0.1,
    kinds: Sequence[str] = ("conv", "pool"),
    select: str = "",
) -> nn.Module:
    """A copy of ``model`` whose layers are mixtures of operations, with most weight on the layer's own.

    ``kinds`` are ``conv`` (more than one tap), ``pool`` (two or three points) and ``skip`` (identities in places called
    shortcut, skip or downsample); ``select`` is a pattern of module paths. ``example`` is run once to see the channels.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"unknown kind of layer '{kind}'; {nearest(kind, KINDS)}")
    model = copy.deepcopy(model)
    chosen = [
        (path, module)
        for path, module in model.named_modules(remove_duplicate=False)
        if _kind(path, module) in kinds and (not select or fnmatch.fnmatchcase(path, select))
    ]
    if not chosen:
        raise ConfigError(f"nothing to mix: the network has no layer of kind {' or '.join(kinds)} that is selected")
    signals = _signals(model, example, dict.fromkeys(module for _, module in chosen))
    made: dict[nn.Module, Mixture] = {}  # a module that stands in several places stays one
    for path, module in chosen:
        if module not in signals:
            raise ConfigError(f"'{path}' never runs on the example: leave it out with select=...")
        if module not in made:
            try:
                made[module] = _mixture(module, *signals[module], perturb)
            except ValueError as error:
                raise ConfigError(f"'{path}' cannot be mixed: {error}") from None
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, made[module])
    return model


def _kind(path: str, module: nn.Module) -> str:
    if isinstance(module, CONVOLUTIONS):
        return "conv" if path and max(module.kernel_size) > 1 else ""
    if isinstance(module, POOLS) and type(module) in POOLS:  # not what somebody made of one
        taps = module.kernel_size
        return "pool" if max((taps,) if isinstance(taps, int) else taps) in (2, 3) else ""
    return "skip" if type(module) in SKIPS and path.rpartition(".")[2] in SHORTCUTS else ""


def _mixture(module: nn.Module, given: Tensor, got: Tensor, perturb: float) -> Mixture:
    if isinstance(module, CONVOLUTIONS):
        return mixture_of_conv(module, perturb=perturb)
    if isinstance(module, POOLS):
        return mixture_of_pool(module, given.shape[1], perturb=perturb).to(given)
    channels = (given.shape[1], got.shape[1])
    return mixture_of_skip(channels, given.dim() - 2, SKIPS[type(module)], perturb=perturb).to(given)


def _signals(model: nn.Module, example: Tensor, modules: Iterable[nn.Module]) -> dict[nn.Module, tuple[Tensor, Tensor]]:
    """Inputs and outputs of the modules that run on the example."""
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def look(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen[module] = (inputs[0], output)

    handles = [module.register_forward_hook(look) for module in modules]
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
    return seen
