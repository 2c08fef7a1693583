"""Blocks of a residual network whose branches run on fewer points: learnable resolution without Fourier convolutions.

``x + up(branch(down(x)))``: ``down`` is the low-pass of a mask over the frequencies of every axis, read at as few
points as its result needs (DNArch, appendix B); ``up`` brings back these frequencies. Which branches can work on fewer
points is found by trying. Their convolutions keep their taps, so that they see farther there.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.ops.masks import offset_range, sigmoid, steepest
from eclose.ops.precision import full_precision
from eclose.ops.resolution import Sizes, fast_size, frequencies, low_pass, low_pass_filters, low_size, resample
from eclose.spaces.difference import difference
from eclose.spaces.dnarch.plan import Block, Closing, Coarsening, Down, Plan, Powers, Span
from eclose.spaces.dnarch.recording import recorded
from eclose.spaces.trace import copied, run

_TRIED = 6  # sizes, from the least to all points
_VIEWS = {"permute", "transpose", "movedim", "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"}
_FUTURE = "the network sees no later points, but a signal on fewer points would know of them"


class Resolution(NamedTuple):
    """The masks over the frequencies of the axes of a block."""

    offset: tuple[float, ...]
    temperature: tuple[float, ...]

    def points(self, trained: Sizes, sizes: Sequence[int]) -> Sizes:
        """How many are computed of a signal of these sizes; frequencies count those of the training."""
        axes = zip(self.offset, self.temperature, trained, sizes, strict=True)
        return tuple(low_size(*axis) for axis in axes)


class Coarse(nn.Module):
    """A block whose branch runs on fewer points. Its masks are those of ``resolution``, or a search hands them in."""

    def __init__(self, block: nn.Module, span: Span, trained: Sizes, resolution: Resolution | None = None) -> None:
        super().__init__()
        self.block, self.trained, self.resolution = block, trained, resolution
        self.sum_inside, self.written = not span.begins, span.written
        self.masks: tuple[Sizes, Sequence[Tensor]] | None = None  # points, and filters to these
        self._whole = trained
        self._hooks = [block.get_submodule(path).register_forward_pre_hook(self._enter) for path in span.begins]
        if span.begins:
            self._hooks.append(block.get_submodule(span.end).register_forward_hook(self._leave))
        if resolution is not None:
            device = next(block.parameters()).device
            for axis, kept in enumerate(self._filters(resolution, trained, torch.device("cpu"))):
                self.register_buffer(f"filter{axis}", kept.to(device), persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """The same shape."""
        if not self.sum_inside:
            y: Tensor = self.block(x)
            return y
        low = self._down(x)
        if not self.written:
            return x + self._up(self.block(low) - low)
        return x.add_(self._up(self.block(low.clone()) - low))

    def freed(self) -> nn.Module:
        """The block without this."""
        for hook in self._hooks:
            hook.remove()
        return self.block

    def points(self, sizes: Sizes) -> Sizes:
        """At how many the branch is computed."""
        if self.masks is not None:
            return self.masks[0]
        return sizes if self.resolution is None else self.resolution.points(self.trained, sizes)

    def extra_repr(self) -> str:
        """For ``print``."""
        fewer, whole = (" x ".join(map(str, sizes)) for sizes in (self.points(self.trained), self.trained))
        return f"its branch at {fewer} of {whole} points"

    def _down(self, x: Tensor) -> Tensor:
        self._whole = tuple(x.shape[2:])
        points, filters = self.masks or self._now(self._whole, x.device)
        kept = x.clone() if self.written else x  # for the way back
        return low_pass(kept, filters, points)

    def _up(self, y: Tensor) -> Tensor:
        with full_precision(y.device.type):
            return resample(y, self._whole)

    def _enter(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._down(args[0]), *args[1:])

    def _leave(self, _: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        return self._up(output)

    def _now(self, sizes: Sizes, device: torch.device) -> tuple[Sizes, Sequence[Tensor]]:
        assert self.resolution is not None
        if sizes == self.trained:
            return self.points(sizes), [self.get_buffer(f"filter{axis}") for axis in range(len(sizes))]
        return self.points(sizes), self._filters(self.resolution, sizes, device)

    def _filters(self, resolution: Resolution, sizes: Sizes, device: torch.device) -> list[Tensor]:
        lines = [frequencies(n, m, n, device, last=True) for n, m in zip(sizes, self.trained, strict=True)]
        responses = [sigmoid(line, *mask) for line, *mask in zip(lines, *resolution, strict=True)]
        return low_pass_filters(responses, sizes, resolution.points(self.trained, sizes))


def coarsened(network: nn.Module, plan: Plan, axes: int, temperature: float) -> Plan:
    """The plan with all blocks whose branches run on fewer points, and the reasons of the others."""
    found, fine = [], []
    modules = [_stirred(network.get_submodule(block.closing.path)) for block in plan.blocks if block.closing]
    shapes = [block.shape for block in plan.blocks if block.closing]
    causal = axes == 1 and any(_looks_back(*pair) for pair in zip(modules, shapes, strict=True))
    stirred = iter(modules)
    for number, block in enumerate(plan.blocks):
        tried: Coarsening | str = block.why_open
        if block.closing:
            tried = _FUTURE if causal else _tried(next(stirred), plan, number, axes, temperature)
        if isinstance(tried, Coarsening):
            found.append(tried)
        else:
            fine.append(f"'{block.name}': {tried}")
    return replace(plan, coarse=tuple(found), fine=tuple(fine))


def _tried(module: nn.Module, plan: Plan, number: int, axes: int, temperature: float) -> Coarsening | str:
    """How a block works on fewer points, or why it does not."""
    block = plan.blocks[number]
    assert block.closing is not None
    if block.closing.span is None:
        return block.closing.why_whole
    if len(block.shape) != axes + 2:
        return f"its signals have {len(block.shape) - 2} axes behind the channels, those of the data {axes}"
    sizes = tuple(block.shape[2:])
    heats = tuple(min(temperature, steepest(max(1, n // 2))) for n in sizes)  # so steep that they have a gradient
    shortest = Resolution(tuple(float(offset_range(torch.tensor(heat))[0]) for heat in heats), heats)
    least = shortest.points(sizes, sizes)
    if least == sizes:
        return f"it has {_by(sizes)} points, too few to leave some out"
    if why := _differs(module, block.closing.span, block.shape):
        return why
    fewer = _between(least, sizes)
    for place, few in enumerate(fewer):
        if why := _fails(module, (*block.shape[:2], *few), alone=not place):
            return f"on {_by(few)} of {_by(sizes)} points {why}"
    given = _given(plan, block.closing)
    powers = _powers(module, plan, block, set().union(*given), fewer[len(fewer) // 2])
    if powers is None:
        return "its code does other things on fewer points"
    down = tuple(_down(plan, block.closing.span, same) for same in given)
    return Coarsening(number, math.prod(block.shape[:2]), sizes, heats, down, powers)


def _between(least: Sizes, sizes: Sizes) -> list[Sizes]:
    """Some of the sizes that masks may leave: every axis at its shortest, and all of them together."""
    steps = [sorted({min(n, fast_size(m)) for m in range(low, n)}) for low, n in zip(least, sizes, strict=True)]
    alone = [(*sizes[:axis], low, *sizes[axis + 1 :]) for axis, low in enumerate(least) if low < sizes[axis]]
    shares = torch.linspace(0, 1, _TRIED).tolist()
    along = [
        tuple(each[round(share * (len(each) - 1))] if each else n for each, n in zip(steps, sizes, strict=True))
        for share in shares
    ]
    return [fewer for fewer in dict.fromkeys([*alone, *along]) if fewer != sizes]


@torch.no_grad()
def _stirred(module: nn.Module) -> nn.Module:
    """A copy with other weights: a branch that begins at zero would not show what it does."""
    twin, generator = copied(module), torch.Generator().manual_seed(1)
    for parameter in twin.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter))
    return twin


def _looks_back(module: nn.Module, shape: torch.Size) -> bool:
    """Whether the signals of a block know of earlier points, but of no later ones."""
    if len(shape) != 3 or shape[2] < 2:
        return False
    x = _drawn(shape)
    try:
        y, early, late = (
            run(copied(module), torch.cat(parts, 2))
            for parts in ((x,), (x[:, :, :1] + 1, x[:, :, 1:]), (x[:, :, :-1], x[:, :, -1:] + 1))
        )
    except ConfigError:
        return False
    later, earlier = (early - y)[:, :, 1:], (late - y)[:, :, :-1]
    return bool(later.abs().max() > 0) and not bool(earlier.abs().max() > 0)


def _drawn(shape: Sequence[int]) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, *shape[1:], generator=generator)


def _differs(module: nn.Module, span: Span, shape: torch.Size) -> str:
    """Whether a block is another one with a low-pass that lets everything pass."""
    x = _drawn(shape)
    coarse = Coarse(copied(module), span, tuple(shape[2:]))
    sizes = tuple(shape[2:])
    coarse.masks = sizes, low_pass_filters([torch.ones(n // 2 + 1) for n in sizes], sizes, sizes)
    try:
        found = difference(run(coarse, x), run(copied(module), x), torch.finfo(torch.float32).eps)
    except ConfigError as error:
        return _shortly(error)
    return f"with its input resampled it is another function, with {found}" if found else ""


def _fails(module: nn.Module, shape: Sequence[int], *, alone: bool) -> str:
    """Why a block does not work on signals of a shape. ``alone``: a sample by itself has to give the same."""
    x = _drawn(shape)
    try:
        y = run(copied(module), x)
        first = run(copied(module), x[:1]) if alone else y[:1]
    except ConfigError as error:
        return _shortly(error)
    if not isinstance(y, Tensor) or y.shape != x.shape:
        return "it gives signals of another shape"
    return "samples change each other" if difference(y[:1], first, torch.finfo(torch.float32).eps) else ""


def _shortly(error: ConfigError) -> str:
    return str(error).replace("the network fails on the example", "it fails")


def _given(plan: Plan, closing: Closing) -> list[set[int]]:
    """The signals that ``down`` is given, each with all that lies in memory where it does."""
    assert closing.span is not None
    paths = {f"{closing.path}.{path}".rstrip(".") for path in closing.span.begins or ("",)}
    given = [set(call.sources) for call in plan.recording.calls if call.path in paths]
    for value in plan.recording.values:
        for same in given:
            if value.name in _VIEWS and same.issuperset(value.sources):
                same.add(value.number)
    return given


def _down(plan: Plan, span: Span, same: set[int]) -> Down:
    kept = [each for each in plan.recording.kept if each.owner in same]
    return Down(bool(kept) and not span.written, any(each.savers & span.values for each in kept))


def _powers(module: nn.Module, plan: Plan, block: Block, given: set[int], fewer: Sizes) -> dict[int, Powers] | None:
    """How all values of the span follow the share of points, seen on fewer of them.

    ``given``: what ``down`` is given; it keeps all of that.
    """
    assert block.closing is not None
    assert block.closing.span is not None
    call = next(call for call in plan.recording.calls if call.path == block.closing.path)
    whole = plan.recording.values[call.first : call.end]
    seen = recorded(module, torch.zeros(*block.shape[:2], *fewer)).values[1:]
    if [value.name for value in seen] != [value.name for value in whole]:
        return None
    share = math.log(math.prod(fewer) / math.prod(block.shape[2:]))

    def power(before: float, now: float) -> int:
        return round(math.log(now / before) / share) if before and now else 0

    powers = {}
    for before, now in zip(whole, seen, strict=True):
        if before.number in block.closing.span.values:
            size = power(before.size, now.size)
            kept = 0 if before.number in given else size
            powers[before.number] = Powers(power(before.products, now.products), size, kept)
    return powers


def _by(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
