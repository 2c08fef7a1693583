"""Pieces that known networks are made of, as derivations."""

from collections.abc import Sequence
from math import prod

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import COL2IM, IDENTITY, Branch, Op, Route, Sequential, Tree
from eclose.spaces.einspace.shapes import windows

NORM, RELU, ENCODING = Op("norm"), Op("relu"), Op("pos-enc")
TRANSPOSE = Op("permute", (2, 1))
TWICE = Op("clone", (2,))


def sequence(parts: Sequence[Tree]) -> Tree:
    """Modules one after the other, nested as little as possible."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Sequential(sequence(parts[:middle]), sequence(parts[middle:]))


def linear(width: int) -> Op:
    """A linear layer."""
    return Op("linear", (width,))


def conv(width: int, kernel: int = 3, stride: int = 1) -> Tree:
    """A convolution with an odd kernel that keeps the size, up to its stride."""
    return Route(Op("im2col", (kernel, stride, kernel // 2)), linear(width), COL2IM)


def residual(*parts: Tree, shortcut: Tree = IDENTITY) -> Tree:
    """The sum of a sequence and of what passes by it."""
    return Branch(TWICE, (sequence(parts), shortcut), Op("add"))


def as_image(signature: Signature) -> list[Tree]:
    """What stands before a convolutional network: tokens become a signal."""
    return [Route(IDENTITY, IDENTITY, COL2IM)] if signature.tokens else []


def patches(signature: Signature, size: int, width: int) -> tuple[list[Tree], int]:
    """An embedding of patches (of points where patches do not fit, of tokens as they are), and their number."""
    if signature.tokens:
        return [linear(width), ENCODING], signature.space[0]
    window = Op("im2col", (size, size, 0) if min(signature.space) >= size else (1, 1, 0))
    grid = windows(window, signature.space)
    assert grid, "windows of one point fit everywhere"
    return [Route(window, linear(width), IDENTITY), ENCODING], prod(grid)
