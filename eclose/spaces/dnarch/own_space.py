"""The space ``dnarch`` for residual networks that are no continuous CNN: resolutions, widths of branches, depth."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from eclose.backbones import make_backbone
from eclose.errors import ConfigError
from eclose.plural import plural
from eclose.signature import Signature
from eclose.spaces.dnarch.budget import Budget
from eclose.spaces.dnarch.coarse_blocks import Resolution, coarsened
from eclose.spaces.dnarch.complexity import Weighing, in_words
from eclose.spaces.dnarch.cutting import Sizes, narrowed
from eclose.spaces.dnarch.latency import fitted
from eclose.spaces.dnarch.own_network import Costs, MaskedNetwork, rehearse
from eclose.spaces.dnarch.plan import Plan
from eclose.spaces.dnarch.residual_blocks import planned
from eclose.spaces.trace import copied, drawn, example_of
from eclose.train.cost import measure_latency

USUAL_TARGET = 0.5  # the network is as large as it may become
_TOLD = 6  # layers or reasons in a line
_PARTS = (0.3, 0.55, 0.8, 1.0)  # of all widths, for networks that are timed; masks leave no multiples of 8, either
_WAY_OUT = "give a residual network, such as --backbone resnet, or leave out --backbone"


def backbone_and_plan(
    choices: dict[str, Any], signature: Signature, masks: dict[str, Any] | None = None
) -> tuple[nn.Module, Plan]:
    """The network that a genotype names, newly initialised, and what masks can do in it.

    ``masks``: what is to be learned; blocks are tried on fewer points if that is asked for.
    """
    network = make_backbone(choices["backbone"], signature, choices["options"])
    plan = planned(network, example_of(signature))
    if masks and "R" in masks["learn"]:
        plan = coarsened(network, plan, signature.axes, masks["temperatures"]["resolution"])
    return network, plan


def learnable(plan: Plan, learn: str, name: str) -> str:
    """The letters that are learned: those asked for, or all that are possible; refused where there is nothing."""
    possible = _possible(plan)
    if "K" in learn:
        raise ConfigError(
            f"space.learn is '{learn}', but '{name}' has no continuous kernels, whose sizes (K) could be learned: "
            f"set space.learn={possible or 'WD'}, or leave out --backbone"
        )
    if not plan.blocks:
        layers = [f"'{value.path}' ({value.name})" for value in plan.recording.values if value.path]
        seen = f"{plural(len(layers), 'layer')} ({_some(layers)})" if layers else "no layer"
        raise ConfigError(
            f"'{name}' has no residual block whose sizes could be learned: tracing it saw {seen}, and no sum of a "
            f"signal and what layers make of it (x + branch(x)); {_WAY_OUT}"
        )
    closed = [f"'{block.name}': {block.why_open}" for block in plan.blocks if block.why_open]
    if not possible:
        raise ConfigError(f"nothing in '{name}' can be masked: {_some([*plan.kept, *closed])}; {_WAY_OUT}")
    if "R" in learn and "R" not in possible:
        raise ConfigError(
            f"space.learn has R, but no branch of '{name}' can be computed on fewer points: {_some(list(plan.fine))}; "
            f"set space.learn={possible}"
        )
    if "W" in learn and "W" not in possible:
        reasons = (
            _some(list(plan.kept)) if plan.kept else "no block has two layers, one behind the other, in its branch"
        )
        raise ConfigError(f"space.learn has W, but '{name}' has no widths to learn: {reasons}; set space.learn=D")
    if "D" in learn and "D" not in possible:
        raise ConfigError(
            f"space.learn has D, but no block of '{name}' can be skipped: {_some(closed)}; set space.learn=W"
        )
    return learn or possible


def ways_out(plan: Plan, learn: str, target: float) -> tuple[str, str]:
    """What leads to larger, and to smaller networks, where a target is not met."""
    if target < 1 and set(learn) < set(_possible(plan)):
        more = f"learn more sizes (space.learn={_possible(plan)})"
        return more, more
    return "give a larger --backbone", "give a smaller --backbone"


def _possible(plan: Plan) -> str:
    return "R" * bool(plan.coarse) + "W" * bool(plan.widths) + "D" * bool(plan.stages)


def own_notices(plan: Plan, name: str, masks: dict[str, Any]) -> list[str]:
    """What is learned, what it may cost, and what stays as it is."""
    parts = []
    if "R" in masks["learn"]:
        blocks = plural(len(plan.blocks), "residual block")
        parts.append(f"the resolutions (of the branches in {len(plan.coarse)} of {blocks})")
    if "W" in masks["learn"]:
        parts.append(f"the widths of {plural(len(plan.widths), 'layer')}")
    if "D" in masks["learn"]:
        closable = sum(block.closing is not None for block in plan.blocks)
        parts.append(f"the depth ({closable} of {plural(len(plan.blocks), 'residual block')} can be skipped)")
    cost = f"by {in_words(masks, whole=True)} it costs {masks['target']:g} times {name} as it is"
    told = [f"dnarch learns {listed(parts)} of {name}" + f"; {cost}" * bool(masks["target"])]
    open_ = [f"'{block.name}': {block.why_open}" for block in plan.blocks if block.why_open]
    if "D" in masks["learn"] and open_:
        told.append(f"blocks that cannot be skipped: {_some(open_)}")
    if "R" in masks["learn"] and plan.fine:
        told.append(f"branches that keep their points: {_some(list(plan.fine))}")
    if "W" in masks["learn"] and plan.kept:
        told.append(f"widths that stay: {_some(list(plan.kept))}")
    grouped = [
        f"those of '{width.maker}' by {width.unit}" for width in plan.widths if width.unit > 1 and "W" in masks["learn"]
    ]
    if grouped:
        told.append(f"channels that share a group go together: {_some(grouped)}")
    return told


def masked(choices: dict[str, Any], signature: Signature, step: int, pull: dict[str, Any]) -> MaskedNetwork:
    """The network under masks, within its budget if it has one."""
    masks = choices["masks"]
    network, plan = backbone_and_plan(choices, signature, masks)
    options = {name: masks[name] for name in ("learn", "temperatures", "learn_temperature")}
    made = MaskedNetwork(network, plan, step=step, weighing=Weighing(*masks["weighing"]), **options)
    rehearse(made, drawn(signature))
    if masks["target"]:
        made.keep_to(Budget(masks["target"] * made.costs.backbone(), **pull))
    return made


def built(choices: dict[str, Any], signature: Signature) -> nn.Module:
    """The network of the sizes that were found, newly initialised."""
    network, plan = backbone_and_plan(choices, signature)
    found = {path: size for block in choices["blocks"] for path, size in block["widths"].items()}
    closed = {block["block"] for block in choices["blocks"] if not block["open"]}
    coarse = {
        block["block"]: Resolution(*(tuple(block["resolution"][name]) for name in Resolution._fields))
        for block in choices["blocks"]
        if "resolution" in block
    }
    makers, names = {width.maker for width in plan.widths}, {block.name for block in plan.blocks if block.closing}
    spans = {block.name for block in plan.blocks if block.closing and block.closing.span}
    if unknown := sorted((found.keys() - makers) | (closed - names) | (coarse.keys() - spans)):
        raise ConfigError(
            f"sizes were found for '{unknown[0]}', but tracing '{choices['backbone']}' does not find it: its code or "
            "the data have changed; search again"
        )
    widths = tuple(found.get(width.maker, width.channels) for width in plan.widths)
    sizes = Sizes(widths, tuple(block.name not in closed for block in plan.blocks))
    resolutions = {n: masks for n, block in enumerate(plan.blocks) if (masks := coarse.get(block.name))}
    return narrowed(network, plan, sizes, resolutions=resolutions)


def found_blocks(plan: Plan, sizes: Sizes, resolutions: Mapping[int, Resolution]) -> list[dict[str, Any]]:
    """Sizes by the names of blocks and layers, for a genotype."""
    widths = list(zip(plan.widths, plan.home, sizes.widths, strict=True))
    blocks: list[dict[str, Any]] = []
    for number, (block, is_open) in enumerate(zip(plan.blocks, sizes.open, strict=True)):
        inside = [(width.maker, size, width.channels) for width, home, size in widths if home == number]
        found = {maker: size for maker, size, _ in inside}
        blocks.append({"block": block.name, "open": is_open, "widths": found, "most": {m: n for m, _, n in inside}})
        if is_open and number in resolutions:  # shares of an axis: other data may have other points
            blocks[-1]["resolution"] = {name: list(each) for name, each in resolutions[number]._asdict().items()}
    return blocks


def calibrated(
    choices: dict[str, Any], signature: Signature, batch: int, device: torch.device, precision: str
) -> Weighing:
    """Milliseconds of every term of the cost, from the network at several sizes, with so many samples at once."""
    rows, times = [], []
    x = drawn(signature, batch).to(device)
    units = [Weighing(*(float(here == place) for here in range(len(Weighing())))) for place in range(len(Weighing()))]
    with torch.random.fork_rng([]):
        network, plan = backbone_and_plan(choices, signature)
        costs = [Costs(plan, network, unit) for unit in units]
        for part in _PARTS:
            widths = tuple(max(1, int(part * w.channels / w.unit)) * w.unit for w in plan.widths)
            for is_open in (True, False) if plan.stages else (True,):
                sizes = Sizes(widths, tuple(is_open or block.closing is None for block in plan.blocks))
                rows.append(torch.tensor([cost.of(sizes) for cost in costs]))
                times.append(measure_latency(narrowed(copied(network), plan, sizes).to(device), x, precision))
    return fitted(torch.stack(rows), times)


def listed(words: list[str]) -> str:
    """Joined by commas and "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _some(words: list[str]) -> str:
    return "; ".join([*words[:_TOLD], f"and {len(words) - _TOLD} more"] if len(words) > _TOLD + 1 else words)
