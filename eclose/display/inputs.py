"""What went into the networks, for the eye: lines, images, slices or tokens."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from eclose.display.pictures import ColourScale, Picture, Values, image, value_scale
from eclose.display.signals import CARD_WIDTH, CHANNELS, draw_input

_CHANNELS = 4  # pictures of one input that is neither grey nor RGB
_TOKENS = 40  # of a sequence written out as numbers


@dataclass(frozen=True)
class Shown:
    """One input on the page: a drawing, pictures or tokens, and what was left out."""

    svg: Markup | None = None
    pictures: list[Picture] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    strip: Picture | None = None  # all tokens as colours
    note: str = ""


def show_tokens(x: npt.NDArray[np.int64]) -> Shown:  # (length,)
    """The first tokens as numbers, all of them as a strip of colours."""
    values = x.astype(np.float64)[None]
    strip = value_scale(values).picture(values, "tokens as colours")
    left = len(x) - _TOKENS
    note = f"first {_TOKENS} of {len(x):,} tokens; the strip shows all" if left > 0 else ""
    return Shown(tokens=[int(token) for token in x[:_TOKENS]], strip=strip, note=note)


def show_array(x: Values, scale: ColourScale, title: str, width: float = CARD_WIDTH) -> Shown:  # (channels, *space)
    """One axis as lines, two as images, three by their middle slice."""
    if x.ndim == 2:
        most = CHANNELS
        shown = Shown(svg=draw_input(x, title, width))
    else:
        planes = middle(x)
        rgb = len(planes) in (1, 3)
        most = len(planes) if rgb else _CHANNELS
        shown = Shown(pictures=[image(planes, scale, title)] if rgb else _channels(planes, scale, title))
    notes = [f"channels 1 to {most} of {len(x)}"] if len(x) > most else []
    if x.ndim == 4:
        notes.append(slice_note(x.shape[1]))
    return Shown(shown.svg, shown.pictures, note="; ".join(notes))


def middle(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(channels, height, width) of (channels, *space): the middle of the first of three axes."""
    return values[:, values.shape[1] // 2] if values.ndim == 4 else values


def slice_note(size: int) -> str:
    """Which slice of a volume is shown."""
    return f"slice {size // 2 + 1} of {size}"


def image_scale(x: Values) -> ColourScale:
    """Black to white over the range of all shown samples, as even bytes rarely use all of theirs."""
    return value_scale(x, name="gray")


def _channels(planes: Values, scale: ColourScale, title: str) -> list[Picture]:
    return [scale.picture(plane, f"{title}, channel {number}") for number, plane in enumerate(planes[:_CHANNELS], 1)]
