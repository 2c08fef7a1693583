"""Colouring the edges of regular bipartite graphs: how Clos and Benes networks are routed."""

from collections import defaultdict, deque


def colours(left: list[int], right: list[int], degree: int) -> list[int]:
    """A colour below ``degree`` for every edge ``(left[e], right[e])``, no two at a vertex alike.

    Every vertex has ``degree`` edges. An even degree is halved by walking round cycles (for degree 2 this
    is the looping algorithm of the Benes network); from an odd one a perfect matching is taken out first.
    """
    found = [0] * len(left)
    open_sets = [(list(range(len(left))), degree, 0)]  # edges, their degree, the first of their colours
    while open_sets:
        edges, degree, first = open_sets.pop()
        if degree == 1:
            for edge in edges:
                found[edge] = first
        elif degree % 2:
            chosen = _matching(edges, left, right)
            for edge in chosen:
                found[edge] = first
            open_sets.append(([edge for edge in edges if edge not in chosen], degree - 1, first + 1))
        else:
            one, other = _halves(edges, left, right)
            open_sets += [(one, degree // 2, first), (other, degree // 2, first + degree // 2)]
    return found


def _halves(edges: list[int], left: list[int], right: list[int]) -> tuple[list[int], list[int]]:
    """Edges in two sets of half the degree: along closed walks, those taken to the right and those to the left."""
    at: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
    for edge in edges:
        at[0][left[edge]].append(edge)
        at[1][right[edge]].append(edge)
    used: set[int] = set()
    halves: tuple[list[int], list[int]] = ([], [])
    for start in edges:
        edge, side = start, 0  # the side that the walk comes from
        while edge not in used:
            used.add(edge)
            halves[side].append(edge)
            side = 1 - side
            here = at[side][(left, right)[side][edge]]
            while here and here[-1] in used:
                here.pop()
            if not here:  # back at the vertex where the walk began
                break
            edge = here[-1]
    return halves


def _matching(edges: list[int], left: list[int], right: list[int]) -> set[int]:
    """A perfect matching, by augmenting paths found in breadth."""
    at = defaultdict(list)
    for edge in edges:
        at[left[edge]].append(edge)
    match_left: dict[int, int] = {}
    match_right: dict[int, int] = {}
    for root in at:
        came: dict[int, int] = {}  # right vertex: the edge by which it was reached
        queue, free = deque([root]), None
        while queue and free is None:
            for edge in at[queue.popleft()]:
                vertex = right[edge]
                if vertex in came:
                    continue
                came[vertex] = edge
                if vertex not in match_right:
                    free = vertex
                    break
                queue.append(left[match_right[vertex]])
        assert free is not None, "a regular bipartite graph has a perfect matching"
        while free is not None:
            edge = came[free]
            previous = match_left.get(left[edge])
            match_left[left[edge]] = match_right[free] = edge
            free = None if previous is None else right[previous]
    return set(match_left.values())
