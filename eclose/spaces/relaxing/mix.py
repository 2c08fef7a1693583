"""Turn layers of any network into mixtures of the operations of DARTS (XD paper, section 2)."""

import fnmatch
from collections.abc import Sequence

import torch
from torch import nn

from eclose.backbones.reference import one_line
from eclose.backbones.resnet20 import SubsampledIdentity
from eclose.errors import ConfigError, Unsuited
from eclose.ops.mixture import Mixture, mixture_of_conv, mixture_of_pool, mixture_of_skip
from eclose.registry import nearest
from eclose.spaces.causality import Causal, kept_causality
from eclose.spaces.relaxing.relaxable import Chosen, axes_of, check_forward, placed
from eclose.spaces.trace import WAY_OUT, Example, Given, Inputs, copied, inputs_of

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_SKIPS = {nn.Identity: 1, SubsampledIdentity: 2}  # stride
_SHORTCUTS = ("shortcut", "skip", "downsample")  # names of places: elsewhere an identity is no layer at all
_KINDS = ("conv", "pool", "skip")


def mix(
    model: nn.Module,
    example: Example,
    *,
    perturb: float = 0.1,
    kinds: Sequence[str] = ("conv", "pool"),
    select: str = "",
    causal: Causal = "auto",
) -> nn.Module:
    """A copy of ``model`` whose layers are mixtures of operations, with most weight on the layer's own.

    ``kinds`` are ``conv`` (more than one tap), ``pool`` (two or three points) and ``skip`` (identities in places called
    shortcut, skip or downsample); ``select`` is a pattern of module paths. ``example`` is run once to see the channels.
    A network that sees no future is refused, since mixtures look around: ``causal=False`` lets them.
    """
    model = copied(model)
    chosen = _chosen(model, (kinds,) if isinstance(kinds, str) else kinds, select)
    if causal is not False and kept_causality("auto", model, example, dict(chosen)) is not None:
        raise Unsuited(
            "the network sees no future, but operations of a mixture look to both sides: use the space xd, which keeps "
            "it so, or let it see the future with causal=False"
        )
    signals, _ = inputs_of(model, example, {module: path for path, module in reversed(chosen)})
    return placed(model, chosen, _made(chosen, signals, perturb))


def _chosen(model: nn.Module, kinds: Sequence[str], select: str) -> Chosen:
    for kind in kinds:
        if kind not in _KINDS:
            raise ConfigError(f"unknown kind of layer '{kind}'; {nearest(kind, _KINDS)}")
    chosen = [
        (path, module)
        for path, module in model.named_modules(remove_duplicate=False)
        if _kind(path, module) in kinds and (not select or fnmatch.fnmatchcase(path, select))
    ]
    if not chosen:
        selected = f" that select='{select}' names" if select else ""
        taps = " (convolutions of one tap do not count)" if "conv" in kinds else ""
        raise Unsuited(
            f"nothing to mix: the network has no layer of kind {' or '.join(kinds)}{selected}{taps}: "
            "choose other kinds or layers, another network, or another space"
        )
    return chosen


def _made(chosen: Chosen, signals: Inputs, perturb: float) -> dict[nn.Module, Mixture]:
    made: dict[nn.Module, Mixture] = {}  # a module that stands in several places stays one
    for path, module in chosen:
        if not signals[module]:
            raise Unsuited(f"'{path}' never runs on the example: {WAY_OUT}")
        if module not in made:
            try:
                given = next(iter(signals[module]))
                made[module] = _tried(_mixture(module, given, perturb), given).train(module.training)
            except ValueError as error:
                raise Unsuited(f"'{path}' cannot be mixed: {error}; {WAY_OUT}") from None
    return made


def _kind(path: str, module: nn.Module) -> str:
    if isinstance(module, _CONVOLUTIONS):
        return "conv" if max(module.kernel_size) > 1 else ""
    if isinstance(module, _POOLS) and type(module) in _POOLS:  # not what somebody made of one
        taps = module.kernel_size
        return "pool" if max((taps,) if isinstance(taps, int) else taps) in (2, 3) else ""
    return "skip" if type(module) in _SKIPS and path.rpartition(".")[2] in _SHORTCUTS else ""


def _mixture(module: nn.Module, given: Given, perturb: float) -> Mixture:
    axes, channels = axes_of(module, len(given.shape)), given.shape[1]
    if len(given.shape) != axes + 2:
        raise ValueError(f"it is given {tuple(given.shape)}, not (batch, channels and {axes} axes)")
    if module._forward_hooks or module._forward_pre_hooks:
        raise ValueError("it has hooks, which a mixture would not run")
    if isinstance(module, _CONVOLUTIONS):
        check_forward(module)
        return mixture_of_conv(module, perturb=perturb)
    if isinstance(module, _POOLS):
        mixture = mixture_of_pool(module, channels, perturb=perturb)
    else:
        more = module.before + module.after if isinstance(module, SubsampledIdentity) else 0
        mixture = mixture_of_skip((channels, channels + more), axes, _SKIPS[type(module)], perturb=perturb)
    return mixture.to(given.device, given.dtype)


def _tried(mixture: Mixture, given: Given) -> Mixture:
    """The mixture, once it has run: wide operations may need more of a border than a small signal has."""
    try:
        with torch.no_grad():
            mixture.eval()(torch.zeros(given.shape, dtype=given.dtype, device=given.device))
    except RuntimeError as error:
        raise ValueError(
            f"a signal of {tuple(given.shape[2:])} is too small for its operations ({one_line(error)})"
        ) from None
    return mixture
