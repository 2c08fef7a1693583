"""A network drawn for narrow surroundings: layers from top to bottom, lanes side by side.

It is the drawing in one row, turned: its paths are made along the layers and then have their axes exchanged.
"""

import re

from eclose.display.explanation.drawing import ARC, LANE, arc_levels, bend, bend_early, over
from eclose.display.explanation.shapes import (
    EDGES,
    GAP,
    HEIGHT,
    MARGIN,
    draw_edge,
    draw_legend,
    draw_node,
    draw_text,
    node_width,
    whole,
)
from eclose.spaces.explanation import Drawing, Edge

EDGE = 8.0  # at the left and right
_STEP = HEIGHT + GAP
SHRUNK = 0.8  # smaller words are too small to read


def draw_down(drawing: Drawing, title: str, width: float = 350.0) -> str:
    """An ``<svg>`` element, ``width`` pixels wide unless its lanes need more, with its legend below."""
    layers = {layer: place for place, layer in enumerate(sorted({node.layer for node in drawing.nodes}))}
    arcs = {(arc.source, arc.target): ARC * level for arc, level in arc_levels(drawing, drawing.nodes).items()}
    lanes, right = _lanes(drawing, arcs)
    slack = max(0.0, width - EDGE - right) / 2  # narrow ones stand in the middle
    middle = {
        node.id: (slack + lanes[node.lane], MARGIN + HEIGHT / 2 + _STEP * layers[node.layer]) for node in drawing.nodes
    }
    lane = {node.id: node.lane for node in drawing.nodes}
    half = {node.id: node_width(node) / 2 for node in drawing.nodes}
    widest = {
        number: max(half[node.id] for node in drawing.nodes if node.lane == number) for number in set(lane.values())
    }
    edges = ""
    for edge in drawing.edges:
        (across, along), (goal_across, goal) = middle[edge.source], middle[edge.target]
        along, goal = along + HEIGHT / 2, goal - HEIGHT / 2
        if arc := arcs.get((edge.source, edge.target)):
            path = over(along, across, goal, goal_across, across - widest[lane[edge.source]] - arc)
        elif lane[edge.target] <= lane[edge.source]:
            path = bend(along, across, goal, goal_across)
        else:
            path = bend_early(along, across, goal, goal_across)
        words = draw_text(goal_across + 14, goal - 9, edge.label, " small") if edge.label else ""
        edges += draw_edge([_turned(path)], _kind(edge, drawing), words)
    nodes = "".join(draw_node(node, *middle[node.id], drawing) for node in drawing.nodes)
    width = max(width, right + EDGE)
    legend, height = draw_legend(drawing, MARGIN + _STEP * len(layers), width)
    return whole(f"{edges}{nodes}{legend}", title, width, height, SHRUNK * width)


def _lanes(drawing: Drawing, arcs: dict[tuple[str, str], float]) -> tuple[dict[int, float], float]:
    """The middle of each lane, with room at its left for the edges that pass over its nodes; and the right end."""
    lane = {node.id: node.lane for node in drawing.nodes}
    lanes, x = {}, EDGE
    for number in sorted(set(lane.values())):
        x += max((arc for (source, _), arc in arcs.items() if lane[source] == number), default=0.0)
        widest = max(node_width(node) for node in drawing.nodes if node.lane == number)
        lanes[number] = x + widest / 2
        x += widest + LANE
    return lanes, x - LANE


def _kind(edge: Edge, drawing: Drawing) -> int:
    return list(drawing.edge_kinds).index(edge.kind) % len(EDGES)


def _turned(path: str) -> str:
    """With its axes exchanged; paths have moves, horizontal lines and curves only."""
    turned = ""
    for command, numbers in re.findall(r"([MHC])([^MHC]*)", path):
        values = numbers.split()
        if command == "H":
            turned += f"V{values[0]}"
        else:
            pairs = [f"{y} {x}" for x, y in zip(values[::2], values[1::2], strict=True)]
            turned += command + " ".join(pairs)
    return turned
