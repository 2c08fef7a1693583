"""What every start of an XD-operation may be told."""

from dataclasses import dataclass

from eclose.ops.kaleidoscope.sizes import LARGEST, Radices, stages
from eclose.ops.xd.gates import Gates, check_gates


@dataclass(frozen=True, kw_only=True)
class Options:
    """``depth`` of K, L and M; ``bias`` and ``gates``: whether there are b and C, and whether C is complex.

    Transforms have no prime factor above ``largest``, and a stage for every prime factor, or as few as possible with
    ``fewest``; with ``paper`` their sizes are powers of two. ``order`` and ``recompute`` are those of :class:`XD`.
    """

    depth: tuple[int, int, int] = (1, 1, 1)
    bias: bool = True
    gates: Gates = True
    paper: bool = False
    largest: int = LARGEST
    fewest: bool = False
    order: str | None = None
    recompute: bool = True

    def __post_init__(self) -> None:
        whole = isinstance(self.depth, tuple | list) and all(isinstance(blocks, int) for blocks in self.depth)
        if not whole or len(self.depth) != 3 or min(self.depth) < 1:
            raise ValueError(f"the depth is one number of blocks for each of K, L and M, at least 1, not {self.depth}")
        check_gates(self.gates)

    @property
    def factor(self) -> int:
        """The largest prime factor of a transform."""
        return 2 if self.paper else self.largest

    def radices(self, size: int) -> Radices:
        """The stages of a transform."""
        return stages(size, self.largest, fewest=self.fewest and not self.paper)
