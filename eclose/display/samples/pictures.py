"""Arrays of two axes as pictures: values and errors on a colour scale, classes, grey and colour images."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


def png_address(pixels: Pixels, palette: Pixels | None = None, clear: int | None = None) -> str:
    """``data:image/png;base64,...`` of (height, width) palette numbers or (height, width, 3) colours.

    ``clear`` is the palette number that is transparent.
    """
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if palette is None else 3, 0, 0, 0)
    lines = np.zeros((height, 1 + pixels[0].size), np.uint8)  # each line begins with its filter, 0: none
    lines[:, 1:] = pixels.reshape(height, -1)
    chunks = [_chunk(b"IHDR", header)]
    if palette is not None:
        chunks.append(_chunk(b"PLTE", palette.tobytes()))
    if clear is not None:
        chunks.append(_chunk(b"tRNS", bytes([255] * clear + [0])))
    chunks += [_chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), _chunk(b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


Values = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

_PIXELS = 256 * 256  # of larger arrays every second, third, ... value is shown
_CLEAR = 255  # palette number of what is no finite number; the page hatches it
_OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#666666")


@dataclass(frozen=True)
class Picture:
    """A picture for an ``<img>``."""

    address: str
    aspect: float  # width / height, kept within what fits a page
    alt: str
    holes: bool = False  # parts are transparent, for want of a finite number


@dataclass(frozen=True)
class ColourScale:
    """Which values the ends of a colour map stand for."""

    low: float
    high: float
    name: str  # of matplotlib's colour map
    saturates: bool = False  # some values lie beyond the ends

    @property
    def gradient(self) -> str:
        """The colour map as CSS."""
        stops = _palette(self.name)[np.linspace(0, _CLEAR - 1, 9).astype(int)]
        return f"linear-gradient(90deg, {', '.join(_hex(rgb) for rgb in stops)})"

    def picture(self, values: Values, alt: str) -> Picture:  # (height, width)
        """Values as colours; transparent where they are no finite numbers."""
        values = _thinned(values)
        known = np.isfinite(values)
        span = (self.high - self.low) or 1.0
        place = np.clip((np.where(known, values, self.low) - self.low) / span, 0, 1)
        pixels = np.where(known, np.round(place * (_CLEAR - 1)), _CLEAR).astype(np.uint8)
        return Picture(png_address(pixels, _palette(self.name), _CLEAR), _aspect(values), alt, not known.all())


def value_scale(*arrays: Values, name: str = "viridis") -> ColourScale:
    """From the smallest to the largest finite value of all arrays."""
    known = np.concatenate([array[np.isfinite(array)].ravel() for array in arrays])
    if known.size == 0:
        return ColourScale(0.0, 1.0, name)
    return ColourScale(float(known.min()), float(known.max()), name)


def prediction_scale(target: Values, predictions: Sequence[Values]) -> ColourScale:
    """The range of the target: a prediction that went wild must not wash out all the others."""
    scale, widest = value_scale(target), value_scale(target, *predictions)
    return replace(scale, saturates=(scale.low, scale.high) != (widest.low, widest.high))


def error_scale(target: Values, errors: Sequence[Values]) -> ColourScale:
    """Symmetric about zero, which is white, and no wider than the target's own size."""
    largest = float(np.max([np.abs(error[np.isfinite(error)]).max(initial=0.0) for error in errors], initial=0.0))
    limit = float(np.abs(target[np.isfinite(target)]).max(initial=0.0)) or largest
    most = min(largest, limit) or 1.0
    return ColourScale(-most, most, "RdBu_r", largest > most)


def image(x: Values, scale: ColourScale, alt: str) -> Picture:  # (1 or 3, height, width)
    """Three channels as red, green and blue, one as grey; black is the low end of the scale."""
    if len(x) != 3:
        return scale.picture(x[0], alt)
    span = (scale.high - scale.low) or 1.0
    values = np.stack([_thinned(channel) for channel in x], axis=-1)
    shown = np.nan_to_num(np.clip((values - scale.low) / span, 0, 1))
    return Picture(png_address(np.round(255 * shown).astype(np.uint8)), _aspect(shown), alt)


def class_colours(classes: int) -> list[str]:
    """One colour a class."""
    if classes <= len(_OKABE_ITO):
        return list(_OKABE_ITO[:classes])
    wheel = matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, classes))
    return [_hex(rgb) for rgb in np.round(255 * wheel[:, :3]).astype(np.uint8)]


def class_picture(labels: Labels, classes: int, alt: str) -> Picture:  # (height, width)
    """Class numbers as colours; other numbers are transparent."""
    labels = _thinned(labels)
    colours = np.array([list(bytes.fromhex(colour[1:])) for colour in class_colours(classes)], np.uint8)
    if classes > _CLEAR:
        return Picture(png_address(colours[np.clip(labels, 0, classes - 1)]), _aspect(labels), alt)
    pixels = np.where((labels >= 0) & (labels < classes), labels, classes).astype(np.uint8)
    palette = np.concatenate([colours, np.zeros((1, 3), np.uint8)])
    return Picture(png_address(pixels, palette, classes), _aspect(labels), alt, bool((pixels == classes).any()))


def wrong_picture(wrong: npt.NDArray[np.bool_], alt: str) -> Picture:  # (height, width)
    """Black where the answer is wrong, light grey elsewhere."""
    wrong = _thinned(wrong)
    palette = np.array([[196, 199, 194], [20, 20, 20]], np.uint8)
    return Picture(png_address(wrong.astype(np.uint8), palette), _aspect(wrong), alt)


def _thinned(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    step = math.ceil(math.sqrt(values.shape[0] * values.shape[1] / _PIXELS))
    return values[::step, ::step]


def _aspect(values: npt.NDArray[Any]) -> float:
    height, width = values.shape[:2]
    return round(min(max(width / height, 0.4), 8.0), 3)


def _palette(name: str) -> Pixels:
    colours = matplotlib.colormaps[name](np.linspace(0, 1, _CLEAR))[:, :3]
    return np.concatenate([np.round(255 * colours), np.zeros((1, 3))]).astype(np.uint8)


def _hex(rgb: Pixels) -> str:
    return f"#{bytes(rgb).hex()}"
