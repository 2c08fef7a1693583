"""Struct arrays of MATLAB 5 files (``.mat``), as far as tables of numbers and words need it. Nothing is ever run."""

import struct
import zlib
from collections.abc import Iterator

_HEADER = 128  # bytes of text and version before the first element
_LARGEST = 16 * 2**20  # bytes that all compressed elements of a file may unpack to
_MATRIX, _COMPRESSED = 14, 15  # kinds of elements
_STRUCT = 2  # the class of a matrix
_FORMATS = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q", 16: "B", 17: "H"}

Values = tuple[int | float, ...]


def read_structs(data: bytes, name: str, fields: tuple[str, ...]) -> list[tuple[Values, ...]]:
    """The ``fields`` of every member of the struct array ``name``: numbers, or the codes of characters.

    Whatever is wrong with the file is a ``ValueError``.
    """
    if data[126:128] != b"IM":  # "MI" on machines with the other order of bytes
        raise ValueError("it is no MATLAB 5 file")
    try:
        for kind, body in _unpacked(memoryview(data)[_HEADER:]):
            parts = list(_elements(body)) if kind == _MATRIX else []
            if len(parts) >= 5 and parts[0][1][0] == _STRUCT and bytes(parts[2][1]) == name.encode():
                return _rows([body for _, body in parts[3:]], fields)
    except (struct.error, zlib.error, IndexError, KeyError):
        raise ValueError("it is damaged") from None
    raise ValueError(f"it has no struct array '{name}'")


def _rows(parts: list[memoryview], fields: tuple[str, ...]) -> list[tuple[Values, ...]]:
    """From the width of a name, the names of all fields, and the values: member by member, each with all its fields."""
    (width,) = struct.unpack("<i", parts[0])
    names = [bytes(parts[1][at : at + width]).rstrip(b"\0") for at in range(0, len(parts[1]), max(width, 1))]
    if missing := [field for field in fields if field.encode() not in names]:
        raise ValueError(f"it has no field '{missing[0]}'")
    columns = [names.index(field.encode()) for field in fields]
    starts = range(2, len(parts), len(names))
    return [tuple(_values(parts[start + column]) for column in columns) for start in starts]


def _values(matrix: memoryview) -> Values:
    """All values of a matrix; before them it has its class, its shape and its name."""
    kind, body = list(_elements(matrix))[3]
    form = _FORMATS[kind]
    return struct.unpack(f"<{len(body) // struct.calcsize(form)}{form}", body)


def _unpacked(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    left = _LARGEST
    for kind, body in _elements(data):
        if kind == _COMPRESSED:
            content = zlib.decompressobj().decompress(body, left + 1)
            left -= len(content)
            if left < 0:
                raise ValueError("it unpacks to far too much")
            yield from _elements(memoryview(content))
        else:
            yield kind, body


def _elements(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Kind and content of each element. Those of four bytes or fewer have their content beside their size."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        beside = kind >> 16  # bytes
        start = at + 4 if beside else at + 8
        end = start + (beside or size)
        if end > (at + 8 if beside else len(data)):
            raise ValueError("it ends too early")
        yield kind & 0xFFFF, data[start:end]
        at = end if kind == _COMPRESSED else end + (at - end) % 8  # others are filled up to multiples of eight bytes
