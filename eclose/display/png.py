"""Small pictures as PNG data addresses: one byte a pixel with a palette, or three with colours."""

import base64
import struct
import zlib

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
