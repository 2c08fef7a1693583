"""Cells as data: how they are written into a genotype, read from one, drawn and varied."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from eclose.errors import ConfigError
from eclose.registry import nearest
from eclose.spaces.nos.block import BlockChoice, Choice
from eclose.spaces.nos.layout import KINDS
from eclose.spaces.nos.network import Cells
from eclose.spaces.nos.operations import FEATURES, OPERATIONS, SKIP

INPUTS = 2  # of the first tier of a block
RANGES = {"blocks": (1, 32), "cells": (3, 1000), "width": (1, 10_000)}  # reduction cells are a third and two thirds


def plain_cells(names: Sequence[str], blocks: int, tiers: int) -> Cells:
    """What a search starts from: the first operation, of both inputs, and nothing in the second tier if that may be."""
    first, nothing = names[0], SKIP if SKIP in names else names[0]
    block = BlockChoice(((0, first), (1, first)), nothing if tiers == 2 else None)
    return dict.fromkeys(KINDS, (block,) * blocks)


def published_cells() -> Cells:
    """Those that DARTS found on CIFAR-10 (Liu et al. 2019, Figures 4 and 5)."""
    conv, dil, pool = "sep_conv_3", "dil_conv_3", "max_pool_3"
    normal = (((0, conv), (1, conv)), ((0, conv), (1, conv)), ((0, SKIP), (1, conv)), ((0, SKIP), (2, dil)))
    reduction = (((0, pool), (1, pool)), ((1, pool), (2, SKIP)), ((0, pool), (2, SKIP)), ((1, pool), (2, SKIP)))
    return {
        kind: tuple(BlockChoice(pair, None) for pair in pairs)
        for kind, pairs in zip(KINDS, (normal, reduction), strict=True)
    }


def to_json(cells: Cells) -> dict[str, Any]:
    """Lists of blocks by the kind of the cell: ``{"inputs": [[0, "skip"], [1, "sep_conv_3"]], "then": "skip"}``."""
    return {
        kind: [{"inputs": [list(choice) for choice in block.first], "then": block.second} for block in cells[kind]]
        for kind in KINDS
    }


def from_json(data: Mapping[str, Any]) -> Cells:
    """Inverse of :func:`to_json`; data from elsewhere is looked at."""
    try:
        cells = {kind: tuple(_block(block, number) for number, block in enumerate(data[kind])) for kind in KINDS}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"these are no cells of the space 'nos' ({error!r:.100}): restore genotype.json") from None
    counts, (least, most) = {len(blocks) for blocks in cells.values()}, RANGES["blocks"]
    if len(counts) != 1 or not least <= min(counts) <= most:
        raise ConfigError(
            f"the cells of a network of the space 'nos' must have equally many blocks, {least} to {most}: "
            "restore genotype.json"
        )
    return cells


def sizes_from(data: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes of the network around the cells; those from elsewhere are looked at."""
    sizes = {name: data.get(name) for name in ("cells", "width", "auxiliary", "drop_path")}
    for name, value in sizes.items():
        least, most = RANGES.get(name, (0, math.nextafter(1, 0)))
        kind = int if name in RANGES else int | float
        if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigError(f"'{name}' of a network of the space 'nos' is {value!r:.40}: restore genotype.json")
    return sizes


def _block(data: Mapping[str, Any], number: int) -> BlockChoice:
    choices = tuple((_source(source), _operation(name)) for source, name in data["inputs"])
    if len({source for source, _ in choices} & set(range(INPUTS + number))) != INPUTS or len(choices) != INPUTS:
        raise ValueError(f"block {number} reads {[source for source, _ in choices]}")
    if not any(name in FEATURES for _, name in choices):
        raise ValueError(f"block {number} has no operation that gives features")
    return BlockChoice(choices, None if data["then"] is None else _operation(data["then"]))


def _source(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"a block reads {number!r:.40}, which is no whole number")
    return number


def _operation(name: object) -> str:
    if name not in OPERATIONS:
        raise ConfigError(f"unknown operation '{name!s:.40}' in a cell; {nearest(str(name), OPERATIONS)}")
    return str(name)


def drawn_cells(names: Sequence[str], blocks: int, tiers: int, generator: torch.Generator) -> Cells:
    """Every block for itself: of all that are allowed any is as likely as any other."""
    return {kind: tuple(_drawn(names, number, tiers, generator) for number in range(blocks)) for kind in KINDS}


def _drawn(names: Sequence[str], number: int, tiers: int, generator: torch.Generator) -> BlockChoice:
    sources = sorted(torch.randperm(2 + number, generator=generator)[:INPUTS].tolist())
    while True:
        first: tuple[Choice, ...] = tuple((source, _any(names, generator)) for source in sources)
        if any(name in FEATURES for _, name in first):
            return BlockChoice(first, _any(names, generator) if tiers == 2 else None)


def varied(cells: Cells, names: Sequence[str], generator: torch.Generator) -> Cells:
    """One block of one kind of cell is drawn anew."""
    kind, number = _any(KINDS, generator), int(torch.randint(len(cells[KINDS[0]]), (), generator=generator))
    tiers = 1 if cells[kind][number].second is None else 2
    blocks = list(cells[kind])
    while blocks[number] == cells[kind][number]:
        blocks[number] = _drawn(names, number, tiers, generator)
    return {**cells, kind: tuple(blocks)}


def crossed(one: Cells, other: Cells, generator: torch.Generator) -> Cells:
    """Every block is that of one parent or of the other."""
    return {
        kind: tuple(
            pair[int(torch.randint(2, (), generator=generator))] for pair in zip(one[kind], other[kind], strict=True)
        )
        for kind in KINDS
    }


def _any(names: Sequence[str], generator: torch.Generator) -> str:
    return names[int(torch.randint(len(names), (), generator=generator))]
