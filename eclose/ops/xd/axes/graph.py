"""The only axis of an XD-operation that starts as a graph convolution: places are nodes, not neighbours in space."""

from dataclasses import dataclass
from typing import ClassVar

from eclose.ops.xd.axes.axis import Axis


@dataclass(frozen=True)
class NodeAxis(Axis):
    """Inputs and outputs are the nodes of a graph."""

    kind: ClassVar[str] = "graph convolution"

    def at(self, size: int) -> "NodeAxis":
        """A graph has the nodes that it has."""
        if size != self.size:
            raise ValueError(f"an input of {size} nodes given for a graph of {self.size}: build another operation")
        return self
