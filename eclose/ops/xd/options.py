"""What every start of an XD-operation may be told."""

from dataclasses import dataclass

from eclose.ops.kaleidoscope.sizes import LARGEST as WIDEST
from eclose.ops.kaleidoscope.sizes import Radices, stages
from eclose.ops.xd.axes.axis import LARGEST
from eclose.ops.xd.gates import Gates, check_gates


@dataclass(frozen=True, kw_only=True)
class Options:
    """``depth`` of K, L and M; ``bias`` and ``gates``: whether there are b and C, and whether C is complex.

    The size of a transform has no prime factor above ``largest``; with ``paper`` it is a power of two. There is a stage
    for every prime factor or, with ``fewest``, as few as possible (of radices up to 17). ``unitary`` is that of the
    start of K and M; only operations that an earlier version saved are not. ``order`` and ``recompute`` are those of
    :class:`XD`.
    """

    depth: tuple[int, int, int] = (1, 1, 1)
    bias: bool = True
    gates: Gates = True
    paper: bool = False
    largest: int = LARGEST
    fewest: bool = False
    unitary: bool = True
    order: str | None = None
    recompute: bool = True

    def __post_init__(self) -> None:
        whole = isinstance(self.depth, tuple | list) and all(isinstance(blocks, int) for blocks in self.depth)
        if not whole or len(self.depth) != 3 or min(self.depth) < 1:
            raise ValueError(f"the depth is one number of blocks for each of K, L and M, at least 1, not {self.depth}")
        if isinstance(self.largest, bool) or not isinstance(self.largest, int) or self.largest < 2:
            raise ValueError(f"largest is the largest prime factor of a transform, at least 2, not {self.largest}")
        check_gates(self.gates)

    @property
    def factor(self) -> int:
        """The largest prime factor of a transform."""
        return 2 if self.paper else self.largest

    def radices(self, size: int) -> Radices:
        """The stages of a transform; a prime factor that is there although it is large is one stage."""
        primes = stages(size, size)
        return stages(size, max(WIDEST, primes[-1]), fewest=True) if self.fewest and not self.paper else primes
