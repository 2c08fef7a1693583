"""Whether a network sees the future: what comes later in an input is drawn anew, and nothing before it may change.

The output tells it where it has the input's length. A network with one answer for a whole signal is causal by its
layers: each convolution is padded by its whole reach on the left, by itself or before, and given the signal in its
order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError, Unsuited
from eclose.ops.conv_layers import Conv, padding_of
from eclose.spaces.architecture import named_architecture
from eclose.spaces.difference import tensors_in
from eclose.spaces.trace import Example, copied, run

Causal = bool | Literal["auto"]

KEPT = (
    "the network sees no future, and its operations will see none: causal=False lets them "
    "(on the command line --set space.causal=false)"
)


@dataclass(frozen=True)
class Causality:
    """``future``: what sees the future, in words, or nothing; ``dims`` of the input along which outputs show that."""

    future: str = ""
    dims: tuple[int, ...] = ()


def kept_causality(
    causal: Causal, model: nn.Module, example: Example, layers: Mapping[str, nn.Module]
) -> Causality | None:
    """What operations in place of ``layers`` have to keep, if anything; ``True`` refuses who sees the future."""
    if causal not in (True, False, "auto"):
        raise ConfigError(f"causal is {causal!r}, but must be True, False or 'auto'")
    if causal is False:
        return None
    found = causality_of(model, example, layers)
    if found.future and causal is True:
        raise ConfigError(f"causal=True, but {found.future}; causal=False lets it see the future")
    return None if found.future else found


def causality_of(model: nn.Module, example: Example, layers: Mapping[str, nn.Module]) -> Causality:
    """Whether a network, or at least all these layers of it, see no future."""
    convolutions = {path: layer for path, layer in layers.items() if isinstance(layer, Conv)}
    found = Causality("the network has no input of several places that could be drawn anew")
    # The network's own precision shows most futures at once; double precision, which is slow, decides.
    for dtype in (None, torch.float64):
        probe = _probe(model, example, tuple(convolutions), dtype)
        found = found if probe is None else _judged(probe, convolutions)
        if found.future:
            break
    return found


def _judged(probe: "_Probe", convolutions: Mapping[str, Conv]) -> Causality:
    if dims := tuple(dim for dim in probe.dims if probe.shows_causality(dim)):
        return Causality(dims=dims)
    if future := _future_of_layers(probe, convolutions):
        return Causality(future)
    if any(len(probe.plain.outputs[place].shape) > 2 for dim in probe.dims for place in probe.shown(dim)):
        return Causality("the output of the network sees the future, though its convolutions do not")
    return Causality()


def check_still_causal(relaxed: nn.Module, example: Example, kept: Causality) -> None:
    """Refuses a relaxed network that comes to see the future when its operations move."""
    with torch.inference_mode(False), torch.no_grad(), torch.random.fork_rng([]):
        moved = copied(relaxed)
        for parameter in named_architecture(moved).values():
            parameter.add_(0.1 * torch.randn(parameter.shape).to(parameter))
    probe = _Probe(moved, example)
    for dim in kept.dims:
        if probe.sees_future(dim):
            raise Unsuited(
                f"relaxed, the network would see the future along dimension {dim} of its input: operations keep to the "
                "past along the last axis of a convolution only; turn the signal, leave layers out with select=..., or "
                "let them see the future with causal=False"
            )


@dataclass(frozen=True, eq=False)
class _Seen:
    outputs: list[Tensor]
    inputs: dict[str, list[Tensor]]  # of layers, by path


class _Probe:
    """A network and an input of it that can be drawn anew from some place on."""

    def __init__(self, model: nn.Module, example: Example, paths: tuple[str, ...] = ()) -> None:
        self.model, self.paths = model, paths
        self.parts = list(example) if isinstance(example, tuple) else [example]
        self.place = next(place for place, part in enumerate(self.parts) if isinstance(part, Tensor) and part.dim() > 1)
        self.given, self.drawn_anew = _two_draws(self.parts[self.place])
        self.known: dict[tuple[int, int, int | None], _Seen] = {}
        self.sizes = self.given.shape
        self.dims = [dim for dim, size in enumerate(self.sizes) if dim > 0 and size > 1]

    def seen(self, dim: int, first: int, end: int | None = None) -> _Seen:
        """What comes of an input whose places from ``first`` on are drawn anew."""
        if (dim, first, end) not in self.known:
            self.known[dim, first, end] = self._run(dim, first, end)
        return self.known[dim, first, end]

    def _run(self, dim: int, first: int, end: int | None) -> _Seen:
        mixed = self.given.clone()
        mixed.transpose(0, dim)[first:end] = self.drawn_anew.transpose(0, dim)[first:end]
        inputs: dict[str, list[Tensor]] = {path: [] for path in self.paths}

        def begin(path: str, args: tuple[Any, ...], _: Any) -> None:
            inputs[path].append(args[0].clone())

        parts = [*self.parts[: self.place], mixed, *self.parts[self.place + 1 :]]
        output = run(copied(self.model), tuple(parts), self.paths, begin)
        return _Seen([one for one in tensors_in(output) if one.is_floating_point()], inputs)

    @property
    def plain(self) -> _Seen:
        """What comes of the input itself."""
        return self.seen(0, 0, 0)

    def shows_causality(self, dim: int) -> bool:
        """Whether every output that is as long as the input depends on what was before, and on nothing later."""
        if self.sees_future(dim):
            return False
        blind = {place: self._blind(place, axes, dim) for place, axes in self.shown(dim).items()}
        cut = self.sizes[dim] // 2
        return any(self._changes(place, axis, dim, 0, cut)[cut:].any() for place in blind for axis in blind[place])

    def sees_future(self, dim: int) -> bool:
        """Whether any output that is as long as the input depends on what comes later."""
        return not all(self._blind(place, axes, dim) for place, axes in self.shown(dim).items())

    def shown(self, dim: int) -> dict[int, list[int]]:
        """Outputs, and those of their axes, that are as long as the input."""
        size, outputs = self.sizes[dim], enumerate(self.plain.outputs)
        axes = {place: [axis for axis, n in enumerate(one.shape) if axis and n == size] for place, one in outputs}
        return {place: found for place, found in axes.items() if found}

    def _blind(self, place: int, axes: list[int], dim: int) -> list[int]:
        """Axes of an output along which nothing changes before the place from which on the input does."""
        size = self.sizes[dim]
        cuts = dict.fromkeys((size // 2, size // 2 + 1, 1, size // 4, 3 * size // 4, size - 1))
        inner = [cut for cut in cuts if 0 < cut < size]
        return [axis for axis in axes if not any(self._changes(place, axis, dim, cut)[:cut].any() for cut in inner)]

    def _changes(self, place: int, axis: int, dim: int, first: int, end: int | None = None) -> Tensor:
        return changes(self.plain.outputs[place], self.seen(dim, first, end).outputs[place], axis)


def _probe(model: nn.Module, example: Example, paths: tuple[str, ...], dtype: torch.dtype | None) -> _Probe | None:
    """In a precision, where the network runs there; none where its input has no places, or not these values."""
    parts = example if isinstance(example, tuple) else (example,)
    if not any(isinstance(part, Tensor) and part.dim() > 1 for part in parts):
        return None
    twin = copied(model)
    if dtype is not None:
        twin = twin.to(dtype)
        parts = tuple(
            part.to(dtype) if isinstance(part, Tensor) and part.is_floating_point() else part for part in parts
        )
    _fill_zeros(twin)
    probe = _Probe(twin, parts, paths)
    try:
        _ = probe.plain
    except ConfigError:
        return None
    return probe


def _fill_zeros(twin: nn.Module) -> None:
    """Weights that start as zero hide what a network sees."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in twin.parameters():
            if parameter.requires_grad and not parameter.any():
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))


def _two_draws(part: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs like an example that differ everywhere; indices are 0 and 1, which every vocabulary has."""
    generator = torch.Generator().manual_seed(0)
    if part.is_floating_point() or part.is_complex():
        one, other = torch.randn(2, *part.shape, generator=generator, dtype=torch.float64).to(part)
        return one, other
    bits = torch.randint(0, 2, part.shape, generator=generator)
    return bits.to(part), (1 - bits).to(part)


def changes(before: Tensor, after: Tensor, axis: int) -> Tensor:
    """``(size,)``, true where a signal changed along an axis by more than rounding."""
    largest = before.abs().nan_to_num(0, 0, 0).max() if before.numel() else 0
    eps = torch.finfo(before.dtype).eps
    bound = (eps**0.75 if before.dtype == torch.float64 else eps**0.5) * largest
    same = (before == after) | (before.isnan() & after.isnan())  # infinities too
    moved = ~same & ~((before - after).abs() <= bound)
    return moved.movedim(axis, 0).flatten(1).any(1)


def _future_of_layers(probe: _Probe, convolutions: Mapping[str, Conv]) -> str:
    """Which convolution sees ahead of its own place; nothing if none does."""
    reaching = {path: conv for path, conv in convolutions.items() if conv.kernel_size[-1] > 1}
    if not reaching:
        return "the network has no convolution that sees the past alone"
    padded: dict[str, int] = {}
    for path, conv in reaching.items():
        reach, left = conv.dilation[-1] * (conv.kernel_size[-1] - 1), padding_of(conv, len(conv.kernel_size) - 1)[0]
        if left and left < reach:  # nobody pads inside and outside
            return _told(path, reach, left)
        padded[path] = _constants(probe, path)
        if left + padded[path] < reach:
            return _told(path, reach, left + padded[path])
    if not any(_in_order(probe, dim, padded) for dim in probe.dims):
        return "the network gives its convolutions a signal in another order, or one that has seen the future"
    return ""


def _told(path: str, reach: int, padded: int) -> str:
    ahead = reach - padded
    return (
        f"'{path}' looks {ahead} point{'s' * (ahead > 1)} ahead: pad its input by {reach} on the left, or by as much "
        "on both sides and cut off the end of its output"
    )


def _constants(probe: _Probe, path: str) -> int:
    """How many points at the begin of a layer's input no input of the network reaches."""
    pairs = zip(probe.plain.inputs[path], probe.seen(0, 0).inputs[path], strict=True)
    return min((int(changes(*pair, -1).long().cumsum(0).eq(0).sum()) for pair in pairs), default=0)


def _in_order(probe: _Probe, dim: int, padded: Mapping[str, int]) -> bool:
    """Whether all layers that are given a signal of the input's length are given it in its order."""
    size = probe.sizes[dim]
    after = probe.seen(dim, size // 2).inputs
    long = [
        changes(before, then, -1)[: lead + size // 2]
        for path, lead in padded.items()
        for before, then in zip(probe.plain.inputs[path], after[path], strict=True)
        if before.shape[-1] >= size + lead
    ]
    return bool(long) and not any(early.any() for early in long)
