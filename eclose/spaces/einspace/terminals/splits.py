"""B, one tensor to several: ``clone`` and ``group``."""

import torch
from torch import nn

from eclose.spaces.einspace.grammar import FACTORS
from eclose.spaces.einspace.terminals.copies import Group, Repeat
from eclose.spaces.einspace.terminals.record import Split, by_name, unchanged, view
from eclose.spaces.einspace.terminals.state import State
from eclose.spaces.operation import Args, Arguments


class Halves(nn.Module):
    """What each of two branches gets: all of the input, or half of it along an axis."""

    def __init__(self, axis: int | None) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views."""
        if self.axis is None:
            return x, x
        first, second = x.chunk(2, self.axis)
        return first, second


def _part(args: Args, state: State) -> State | None:
    axis, shape = args[0] - 1, state.shape
    if axis >= len(shape):
        return None
    part, rest = divmod(shape[axis], args[-1])
    return None if rest else State(state.mode, (*shape[:axis], part, *shape[axis + 1 :]), state.grid)


SPLITS = by_name(
    Split(
        name="clone",
        kind="fork",
        words="copies",
        sizes="{0}",
        symbols=("B",),
        arguments=Arguments(lambda args: len(args) == 1 and args[0] in FACTORS, f"(b) with b in {FACTORS}"),
        offered=lambda mode, dims: [(b,) for b in FACTORS],
        after=unchanged,
        cost=view,
        build=lambda args, state, lead: [Repeat(args[-1], lead)],
        halves=lambda args, lead: Halves(None),
        whole=True,
    ),
    Split(
        name="group",
        kind="fork",
        words="parts",
        sizes="{1} along axis {0}",
        symbols=("B",),
        arguments=Arguments(
            lambda args: len(args) == 2 and args[0] > 0 and args[1] in FACTORS, f"(dim,b) with b in {FACTORS}"
        ),
        offered=lambda mode, dims: [(dim, b) for dim in range(1, dims + 1) for b in FACTORS],
        after=_part,
        cost=view,
        build=lambda args, state, lead: [Group(args[0], state.shape[args[0] - 1], args[-1], lead)],
        halves=lambda args, lead: Halves(lead + args[0] - 1),
    ),
)
