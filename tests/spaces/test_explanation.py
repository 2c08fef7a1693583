"""Explanations are plain data: what is read back is what was written, and nothing else is taken."""

import json
from typing import Any

import pytest

from eclose.plural import plural
from eclose.spaces.explanation import (
    MOST_NODES,
    MOST_ROWS,
    MOST_VALUES,
    Drawing,
    Edge,
    Line,
    Map,
    Node,
    Picture,
    Plot,
    Section,
    Table,
    rounded,
    sections_from,
)

NODES = (Node("a", "input", "end", 0), Node("b", "norm", "step", 1, 2, "width 3", "new"))
WHOLE = [
    Section(
        "All of it",
        ("One sentence.", "Another."),
        Table(("layer", "moved"), (("conv", 0.25), ("norm", None), ("pool", 3)), ("moved",), "a note"),
        Drawing(
            NODES, (Edge("a", "b", "flow"),), {"end": "ends", "step": "steps"}, {"flow": "on"}, {"new": "not there"}
        ),
        (
            Picture("lines", ("Told.",), plots=(Plot("first", (Line("start", (0.0, 1.5)),), 0, 1, 0.5),)),
            Picture("maps", maps=(Map("one", ((0.0, -1.0), (2.0, 3.0)), (0.0, 1.0)),), columns=3),
        ),
    ),
    Section("Hardly anything"),
]


def written() -> Any:
    return json.loads(json.dumps([section.as_dict() for section in WHOLE]))


def test_there_and_back() -> None:
    assert sections_from(written()) == WHOLE
    assert sections_from([]) == []
    assert sections_from([{"title": "of an older version"}]) == [Section("of an older version")]


def change(*path: Any, to: Any) -> Any:
    data = inner = written()
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"title": "x"}, "it is no list"),
        ([3], "'3' is no Section"),
        ([{}], "'title' is missing in a section"),
        (change(0, "title", to=None), "'None' is no str"),
        (change(0, "sentences", 0, to=["deep"]), "is no str"),
        (change(0, "table", "rows", 0, to=["conv"]), "a row that is not as long as the headings"),
        (change(0, "table", "rows", 0, 1, to=True), "'True' is no"),
        (change(0, "table", "rows", to=[["x", 1]] * (MOST_ROWS + 1)), "a table of more than"),
        (change(0, "drawing", "nodes", to=[]), "a drawing of no node"),
        (change(0, "drawing", "nodes", 0, "layer", to=1.5), "'1.5' is no int"),
        (change(0, "drawing", "nodes", 0, "layer", to=1), "an edge that goes back"),
        (change(0, "drawing", "edges", 0, "target", to="c"), "an edge without its node"),
        (change(0, "drawing", "marks", to={}), "a mark that is not explained"),
        (change(0, "drawing", "node_kinds", to=[["end", "x"]]), "is no"),
        (change(0, "pictures", 0, "plots", 0, "lines", 0, "values", 1, to="1"), "'1' is no float"),
        (change(0, "pictures", 0, "plots", 0, "lines", 0, "values", 1, to=float("nan")), "'nan' is no float"),
        (change(0, "pictures", 0, "plots", 0, "lines", 0, "values", 1, to=10**400), "is no float"),
        (change(0, "pictures", 0, "plots", 0, "lines", 0, "values", to=[]), "a plot without values"),
        (change(0, "pictures", 1, "maps", 0, "values", 0, to=[1.0]), "a map whose rows are not equally long"),
        (change(0, "pictures", 1, "maps", 0, "mark", to=[1.0]), "1 values in place of 2"),
        (change(0, "sentences", to=["x"] * (MOST_VALUES + 1)), "more than 65536 values"),
    ],
)
def test_whatever_else_a_file_holds_is_refused(data: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sections_from(data)


def test_what_is_too_large_to_be_drawn_is_no_drawing() -> None:
    nodes = tuple(Node(str(n), "x", "end", n) for n in range(MOST_NODES + 1))
    with pytest.raises(ValueError, match="more than 400"):
        Drawing(nodes, (), {"end": "ends"}, {})


def test_words_and_digits() -> None:
    assert plural(1, "step") == "1 step"
    assert plural(1200, "step") == "1,200 steps"
    assert rounded([0.123456, 98765.4, 0]) == (0.123, 98800.0, 0.0)
