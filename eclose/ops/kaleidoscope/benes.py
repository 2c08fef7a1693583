"""Permutations in two blocks, for any radices: the Benes network, and Clos networks in its place.

The first block sends input i to a middle position m(i), the second sends that to the output. A butterfly has one
path between any two positions, so all that has to be chosen is m, digit by digit: digit a of m says through which
of r_a sub-networks an element goes, and no two elements of one switch may take the same. That is a colouring, with
r_a colours, of a bipartite graph in which all switches have r_a edges; it exists (Koenig). ``colours`` finds it.
"""

import math
from collections import defaultdict, deque

import torch
from torch import Tensor

from eclose.ops.kaleidoscope import butterfly
from eclose.ops.kaleidoscope.matrix import KMatrix
from eclose.ops.kaleidoscope.sizes import Radices, check, digits


def permutation(
    index: Tensor, *, radices: Radices | None = None, increasing: bool = False, dtype: torch.dtype | None = None
) -> KMatrix:  # (n,)
    """Depth 2, entries 0 and 1: ``(K x)[i] = x[index[i]]``.

    Strides decrease in the first block and increase in the second; the other way round with ``increasing``.
    """
    size = len(index)
    radices = check(size, radices)
    index = index.cpu().long()
    if not torch.equal(index.sort().values, torch.arange(size)):
        raise ValueError(f"not a permutation of 0 to {size - 1}: {index.tolist()}")
    inputs, outputs = index, torch.arange(size)
    middle = _middle(inputs, outputs, radices, increasing)
    # Either the first block or the transpose of the second ends at the middle, or both start from it.
    if increasing:
        blocks = [routes(middle, inputs, radices), routes(middle, outputs, radices)]
    else:
        blocks = [routes(inputs, middle, radices), routes(outputs, middle, radices)]
    return KMatrix(torch.stack(blocks).to(dtype or torch.get_default_dtype()), radices, increasing)


def routes(inputs: Tensor, outputs: Tensor, radices: Radices) -> Tensor:  # (elements,), (elements,)
    """Entries ``(entries, 2)`` of the block of decreasing strides with ones on the paths from inputs to outputs.

    It is the matrix with ones at (output, input) and zeros elsewhere if only paths from the same input, or
    to the same output, share a switch.
    """
    entries = torch.zeros(butterfly.entries_of(radices), 2)
    below, above = digits(inputs, radices), digits(outputs, radices)
    stride = math.prod(radices)
    for a, stage in enumerate(butterfly.views(entries[:, 0], radices)):
        left = outputs // stride  # digits already replaced
        stride //= radices[a]
        stage[left, above[:, a], below[:, a], inputs % stride] = 1
    return entries


def _middle(inputs: Tensor, outputs: Tensor, radices: Radices, increasing: bool) -> Tensor:
    """Middle positions ``(n,)``, for elements given by input and output positions."""
    size = len(inputs)
    axes = list(range(len(radices)))
    outer_first = axes[::-1] if increasing else axes
    strides = [math.prod(radices[a + 1 :]) for a in axes]
    above, below = digits(outputs, radices), digits(inputs, radices)
    middle = torch.zeros(size, dtype=torch.long)
    sources, sinks = inputs.clone(), outputs.clone()  # with digits of the middle in place of those decided
    for a in outer_first[:-1]:
        # A switch is what agrees in all digits but this one.
        left, right = sources - below[:, a] * strides[a], sinks - above[:, a] * strides[a]
        chosen = torch.tensor(colours(left.tolist(), right.tolist(), radices[a]))
        sources, sinks = left + chosen * strides[a], right + chosen * strides[a]
        middle += chosen * strides[a]
    last = outer_first[-1]  # the innermost switches are done by the first block alone
    return middle + above[:, last] * strides[last]


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
