"""What became of the sizes of a network: tables 4 and 5 of the DNArch paper, for one search."""

from typing import Any

from torch import nn

from eclose.backbones.ccnn import CCNN, Block
from eclose.spaces.explanation import Cell, Section, Table, plural
from eclose.spaces.genotype import Genotype


def explain_sizes(genotype: Genotype, network: nn.Module) -> list[Section]:
    """One section: which blocks are left, and how large each is."""
    found = network if isinstance(network, CCNN) else network.get_submodule("network")
    assert isinstance(found, CCNN)
    blocks = [block for block in found.blocks if isinstance(block, Block)]
    choices = genotype.choices
    width = choices.get("width", 0)
    told = [f"It is a continuous CNN of {plural(len(blocks), 'block')}, with {plural(width, 'channel')} between them."]
    closed = choices.get("most_blocks", len(blocks)) - len(blocks)
    if closed:
        told.append(f"Of {choices['most_blocks']} blocks that it could have had, {closed} were closed.")
    if "complexity" in choices:
        told.append(_cost(choices))
    rows = tuple(_row(number, block) for number, block in enumerate(blocks))
    headings = ("block", "kernel", "resolution", "convolved", "between", "added", "weight")
    note = (
        "Kernel and resolution in points along every axis; widths in channels; weight: what the mask of depth leaves."
    )
    return [Section("How large its parts are", tuple(told), Table(headings, rows, ("weight",), note))]


def _cost(choices: dict[str, Any]) -> str:
    cost, target = choices["complexity"], choices["target"]
    return (
        f"By its {choices['count']} it costs {cost:.3g} times what {choices['backbone']} costs before the search; "
        f"the target was {target:g}."
    )


def _row(number: int, block: Block) -> tuple[Cell, ...]:
    shape, sizes = block.shape, block.trained
    kernel, low = block.kernel_sizes(sizes), block.low_sizes(sizes, block.shape)
    return (number + 1, _points(kernel), _points(low), *shape.widths, round(shape.scale, 3))


def _points(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))
