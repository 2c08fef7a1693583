"""What became of the sizes of a network: tables 4 and 5 of the DNArch paper, for one search."""

from typing import Any

from torch import nn

from eclose.backbones.ccnn import CCNN
from eclose.backbones.ccnn_block import Block
from eclose.plural import plural
from eclose.spaces.dnarch.coarse_blocks import Coarse
from eclose.spaces.dnarch.complexity import in_words
from eclose.spaces.explanation import MOST_NODES, MOST_ROWS, Cell, Drawing, Edge, Node, Section, Table
from eclose.spaces.genotype import Genotype

_NOTE = (
    "Along every axis: the kernel in points of the training, the resolution in points that are computed. Widths in "
    "channels. Weight: what the depth mask leaves."
)
_KINDS = {
    "ends": "encoder and decoder",
    "block": "a residual block: its kernel, its points",
    "closed": "a closed block",
}
_OWN_NOTE = "Channels that the layer makes for the next one of its block, and how many it had."
_OWN_POINTS = "Points: at how many its branch is computed, of so many that its signal has."
_OWN_KINDS = {
    "ends": "layers that are in no residual block",
    "block": "a residual block: channels inside of its branch",
    "closed": "a block that is skipped",
}


def explain_sizes(genotype: Genotype, network: nn.Module) -> list[Section]:
    """One section: which blocks are left, and how large each is."""
    found = network if isinstance(network, CCNN) else network.get_submodule("network")
    assert isinstance(found, CCNN)
    blocks = [block for block in found.blocks if isinstance(block, Block)]
    choices = genotype.choices
    width = found.encoder.out_features
    told = [f"It is a continuous CNN of {plural(len(blocks), 'block')}, with {plural(width, 'channel')} between them."]
    closed = choices.get("most_blocks", len(blocks)) - len(blocks)
    if closed:
        were = "was" if closed == 1 else "were"
        told.append(f"Of {plural(choices['most_blocks'], 'block')} that it could have had, {closed} {were} closed.")
    if "complexity" in choices:
        told.append(_cost(choices, whole=False))
    rows = tuple(_row(number, block) for number, block in enumerate(blocks))
    headings = ("block", "kernel", "resolution", "convolved", "between", "added", "weight")
    table = Table(headings, rows, ("weight",), _NOTE)
    return [Section("How large its parts are", tuple(told), table, _drawing(blocks, closed))]


def explain_own_sizes(genotype: Genotype, network: nn.Module) -> list[Section]:
    """One section on a network of another kind: which blocks are left, how wide their layers are, at which points."""
    choices = genotype.choices
    if "blocks" not in choices:
        return []
    blocks, name = choices["blocks"], choices["backbone"]
    closed = sum(not block["open"] for block in blocks)
    told = [
        f"It is {name}: of its {plural(len(blocks), 'residual block')}, {closed or 'none'} {_were(closed)} skipped."
    ]
    if "complexity" in choices:
        told.append(_cost(choices, whole=True))
    modules = dict(network.named_modules())
    coarse = {name: module for name, module in modules.items() if isinstance(module, Coarse)}
    low = {name: _points(module.points(module.trained)) for name, module in coarse.items()}
    rows: list[tuple[Cell, ...]] = []
    for block in blocks:
        name = block["block"]
        at = f"{low[name]} of {_points(coarse[name].trained)}" if name in low else None
        for path, size in (block["widths"] or {"": None}).items():
            now = (path, size) if block["open"] else ("skipped", None)
            rows.append((name, *now, block["most"].get(path), at))
    headings: tuple[str, ...] = ("block", "layer", "channels", "of", "points")
    note = f"{_OWN_NOTE} {_OWN_POINTS}"
    if not low:
        headings, note, rows = headings[:-1], _OWN_NOTE, [row[:-1] for row in rows if row[1]]
    table = Table(headings, tuple(rows[:MOST_ROWS]), (), note)
    return [Section("How large its parts are", tuple(told), table, _own_drawing(blocks, low))]


def _were(number: int) -> str:
    return "was" if number <= 1 else "were"


def _own_drawing(blocks: list[dict[str, Any]], low: dict[str, str]) -> Drawing:
    labels = [("layers before", "ends", "")]
    for block in blocks[: MOST_NODES - 2]:
        sizes = ", ".join(map(str, block["widths"].values())) or "as it was"
        most = ", ".join(map(str, block["most"].values()))
        detail = " ".join([f"of {most}"] * bool(most) + [f"at {at}" for at in [low.get(block["block"])] if at])
        labels.append((sizes, "block", detail) if block["open"] else ("skipped", "closed", ""))
    return _chain([*labels, ("layers behind", "ends", "")], _OWN_KINDS)


def _cost(choices: dict[str, Any], *, whole: bool) -> str:
    cost, target, counted = choices["complexity"], choices["target"], in_words(choices, whole=whole)
    return f"By {counted} it costs {cost:.3g} times what the backbone costs; the target was {target:g}."


def _row(number: int, block: Block) -> tuple[Cell, ...]:
    shape, grid = block.shape, block.grid(block.trained)
    return (number + 1, _points(grid.taps), _points(grid.points), *shape.widths, round(shape.scale, 3))


def _points(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _drawing(blocks: list[Block], closed: int) -> Drawing:
    """The way of the data, closed blocks at their places."""
    labels = [("encoder", "ends", "")]
    for block in blocks:
        _, kernel, low, a, b, c, _ = _row(0, block)
        labels.append((f"{a}, {b}, {c}", "block", f"{kernel} at {low}"))
    labels += [("closed", "closed", "")] * closed
    labels.append(("decoder", "ends", ""))
    return _chain(labels, _KINDS)


def _chain(labels: list[tuple[str, str, str]], known: dict[str, str]) -> Drawing:
    """Nodes by label, kind and detail, one behind the other."""
    nodes = tuple(Node(str(i), label, kind, i, detail=detail) for i, (label, kind, detail) in enumerate(labels))
    edges = tuple(Edge(str(i), str(i + 1), "flow") for i in range(len(nodes) - 1))
    kinds = {kind: words for kind, words in known.items() if kind in {node.kind for node in nodes}}
    return Drawing(nodes, edges, kinds, {"flow": "what goes on, past a block and through it"})
