"""What is known of a tensor inside of a network before anything is built: mode, shape and stored grid (3.5, 3.6)."""

from typing import Literal, NamedTuple

from eclose.backbones.tokens import EMBEDDING_WIDTH
from eclose.signature import Signature

Mode = Literal["im", "col"]  # (channels, *space) or (tokens, features)
Shape = tuple[int, ...]


class State(NamedTuple):
    """What the grammar's parameters say of a tensor, without its batch axis.

    ``grid`` is the shape stored by ``im2col`` for a later ``col2im``; it travels with the tensor.
    """

    mode: Mode
    shape: Shape  # (channels, *space) or (tokens, features)
    grid: Shape = ()

    def __str__(self) -> str:
        return f"{self.mode.capitalize()} {' x '.join(map(str, self.shape))}"


def input_state(signature: Signature) -> State:
    """Arrays enter in Im mode. Embedded tokens enter in Col mode, their positions as the stored shape."""
    if signature.tokens:
        return State("col", (signature.sizes[0], EMBEDDING_WIDTH), signature.sizes)
    return State("im", (signature.channels, *signature.sizes))
