"""R1 and R2, which move values and compute nothing: ``permute``, ``im2col`` and ``col2im``."""

from itertools import permutations
from math import prod

import torch
from torch import nn
from torch.nn import functional as F

from eclose.spaces.einspace.terminals.record import Terminal, by_name, unchanged, view, written
from eclose.spaces.einspace.terminals.state import Shape, State
from eclose.spaces.operation import Args, Arguments

_WINDOWS = ((1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (4, 4, 0), (8, 8, 0), (16, 16, 0))  # kernel, stride, padding


class Permute(nn.Module):
    """The axes of the shape in another order."""

    def __init__(self, order: Shape, lead: int) -> None:
        super().__init__()
        self.order = (*range(lead), *(lead + axis - 1 for axis in order))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A view."""
        return x.permute(self.order)


class Im2Col(nn.Module):
    """Windows as tokens: ``y[l, (c, *k)] = x[c, stride * grid[l] + k - padding]``, for any number of space axes."""

    def __init__(self, axes: int, window: Shape, lead: int) -> None:
        super().__init__()
        self.axes, self.lead = axes, lead
        self.kernel, self.stride, self.padding = window

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., channels, *space)
        """``(..., windows, channels * kernel ** axes)``."""
        lead, axes = self.lead, self.axes
        if self.padding:
            x = F.pad(x, [self.padding] * (2 * axes))
        for axis in range(lead + 1, lead + 1 + axes):
            x = x.unfold(axis, self.kernel, self.stride)  # (..., channels, *grid, *kernel)
        x = x.movedim(lead, lead + axes)
        return x.flatten(lead + axes).flatten(lead, lead + axes - 1)


class Col2Im(nn.Module):
    """Tokens as points of the stored grid."""

    def __init__(self, grid: Shape) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., tokens, features)
        """``(..., features, *grid)``."""
        return x.transpose(-1, -2).unflatten(-1, self.grid)


class Tokens(nn.Module):
    """Points as tokens, the inverse of :class:`Col2Im`."""

    def __init__(self, axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (..., features, *grid)
        """``(..., tokens, features)``."""
        return x.flatten(-self.axes).transpose(-1, -2)


def windows(window: Args, space: Shape) -> Shape | None:
    """Where the windows of ``im2col`` fit, equations 31 and 32."""
    kernel, stride, padding = window
    grid = tuple((n + 2 * padding - kernel) // stride + 1 for n in space)
    return grid if min(grid) > 0 else None


def _permuted(args: Args, state: State) -> State | None:
    if len(args) != len(state.shape):
        return None
    return State(state.mode, tuple(state.shape[axis - 1] for axis in args), state.grid)


def _columns(args: Args, state: State) -> State | None:
    if state.mode != "im":
        return None
    channels, *space = state.shape
    grid = windows(args, tuple(space))
    if grid is None:
        return None
    return State("col", (prod(grid), channels * args[0] ** len(space)), grid)


def _image(args: Args, state: State) -> State | None:
    if not state.grid or prod(state.grid) != state.shape[0]:
        return None
    return State("im", (state.shape[1], *state.grid))


ROUTING = by_name(
    Terminal(
        name="identity",
        kind="routing",
        words="nothing",
        symbols=("R1", "R2", "C"),
        after=unchanged,
        cost=view,
        build=lambda args, state, layout: [],
        keeps_sharing=True,
    ),
    Terminal(
        name="permute",
        kind="routing",
        words="axes in another order",
        sizes="{all}",
        symbols=("R1", "R2"),
        arguments=Arguments(
            lambda args: len(args) > 1 and sorted(args) == list(range(1, len(args) + 1)), "(2,1), (1,3,2) ..."
        ),
        offered=lambda mode, dims: list(permutations(range(1, dims + 1)))[1:],  # the first one is the identity
        after=_permuted,
        cost=view,
        build=lambda args, state, layout: [Permute(args, layout.lead)],
        keeps_sharing=True,
    ),
    Terminal(
        name="im2col",
        kind="routing",
        words="windows as tokens",
        sizes="kernel {0}, stride {1}",
        symbols=("R1",),
        arguments=Arguments(lambda args: len(args) == 3 and args[0] > 0 and args[1] > 0, "(kernel,stride,padding)"),
        offered=lambda mode, dims: _WINDOWS if mode == "im" else (),
        after=_columns,
        cost=written,
        build=lambda args, state, layout: [Im2Col(len(state.shape) - 1, args, layout.lead)],
        keeps_sharing=True,
    ),
    Terminal(
        name="col2im",
        kind="routing",
        words="tokens as an image",
        symbols=("R2",),
        offered=lambda mode, dims: [()] if mode == "col" else [],
        after=_image,
        cost=view,
        build=lambda args, state, layout: [Col2Im(state.grid)],
        keeps_sharing=True,
    ),
)
