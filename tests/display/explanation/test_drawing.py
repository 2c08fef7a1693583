"""Drawings are whole, self-contained and readable: every node once, kinds told apart by more than colour."""

import re
import time
from xml.etree import ElementTree

import pytest

from eclose.display.explanation.drawing import draw
from eclose.display.explanation.drawing_down import draw_down
from eclose.display.explanation.shapes import EDGES, SHAPES
from eclose.spaces.explanation import Drawing, Edge, Node

KINDS = {"a": "first kind", "b": "second kind", "c": "third kind"}
FLOWS = {"solid": "on", "dashed": "past", "dotted": "many"}
SVG = "{http://www.w3.org/2000/svg}"


def long(layers: int, lanes: int = 1) -> Drawing:
    """A row of nodes, every third layer with an edge that passes over."""
    kinds = list(KINDS)
    nodes = [
        Node(f"{layer}.{lane}", f"node {layer}.{lane}", kinds[layer % 3], layer, lane)
        for layer in range(layers)
        for lane in range(lanes)
    ]
    edges = [Edge(f"{n}.{m}", f"{n + 1}.{m}", "solid") for n in range(layers - 1) for m in range(lanes)]
    edges += [Edge(f"{n}.0", f"{n + 3}.0", "dashed") for n in range(0, layers - 3, 6)]
    return Drawing(tuple(nodes), tuple(edges), KINDS, FLOWS)


def rectangles(svg: str) -> list[tuple[float, float]]:
    """Middles of the labels, in the order of the nodes."""
    root = ElementTree.fromstring(svg)
    labels = [text for text in root.iter(f"{SVG}text") if (text.text or "").startswith("node ")]
    return [(float(text.get("x", 0)), float(text.get("y", 0))) for text in labels]


@pytest.mark.parametrize(("layers", "lanes"), [(1, 1), (2, 1), (7, 2), (60, 1), (60, 3)])
@pytest.mark.parametrize("width", [300.0, 900.0])
def test_every_node_is_drawn_once_inside_of_the_drawing(layers: int, lanes: int, width: float) -> None:
    svg = draw(long(layers, lanes), "a network", width)
    places = rectangles(svg)
    assert len(places) == len(set(places)) == layers * lanes
    box = [float(part) for part in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]]
    assert all(0 < x < box[0] and 0 < y < box[1] for x, y in places)
    assert box[0] <= 2 * width


def test_long_networks_go_on_in_the_next_row() -> None:
    places = rectangles(draw(long(60), "a network"))
    rows = sorted({y for _, y in places})
    assert len(rows) > 4
    for y in rows:
        in_row = [x for x, other in places if other == y]
        assert in_row == sorted(in_row), "from left to right"
    assert len(rectangles(draw(long(5), "a network"))) == 5
    assert len({y for _, y in rectangles(draw(long(5), "a network"))}) == 1


@pytest.mark.parametrize(("layers", "lanes"), [(1, 1), (2, 1), (7, 2), (60, 3)])
def test_for_phones_layers_go_down_and_lanes_lie_side_by_side(layers: int, lanes: int) -> None:
    svg = draw_down(long(layers, lanes), "a network", 350.0)
    places = rectangles(svg)
    assert len({y for _, y in places}) == layers
    assert len({x for x, _ in places}) == lanes
    rows = [[y for x, y in places if x == lane] for lane in {x for x, _ in places}]
    assert all(row == sorted(row) for row in rows)
    width, height = (float(part) for part in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    assert all(0 < x < width and 0 < y < height for x, y in places)
    assert width == 350
    root = ElementTree.fromstring(svg)
    paths = [path.get("d", "") for group in root.iter(f"{SVG}g") for path in group.iter(f"{SVG}path")]
    assert all("H" not in path for path in paths[: layers - 1]), "between layers they go down"


def test_large_drawings_take_no_time() -> None:
    begun = time.process_time()
    draw(long(400), "a network", 300.0)
    draw_down(long(400), "a network")
    assert time.process_time() - begun < 2


def test_kinds_differ_in_shape_and_dash() -> None:
    svg = draw(long(9), "a network")
    root = ElementTree.fromstring(svg)
    shapes = set()
    for number in range(3):
        (group, *_) = [g for g in root.iter(f"{SVG}g") if g.get("class") == f"n{number}"]
        (shape,) = [child for child in group if child.tag != f"{SVG}title"]
        shapes.add((shape.tag, shape.get("rx")))
    assert len(shapes) == 3
    outlines = {re.sub(r"[\d.]+", "0", shape(0, 0, 60, 38)) + shape(0, 0, 60, 38) for shape in SHAPES}
    assert len(outlines) == len(SHAPES)
    assert len({dash for _, dash in EDGES}) == len(EDGES)
    assert len({colour for colour, _ in EDGES}) == len(EDGES)


def test_the_legend_explains_what_appears_and_only_that() -> None:
    svg = draw(long(2), "a network")
    assert "first kind" in svg
    assert "second kind" in svg
    assert "third kind" not in svg
    assert ">on<" in svg
    assert ">past<" not in svg
    marked = Drawing((Node("a", "x", "a", 0, mark="new"),), (), KINDS, FLOWS, {"new": "not there before"})
    assert "not there before" in draw(marked, "a network")


def test_self_contained_and_for_light_and_dark() -> None:
    svg = draw(long(30), "a network")
    assert "prefers-color-scheme:dark" in svg
    assert not re.search(r"(?:href|src|@import|url\((?!#))", svg)
    ids = re.findall(r'id="([^"]+)"', svg)
    used = set(re.findall(r"url\(#([^)]+)\)", svg))
    assert used <= set(ids)
    assert not used & set(re.findall(r'id="([^"]+)"', draw(long(29), "another"))), "drawings may share a page"
    assert draw(long(30), "a network") == svg


def test_words_are_escaped_and_long_ones_shortened() -> None:
    bad = "<script>alert(1)</script>&\"'"
    node = Node("n", bad, "a", 0, 0, "y" * 90)
    svg = draw(Drawing((node,), (), {"a": bad}, {}), bad)
    ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert "y" * 39 + "…" in svg
    assert "y" * 90 in svg, "in full where the mouse rests"


def test_what_is_not_explained_is_no_drawing() -> None:
    node = Node("n", "x", "a", 0)
    for wrong in (
        lambda: Drawing((node, node), (), KINDS, FLOWS),
        lambda: Drawing((node,), (Edge("n", "m", "solid"),), KINDS, FLOWS),
        lambda: Drawing((node,), (), {}, FLOWS),
        lambda: Drawing((Node("n", "x", "a", 0, mark="new"),), (), KINDS, FLOWS),
    ):
        with pytest.raises(ValueError):
            wrong()
