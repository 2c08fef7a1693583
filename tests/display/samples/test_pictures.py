"""Pictures as PNG, read back by another program's decoder."""

import base64
import io

import numpy as np
from matplotlib.image import imread

from eclose.display.samples.pictures import png_address


def _decoded(address: str) -> np.ndarray:
    start = "data:image/png;base64,"
    assert address.startswith(start)
    return np.round(255 * imread(io.BytesIO(base64.b64decode(address[len(start) :])))).astype(int)


def test_colours_come_back() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 3)).astype(np.uint8)
    assert (_decoded(png_address(pixels))[..., :3] == pixels).all()


def test_palette_and_transparency_come_back() -> None:
    palette = np.array([[1, 2, 3], [200, 100, 50], [9, 9, 9]], np.uint8)
    pixels = np.array([[0, 1], [2, 0]], np.uint8)
    decoded = _decoded(png_address(pixels, palette, clear=2))
    assert decoded[0, 1].tolist() == [200, 100, 50, 255]
    assert decoded[1, 0, 3] == 0
