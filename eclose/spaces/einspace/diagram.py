"""A network as a drawing: steps from left to right, branches below each other."""

from eclose.spaces.einspace.descent import operations
from eclose.spaces.einspace.grammar import Op, Tree, factor
from eclose.spaces.einspace.normal_form import Chain, Fork, chain
from eclose.spaces.einspace.terminals.options import EVERY
from eclose.spaces.einspace.wording import parts
from eclose.spaces.explanation import MOST_NODES, Drawing, Edge, Node

_KINDS = {
    "end": "input and output",
    "weights": "learned weights",
    "attention": "attention",
    "norm": "normalisation",
    "function": "function without weights",
    "routing": "values are moved",
    "fork": "branches part and meet",
}
_FLOWS = {
    "flow": "one step after the other",
    "shortcut": "past the other branch, unchanged",
    "repeated": "several branches alike, each with weights of its own",
}
_NEW = "new"


def graph(tree: Tree, kept: tuple[tuple[int, int], ...] | None = None, seed: str = "") -> Drawing | None:
    """The steps of a network; those that are not in ``kept`` ranges of its operations are marked as new.

    None: there are too many for a drawing.
    """
    return _Painter(kept, seed).drawing(tree)


class _Painter:
    """Nodes and edges so far."""

    def __init__(self, kept: tuple[tuple[int, int], ...] | None, seed: str) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.seed = seed
        self.kept = kept
        self.operation = 0  # the number of the next one

    def drawing(self, tree: Tree) -> Drawing | None:
        first = self._node("input", "", "end", 0, 0, "")
        last, layer, flow = self._chain(chain(tree), first, 1, 0, "flow")
        self._edge(last, self._node("output", "", "end", layer, 0, ""), flow)
        if len(self.nodes) > MOST_NODES:
            return None
        marks = {_NEW: f"not in {self.seed}"} if self.kept is not None else {}
        return Drawing(tuple(self.nodes), tuple(self.edges), _KINDS, _FLOWS, marks)

    def _chain(self, links: Chain, before: str, layer: int, lane: int, flow: str) -> tuple[str, int, str]:
        """Paint a chain after the node ``before``: its last node, the next layer, and how the next edge flows."""
        for part in parts(links):
            if part.fork is None:
                mark = self._mark(len(operations(part.links)))
                node = self._node(part.words, part.sizes, part.kind, layer, lane, mark)
                self._edge(before, node, flow)
                before, layer = node, layer + 1
            else:
                before, layer = self._fork(part.fork, before, layer, lane, flow)
            flow = "flow"
        return before, layer, flow

    def _fork(self, fork: Fork, before: str, layer: int, lane: int, flow: str) -> tuple[str, int]:
        again = len(fork.branches) == 1
        split = self._meeting(fork.split, layer, lane)
        self._edge(before, split, flow)
        ends, at = [], lane
        for branch in fork.branches:
            flow = "repeated" if again else "flow" if branch else "shortcut"
            ends.append(self._chain(branch, split, layer + 1, at, flow))
            at += _lanes(branch)
        end = max(following for _, following, _ in ends)
        merge = self._meeting(fork.merge, end, lane)
        for node, _, flow in ends:
            self._edge(node, merge, "repeated" if again else flow, f"×{factor(fork.split)}" if again else "")
        return merge, end + 1

    def _meeting(self, op: Op, layer: int, lane: int) -> str:
        record = EVERY[op.name]
        return self._node(record.words, record.detail(op.args), record.kind, layer, lane, self._mark(1))

    def _mark(self, taken: int) -> str:
        """Of a step of so many operations, where the seed has none of them."""
        first, end = self.operation, self.operation + taken
        self.operation = end
        known = self.kept is None or any(start < end and first < stop for start, stop in self.kept)
        return "" if known else _NEW

    def _node(self, label: str, detail: str, kind: str, layer: int, lane: int, mark: str) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(Node(name, label, kind, layer, lane, detail, mark))
        return name

    def _edge(self, source: str, target: str, kind: str, label: str = "") -> None:
        self.edges.append(Edge(source, target, kind, label))


def _lanes(links: Chain) -> int:
    """How many lanes a chain takes."""
    forks = [part.fork for part in parts(links) if part.fork]
    return max((sum(map(_lanes, fork.branches)) for fork in forks), default=1)
