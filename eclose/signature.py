"""What goes into a network and what must come out, without the data: all that a factory needs to know."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Kind = Literal["classification", "regression", "dense", "segmentation"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Signature:
    """Input and output of a network for one task.

    ======================  ==================================  =======================
    kind                    network output                      target
    ======================  ==================================  =======================
    ``classification``      ``(batch, outputs)`` logits         ``(batch,)`` class
    ``regression``          ``(batch, outputs)``                ``(batch, outputs)``
    ``dense``               ``(batch, outputs, *space)``        the same
    ``segmentation``        ``(batch, outputs, *space)`` logits ``(batch, *space)`` class
    ======================  ==================================  =======================
    """

    kind: Kind
    channels: int  # 1 for tokens
    sizes: tuple[int, ...]  # of the one to three space axes
    outputs: int  # classes, values or output channels
    vocabulary: int = 0  # > 0: the input is (batch, length) token numbers below this

    @property
    def axes(self) -> int:
        """Number of space axes."""
        return len(self.sizes)

    @property
    def pooled(self) -> bool:
        """One answer a sample, not one a position."""
        return self.kind in ("classification", "regression")

    @property
    def labels(self) -> bool:
        """Targets are class numbers."""
        return self.kind in ("classification", "segmentation")

    @property
    def tokens(self) -> bool:
        """The input is a sequence of token numbers."""
        return self.vocabulary > 0

    def input_shape(self, batch: int) -> tuple[int, ...]:
        """Shape of a batch of inputs."""
        return (batch, *self.sizes) if self.tokens else (batch, self.channels, *self.sizes)

    def output_shape(self, batch: int) -> tuple[int, ...]:
        """Shape of a batch of outputs."""
        return (batch, self.outputs) if self.pooled else (batch, self.outputs, *self.sizes)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Signature":
        """Inverse of :meth:`as_dict`."""
        before = "space" in data  # as runs named the sizes at first
        others = {name: value for name, value in data.items() if name not in ("space", "sizes")}
        return cls(sizes=tuple(data["space" if before else "sizes"]), **others)
