"""What masks leave of a residual network: its layers cut to size, blocks left out, branches on fewer points.

Layers are cut by handing them slices of their tensors while masks learn (:func:`cut`), and for good in the end
(:func:`narrowed`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eclose.ops.first_channels import first
from eclose.spaces.dnarch.coarse_blocks import Coarse, Resolution
from eclose.spaces.dnarch.plan import Block, Coarsening, Plan
from eclose.spaces.dnarch.recording import Repeat


class Sizes(NamedTuple):
    """How many channels every width of a plan has, which of its blocks are computed, and on how many points."""

    widths: tuple[int, ...]
    open: tuple[bool, ...]
    points: tuple[tuple[int, ...], ...] = ()  # of the blocks that may have fewer

    @classmethod
    def whole(cls, plan: Plan) -> "Sizes":
        """Those of the network as it is."""
        widths, points = (width.channels for width in plan.widths), (coarse.sizes for coarse in plan.coarse)
        return cls(tuple(widths), (True,) * len(plan.blocks), tuple(points))


class Masks(NamedTuple):
    """The values of masks: one tensor for every width, one number for every block; none where nothing is learned."""

    widths: Sequence[Tensor | None]
    blocks: Sequence[Tensor | None]
    responses: Sequence[Sequence[Tensor]]  # along every axis of the blocks that may have fewer points


class Skippable(nn.Module):
    """A block, or the branch of one, that is left out unless it is ``open``."""

    def __init__(self, block: nn.Module, steps: tuple[Repeat, ...]) -> None:
        super().__init__()
        self.block, self.without, self.open = block, Skipped(steps), True

    def forward(self, x: Tensor) -> Tensor:
        """Of the same shape."""
        y: Tensor = self.block(x) if self.open else self.without(x)
        return y


class Skipped(nn.Module):
    """What is left of a block without its branch: often nothing, or an activation."""

    def __init__(self, steps: tuple[Repeat, ...]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        """Of the same shape."""
        for function, args, kwargs in self.steps:
            x = function(x, *args, **kwargs)
        return x

    def extra_repr(self) -> str:
        """For ``print``."""
        return ", ".join(function.__name__ for function, _, _ in self.steps) or "identity"


def wrapped(network: nn.Module, plan: Plan, *, switches: bool, coarse: bool) -> dict[str, str]:
    """Put switches before branches that can be skipped, and low-passes; where all modules behind lie then."""
    spans = {each.block: each for each in plan.coarse} if coarse else {}
    at: dict[str, str] = {}
    for number, block in enumerate(plan.blocks):
        if block.closing is None or not (switches or number in spans):
            continue
        path, inner = block.closing.path, network.get_submodule(block.closing.path)
        names = [name for name, _ in inner.named_modules()]
        module = _made_coarse(inner, block, spans[number]) if number in spans else inner
        module = Skippable(module, block.closing.steps) if switches else module
        behind = path + ".block" * (switches + (number in spans))
        at |= {f"{path}.{name}".rstrip("."): f"{behind}.{name}".rstrip(".") for name in names}
        _put(network, path, module)
    return at


def unwrapped(network: nn.Module, plan: Plan) -> nn.Module:
    """The network without its switches and low-passes."""
    for block in plan.blocks:
        module = module_at(network, block)
        module = module.block if isinstance(module, Skippable) else module
        if block.closing and module is not None:
            _put(network, block.closing.path, module.freed() if isinstance(module, Coarse) else module)
    return network


def _made_coarse(module: nn.Module, block: Block, coarse: Coarsening | Resolution) -> Coarse:
    span = block.closing.span if block.closing else None
    assert span is not None
    if isinstance(coarse, Coarsening):
        return Coarse(module, span, coarse.sizes)
    return Coarse(module, span, tuple(block.shape[2:]), coarse)


def switches_of(network: nn.Module, plan: Plan) -> list[Skippable | None]:
    """Of every block, where it has one."""
    modules = [module_at(network, block) for block in plan.blocks]
    return [module if isinstance(module, Skippable) else None for module in modules]


def module_at(network: nn.Module, block: Block) -> nn.Module | None:
    """What stands where a block can be skipped."""
    return network.get_submodule(block.closing.path) if block.closing else None


def cut(
    network: nn.Module, plan: Plan, sizes: Sizes, masks: Masks | None = None, at: Mapping[str, str] | None = None
) -> dict[str, Tensor]:
    """The tensors of all layers that change, by name, as they are computed with. ``at``: where modules lie now.

    Grouped convolutions and norms are told how many groups there are, and norms how many channels.
    """
    tensors: dict[str, dict[str, Tensor]] = {}
    at = at or {}

    def own(path: str) -> dict[str, Tensor]:
        path = at.get(path, path)
        if path not in tensors:
            layer = network.get_submodule(path)
            values = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
            tensors[path] = {name: value for name, value in values.items() if value.ndim}
        return tensors[path]

    for number, (width, size) in enumerate(zip(plan.widths, sizes.widths, strict=True)):
        for path, unit in ((width.maker, 0), *width.between):
            own(path).update({name: first(value, size) for name, value in own(path).items()})
            layer = network.get_submodule(at.get(path, path))
            _resize(layer, ("groups", "num_groups"), size // unit if unit else 1)
            _resize(layer, ("num_features",), size)  # which InstanceNorm compares with its input
        mask = None if masks is None else masks.widths[number]
        if mask is not None and width.gain:
            own(width.gain).update({name: first(mask, size) * own(width.gain)[name] for name in ("weight", "bias")})
        for path in width.readers:
            weight = first(own(path)["weight"], size, 1)
            if mask is not None and not width.gain:
                weight = weight * first(mask, size).view(-1, *(1,) * (weight.ndim - 2))
            own(path)["weight"] = weight
    for number, block in enumerate(plan.blocks):
        if block.closing and masks is not None and (mask := masks.blocks[number]) is not None:
            last = own(block.closing.last)
            last.update({name: mask * last[name] for name in ("weight", "bias") if name in last})
    return {f"{path}.{name}": value for path, values in tensors.items() for name, value in values.items()}


def narrowed(
    network: nn.Module,
    plan: Plan,
    sizes: Sizes,
    masks: Masks | None = None,
    resolutions: Mapping[int, Resolution] | None = None,
) -> nn.Module:
    """The network itself with layers of these sizes, and without the blocks that are closed.

    ``resolutions``: the masks of blocks with fewer points, by their number.
    """
    with torch.no_grad():
        tensors = cut(network, plan, sizes, masks)
        for name, value in tensors.items():
            path, _, kind = name.rpartition(".")
            layer = network.get_submodule(path)
            old = getattr(layer, kind)
            new = nn.Parameter(value.clone(), old.requires_grad) if isinstance(old, nn.Parameter) else value.clone()
            setattr(layer, kind, new)
    for width, size in zip(plan.widths, sizes.widths, strict=True):
        passed = [path for path, _ in width.between]
        for path in (width.maker, *passed):
            _resize(network.get_submodule(path), ("out_channels", "out_features", "num_features", "num_channels"), size)
        for path in (*passed, *width.readers):
            _resize(network.get_submodule(path), ("in_channels", "in_features"), size)
    for number, (block, is_open) in enumerate(zip(plan.blocks, sizes.open, strict=True)):
        if block.closing and not is_open:
            _put(network, block.closing.path, Skipped(block.closing.steps))
        elif block.closing and resolutions and number in resolutions:
            path = block.closing.path
            _put(network, path, _made_coarse(network.get_submodule(path), block, resolutions[number]))
    return network


def _resize(layer: nn.Module, names: tuple[str, ...], size: int) -> None:
    for name in names:
        if hasattr(layer, name):
            setattr(layer, name, size)


def _put(network: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, module)
