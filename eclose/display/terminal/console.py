"""The terminal: what stands in files is text there and nothing else."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from eclose.errors import readable


class Terminal(Console):
    """A console that no name in a file steers, neither by square brackets nor by control characters."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's own segments, those of text without control characters."""
        for segment in super().render(renderable, options):
            text = "\n".join(map(readable, segment.text.split("\n")))
            yield segment if segment.control else segment._replace(text=text)
