"""Cells in sentences, drawings and tables; weights of a search that are there, are not there, or make no sense."""

import json
import re
from xml.etree import ElementTree

import pytest

from eclose.display.explanation.drawing import draw
from eclose.display.explanation.drawing_down import draw_down
from eclose.display.explanation.html import as_fragment
from eclose.spaces.explanation import sections_from
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.explanation import draw_cell, explain_cells
from eclose.spaces.nos.operations import FEATURES, OPERATIONS

NAMES = tuple(OPERATIONS)
NORMAL = (
    BlockChoice(((0, "sep_conv_3"), (1, "spatial_attention")), "dynamic_conv_3"),
    BlockChoice(((1, "skip"), (2, "sep_conv_3")), "sep_conv_5"),
)
REDUCTION = (
    BlockChoice(((0, "max_pool_3"), (1, "dynamic_conv_5")), "skip"),
    BlockChoice(((0, "sep_conv_3"), (2, "channel_attention")), "channel_attention"),
)
CELLS = {"normal": NORMAL, "reduction": REDUCTION}


def weights(blocks: tuple[BlockChoice, ...], lead: float) -> list[list[float]]:
    """Those by which the chosen operations lead over the skip, or where that is chosen over the next one."""
    firsts = [dict(block.first) for block in blocks]
    rows = [firsts[number].get(source) for number in range(2) for source in range(2 + number)]
    rows += [block.second for block in blocks]
    return [[0.1 * (name == "dil_conv_3") + (0.1 + lead) * (name == chosen) for name in NAMES] for chosen in rows]


SHARES = {"normal": weights(NORMAL, 0.2), "reduction": weights(REDUCTION, 0.001)}
HISTORY = {kind: [[0.09] * 11, [0.1] * 10 + [0.0]] for kind in CELLS}


def test_a_cell_is_told_by_what_its_operations_give() -> None:
    normal, reduction = explain_cells(CELLS, NAMES)
    assert normal.title == "The normal cell"
    assert normal.sentences == (
        "It has 2 blocks of 6 operations: 4 for features, 1 for attention, 1 for kernels.",
        "Most frequent is separable convolution of 3 points (2 of 6).",
    )
    assert reduction.title == "The reduction cell"


def test_edges_are_those_of_the_cell() -> None:
    drawing = draw_cell(NORMAL)
    flows = {(edge.source, edge.target): edge.kind for edge in drawing.edges}
    assert flows == {
        ("in0", "0.0"): "read",
        ("in1", "0.1"): "read",
        ("0.0", "s0"): "feature",
        ("0.1", "s0"): "attention",
        ("s0", "0.then"): "read",
        ("s0", "n0"): "read",  # kernels calibrate it
        ("0.then", "n0"): "dynamic",
        ("in1", "1.0"): "read",
        ("n0", "1.1"): "read",
        ("1.0", "s1"): "feature",
        ("1.1", "s1"): "feature",
        ("s1", "1.then"): "read",
        ("1.then", "n1"): "feature",  # features take its place
        ("n0", "out"): "read",
        ("n1", "out"): "read",
    }


def test_plain_cells_have_one_tier() -> None:
    blocks = (BlockChoice(((0, "skip"), (1, "sep_conv_3")), None),)
    drawing = draw_cell(blocks)
    assert [node.label for node in drawing.nodes] == [
        "cell before last",
        "last cell",
        "skip",
        "sep_conv_3",
        "1",
        "output",
    ]
    cells = {"normal": blocks, "reduction": blocks}
    shares = {kind: [[0.1] * 7, [0.2] * 7] for kind in cells}
    assert explain_cells(cells, FEATURES, shares)[2].table is not None


def test_kinds_differ_in_colour_dash_and_shape_and_nothing_lies_over_something_else() -> None:
    svg = draw(draw_cell(NORMAL), "a cell", 1040.0)
    ElementTree.fromstring(svg)
    used = set(re.findall(r'<g class="e(\d)"><path', svg))
    assert used == {"0", "1", "2", "3"}
    dashes = dict(re.findall(r"\.drawing \.e(\d) path\{stroke:var\(--k\d\);stroke-dasharray:([^}]+)\}", svg))
    colours = dict(re.findall(r"\.drawing \.e(\d) path\{stroke:var\((--k\d)\)", svg))
    assert len(set(dashes.values())) == len(set(colours.values())) == 4
    places = re.findall(r'<text class="label" x="([\d.]+)" y="([\d.]+)">', svg)
    assert len(places) == len(set(places)) == len(draw_cell(NORMAL).nodes)
    for words in ("gives attention", "gives kernels", "attention, by which features are multiplied", "sep_conv_3"):
        assert words in svg
    ElementTree.fromstring(draw_down(draw_cell(NORMAL), "a cell", 350.0))


def test_close_calls_are_named() -> None:
    *_, section = explain_cells(CELLS, NAMES, SHARES)
    assert section.title == "How clear the choices were"
    assert section.sentences[0] == (
        "In 6 of 12 places another operation of the same edge had almost as much weight "
        "(a lead of less than 10 % of it, or none: a rule took its place)."
    )
    assert section.sentences[1] == (
        "reduction cell, block 1, cell before last: max_pool_3 0.101 beside dil_conv_3 0.1."
    )
    assert section.table is not None
    assert section.table.rows[0] == (
        "normal",
        1,
        1,
        "cell before last",
        "sep_conv_3",
        pytest.approx(0.3),
        "dil_conv_3",
        0.1,
    )
    assert [row[3] for row in section.table.rows[2:6]] == [
        "what the first tier gives",
        "last cell",
        "node 1",
        "what the first tier gives",
    ]


def test_weights_over_the_epochs() -> None:
    *_, section = explain_cells(CELLS, NAMES, SHARES, HISTORY)
    kinds, single = section.pictures
    assert [plot.title for plot in kinds.plots] == ["normal cell", "reduction cell"]
    assert {line.label: line.values for line in kinds.plots[0].lines} == {
        "features": (0.63, 0.7),
        "attention": (0.18, 0.2),
        "kernels": (0.18, 0.1),
    }
    assert [line.label for line in single.plots[0].lines] == list(NAMES[:5])
    saved = json.loads(json.dumps([part.as_dict() for part in explain_cells(CELLS, NAMES, SHARES, HISTORY)]))
    assert sections_from(saved)[2] == section
    shown = as_fragment([section])
    assert "over the epochs" in shown
    assert "its place" not in shown.replace("took its place", "")  # nothing is pointed at


def test_what_no_operation_has_is_that_of_none() -> None:
    fading = {kind: [[0.06] * 11, [0.09] * 11] for kind in CELLS}
    *_, section = explain_cells(CELLS, NAMES, SHARES, fading)
    (_, *_, nothing) = section.pictures[0].plots[0].lines
    assert (nothing.label, nothing.values) == ("none (zeros)", (0.34, 0.01))


def test_operations_without_another_beside_them_are_left_out() -> None:
    """One operation to choose from, or one that somebody has put into the file."""
    block = BlockChoice(((0, "skip"), (1, "skip")), None)
    alone = explain_cells(dict.fromkeys(CELLS, (block,)), ("skip",), {"normal": [[1.0], [1.0]]})
    assert [section.table for section in alone] == [None, None]
    few = tuple(name for name in NAMES if name != "sep_conv_5")
    shares = {kind: [row[: len(few)] for row in rows] for kind, rows in SHARES.items()}
    (table,) = [section.table for section in explain_cells(CELLS, few, shares) if section.table is not None]
    assert len(table.rows) == 11
    assert "sep_conv_5" not in {row[4] for row in table.rows}


@pytest.mark.parametrize(
    "wrong", [[[0.1] * 11], [["a"] * 11] * 7, [[float("nan")] * 11] * 7, "weights", [[0.1] * 3] * 7, [None] * 7]
)
def test_weights_that_make_no_sense_are_left_out(wrong: object) -> None:
    kinds = {"normal": wrong, "reduction": wrong}
    assert len(explain_cells(CELLS, NAMES, kinds)) == 2
    assert len(explain_cells(CELLS, NAMES, None, kinds)) == (3 if wrong == [[0.1] * 11] else 2)
    assert len(explain_cells(CELLS, NAMES, wrong, wrong)) == 2
