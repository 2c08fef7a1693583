"""Turn the layers of any network into XD-operations that compute the same function at the start."""

import fnmatch
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from eclose.errors import ConfigError, Unsuited
from eclose.ops.xd import Gates, Options
from eclose.ops.xd.axes.axis import LARGEST
from eclose.registry import nearest
from eclose.spaces.causality import KEPT, Causal, check_still_causal, kept_causality
from eclose.spaces.difference import precision_of
from eclose.spaces.relaxing.functional_convolutions import functional_convolutions, layers_instead, told
from eclose.spaces.relaxing.rehearsal import Made, check_same, rehearse
from eclose.spaces.relaxing.relaxable import KINDS, MAXIMA, Chosen, axes_of, operation_of, placed
from eclose.spaces.trace import WAY_OUT, Example, Given, copied, inputs_of, run

Select = str | Callable[[str, nn.Module], bool]
Tell = Callable[[str], None]


def say(text: str) -> None:
    """One line on standard error."""
    print(f"eclose: {text}", file=sys.stderr)


def relax(
    model: nn.Module,
    example: Example,
    *,
    kinds: Sequence[str] = ("conv", "fno"),
    select: Select | None = None,
    depth: tuple[int, int, int] = (1, 1, 1),
    bias: bool = True,
    gates: Gates = True,
    max_kernel: int | None = None,
    causal: Causal = "auto",
    largest: int = LARGEST,
    paper: bool = False,
    fewest: bool = False,
    order: str | None = None,
    tell: Tell | None = say,
) -> nn.Module:
    """A copy of ``model`` whose layers are XD-operations; it computes the same function at the start.

    ``example``, an input (a tuple: several), is run once to see what every layer is given, and once through the relaxed
    network, which is refused where an operation does not run or the output differs. ``kinds`` of layers:
    ``conv`` (transposed ones too), ``fno``, ``pool``, ``max_pool`` (starts as average pooling, so the function
    changes), ``skip`` (identities). ``select`` is a pattern of module paths (``"blocks.*"``) or a predicate of path and
    module; by default all but convolutions of one tap are relaxed. Pooling, skips and sums that are no modules but
    calls of functions stay as they are.

    ``depth`` is that of K, L and M; ``bias`` and ``gates`` say whether b and C are learned (Definition 3.2 of the XD
    paper; pooling and skips always have b); gates are real, or ``"complex"``; ``max_kernel`` lets kernels grow to so
    many taps. Sizes of transforms have no prime factor above ``largest`` (larger ones fit more tightly, and overfit);
    ``paper`` makes them powers of two, ``fewest`` the factors as few and large as possible (more parameters).
    ``order`` names an order of evaluation where the planner should not choose. Weights, and the names of all
    parameters, stay.

    A network that sees no future along the last axis of its convolutions stays so (``causal``: ``"auto"``; ``True``
    refuses other networks, ``False`` lets operations see the future). ``tell`` is given a line about what a user should
    know: that it does, and which convolutions are calls of functions; ``None`` is silence.
    """
    options: dict[str, Any] = {"depth": depth, "bias": bias, "gates": gates, "order": order}
    options |= {"largest": largest, "paper": paper, "fewest": fewest}
    _check(model, options, max_kernel, select)
    kept = kept_causality(causal, model, example, dict(_chosen(model, kinds, select, example)))
    options |= {"kinds": kinds, "select": select, "max_kernel": max_kernel}
    relaxed = relax_as(model, example, causal=kept is not None, **options)
    if kept is not None:
        check_still_causal(relaxed, example, kept)
    if tell is not None:
        for line in notices(model, example, causal=causal == "auto" and kept is not None):
            tell(line)
    return relaxed


def relax_as(
    model: nn.Module,
    example: Example,
    *,
    kinds: Sequence[str],
    select: Select | None,
    max_kernel: int | None,
    causal: bool,
    **options: Any,
) -> nn.Module:
    """:func:`relax` of a network of which is known whether it is ``causal``."""
    relaxed = copied(model)
    chosen = _chosen(relaxed, kinds, select, example)
    signals, output = _signals(relaxed, example, chosen)
    made = _made(chosen, signals, {"max_kernel": max_kernel, "causal": causal, **options})
    relaxed = placed(relaxed, chosen, made)
    if max_kernel:
        _check_tied(relaxed, made, max_kernel)
    ours = rehearse(relaxed, made, example)
    if not any(isinstance(module, MAXIMA) for module in made):
        precision = max(precision_of(given.dtype, given.device) for given in signals.values())
        check_same(ours, output, lambda: run(copied(model), example), precision)
    return relaxed


def notices(model: nn.Module, example: Example, *, causal: bool) -> list[str]:
    """What a user should know about a network that is relaxed."""
    found = functional_convolutions(model, example)
    passed = (
        f"convolutions that are calls of functions stay as they are: {told(found)}; make them {layers_instead(found)}"
    )
    return [*([KEPT] if causal else []), *([passed] if found else [])]


def _made(chosen: Chosen, signals: dict[nn.Module, Given], options: dict[str, Any]) -> Made:
    made: Made = {}  # a module that stands in several places stays one
    grown: dict[object, nn.Parameter] = {}  # and so does a weight of several modules
    for path, module in chosen:
        if module not in signals:
            continue
        if module not in made:
            given = signals[module]
            try:
                operation = operation_of(module, given.shape, given.dtype, **options)
            except ValueError as error:
                raise Unsuited(f"'{path}' cannot be relaxed: {error}; {WAY_OUT}") from None
            if options["max_kernel"] and isinstance(weight := getattr(module, "weight", None), nn.Parameter):
                operation.weight = grown.setdefault(weight, operation.weight)
            made[module] = operation.to(given.device).train(module.training)
        made[module].path = path
    return made


def _check_tied(relaxed: nn.Module, made: Made, max_kernel: int) -> None:
    """Refuses weights that grow in one place and are used in another one, where they would stay."""
    names = {parameter: name for name, parameter in relaxed.named_parameters(remove_duplicate=False)}
    for module, operation in made.items():
        weight = getattr(module, "weight", None)
        if weight is not operation.weight and weight in names:
            raise ConfigError(
                f"the weight of '{operation.path}' cannot grow to {max_kernel} taps: it is tied to '{names[weight]}', "
                "which would stay as it is; select both layers or none, or leave out max_kernel"
            )


def _check(model: nn.Module, options: dict[str, Any], max_kernel: int | None, select: Select | None) -> None:
    if not isinstance(model, nn.Module):
        raise ConfigError(f"a network is relaxed, an nn.Module, not {type(model).__name__}")
    if not (select is None or isinstance(select, str) or callable(select)):
        raise ConfigError(f"select is {select!r}, but must be a pattern of paths or a function of path and module")
    if max_kernel is not None and (not isinstance(max_kernel, int) or max_kernel < 1):
        raise ConfigError(f"max_kernel is {max_kernel!r}, but must be a number of taps, at least 1")
    for name, parameter in model.named_parameters():
        path = name.rpartition(".")[0]
        if is_lazy(parameter):
            raise ConfigError(f"'{path}' is not initialised yet: run the network once before relaxing it")
        if parameter.is_meta:
            raise ConfigError(f"'{path}' is on the meta device, where nothing has a value: load its weights first")
    try:
        Options(**options)
    except ValueError as error:
        raise ConfigError(f"the network cannot be relaxed: {error}") from None


def _chosen(model: nn.Module, kinds: Sequence[str], select: Select | None, example: Example) -> Chosen:
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ConfigError(f"unknown kind of layers '{unknown[0]}'; {nearest(unknown[0], KINDS)}")
    types = tuple(layer for kind in kinds for layer in KINDS[kind])
    every = [(path, module) for path, module in model.named_modules(remove_duplicate=False) if not _inside(path)]
    layers = [(path, module) for path, module in every if isinstance(module, types)]
    if select is None:
        chosen = [(path, module) for path, module in layers if not _pointwise(module)]
    elif isinstance(select, str):
        chosen = [(path, module) for path, module in layers if fnmatch.fnmatchcase(path, select)]
    else:
        chosen = [(path, module) for path, module in layers if select(path, module)]
    if not chosen:
        wrong = [
            (path, module) for path, module in every if isinstance(select, str) and fnmatch.fnmatchcase(path, select)
        ]
        reason = f"{_told(wrong[:1])} is no layer of these kinds" if wrong else "no layer is chosen"
        found = {} if layers and select is not None else functional_convolutions(model, example)
        if found:
            way_out = f"; {told(found)} cannot be replaced: make them layers, {layers_instead(found)}"
        else:
            way_out = _way_out(layers, select)
        raise Unsuited(f"nothing to relax: {reason}; of kinds {', '.join(kinds)} there are: {_told(layers)}{way_out}")
    return chosen


def _signals(model: nn.Module, example: Example, chosen: Chosen) -> tuple[dict[nn.Module, Given], Any]:
    """What every module is given: channels, sizes; and the output of the network.

    Left out are identities that are given something else.
    """
    paths = {module: path for path, module in reversed(chosen)}
    found = {}
    seen, output = inputs_of(model, example, paths)
    for module, inputs in seen.items():
        if isinstance(module, nn.Identity) and not (inputs and all(given.is_signal for given in inputs)):
            continue
        signals = {given.shape[-1 - axes_of(module, len(given.shape)) :]: given for given in inputs}
        if not signals:
            raise Unsuited(f"'{paths[module]}' never runs on the example: {WAY_OUT}")
        if len(signals) > 1:
            sizes = " and ".join(str(tuple(shape[1:])) for shape in sorted(signals))
            raise Unsuited(f"'{paths[module]}' runs on inputs of several sizes, {sizes}: {WAY_OUT}")
        shape, given = signals.popitem()
        found[module] = replace(given, shape=shape)
    if not found:
        raise Unsuited(f"nothing to relax: no signal (batch, channels, 1 to 3 axes) goes through {_told(chosen)}")
    return found, output


def _way_out(layers: Chosen, select: Select | None) -> str:
    if not layers:
        return "; choose another network, or another space"
    if select is not None:
        return "; choose one of them"
    return (
        ", which have one tap (inputs of one point need no more) and only mix channels: "
        "choose another network or another space, or relax them all the same with select='*'"
    )


def _pointwise(module: nn.Module) -> bool:
    """A convolution of one tap, which only mixes channels."""
    return isinstance(module, KINDS["conv"]) and max(module.kernel_size) == 1  # type: ignore[arg-type]


def _inside(path: str) -> bool:
    """Whether a module only computes a weight."""
    return "parametrizations" in path.split(".")


def _told(modules: Chosen) -> str:
    told = [f"'{path}' ({type(module).__name__})" for path, module in modules]
    return ", ".join([*told[:8], "..."] if len(told) > 8 else told) or "none"
