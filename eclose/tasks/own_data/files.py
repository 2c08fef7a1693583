"""Arrays of a user's file: an ``.npz``, or a folder of ``.npy`` files. Large arrays stay on disk.

An uncompressed ``.npz`` (``np.savez``) is memory-mapped in place: its members lie in the file as they are.
A large compressed member is unpacked once into the cache and mapped from there.
"""

import errno
import hashlib
import lzma
import math
import os
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from eclose.errors import ConfigError, TaskError
from eclose.runs import atomic_path, cache_folder

Array = NDArray[np.generic]
NAMES = ("x", "y", "x_train", "y_train", "x_val", "y_val", "x_test", "y_test")
LARGE = 256 * 2**20  # bytes from which an array is mapped instead of read
_MOST_PACKED = 100  # times: what claims to be larger than its file by more than that is not unpacked onto the disk

# What zipfile and numpy raise on files that are damaged, encrypted or packed in an unknown way.
_BAD_FILE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, struct.error)
_BAD_ARRAY = (ValueError, SyntaxError, TypeError, OverflowError, MemoryError, tokenize.TokenError)


def read_arrays(path: Path, names: tuple[str, ...] = NAMES) -> dict[str, Array]:
    """The arrays of ``names`` that the file or folder holds; errors name the file and the way out."""
    if path.is_dir():
        found = {name: path / f"{name}.npy" for name in names if (path / f"{name}.npy").is_file()}
        return {name: _read_npy(file) for name, file in found.items()}
    if not path.exists():
        raise TaskError(f"no such file: {path}")
    if not path.is_file():
        raise TaskError(f"{path} is neither a file nor a folder")
    if path.suffix == ".npy":
        return {names[0]: _read_npy(path)}
    return _read_npz(path, names)


def names_in(path: Path) -> list[str]:
    """The names of all arrays in a file or folder, whether of use or not."""
    if path.is_dir():
        return sorted(file.stem for file in path.glob("*.npy"))
    try:
        with zipfile.ZipFile(path) as archive:
            return sorted(name.removesuffix(".npy") for name in archive.namelist())
    except _BAD_FILE:
        return []


def _read_npy(path: Path) -> Array:
    try:
        with open(path, "rb") as file:
            _read_header(file, path.stat().st_size)
        large = path.stat().st_size >= LARGE
        return np.load(path, mmap_mode="c" if large else None, allow_pickle=False)
    except _BAD_ARRAY as error:
        raise _bad_array(str(path), error) from None
    except (OSError, EOFError) as error:
        raise TaskError(f"cannot read {path}: {error}") from None


def _read_npz(path: Path, names: tuple[str, ...]) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            return {name: _read_member(path, archive, members[name]) for name in names if name in members}
    except _BAD_FILE as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise  # the disk of the cache is full, which is no fault of the file
        raise TaskError(
            f"{path} is not a readable .npz file ({error}): write one with np.savez(path, x=..., y=...)"
        ) from None


def _read_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    try:
        with archive.open(info) as file:
            _read_header(file, info.file_size)
        if info.file_size < LARGE:
            with archive.open(info) as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        if info.compress_type == zipfile.ZIP_STORED:
            return _map_stored(path, info)
        _check_packed(info)
        return np.load(_unpacked(path, archive, info), mmap_mode="c", allow_pickle=False)
    except _BAD_ARRAY as error:
        raise _bad_array(f"'{info.filename}' in {path}", error) from None


def _map_stored(path: Path, info: zipfile.ZipInfo) -> Array:
    with open(path, "rb") as file:
        # The local header repeats the name and may carry other extra fields than the directory does.
        file.seek(info.header_offset + 26)
        name_length, extra_length = struct.unpack("<HH", file.read(4))
        file.seek(info.header_offset + 30 + name_length + extra_length)
        shape, fortran, dtype = _read_header(file, info.file_size)
        mapped = np.memmap(path, dtype=dtype, mode="c", offset=file.tell(), shape=shape[::-1] if fortran else shape)
        return mapped.T if fortran else mapped


def _read_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array of ``size`` bytes in all, which must hold what its header promises.

    This comes before anything is allocated: a header can claim any shape.
    """
    start = file.tell()
    if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
        raise ValueError("it is not in the .npy format")
    file.seek(start)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    if dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise ValueError(f"values of type {dtype} in the shape {shape} take no room")
    if file.tell() - start + math.prod(shape) * dtype.itemsize > size:
        raise ValueError("it is shorter than its header says")
    return shape, fortran, dtype


def _check_packed(info: zipfile.ZipInfo) -> None:
    """Refuse to fill the disk."""
    if info.file_size > _MOST_PACKED * info.compress_size:
        raise ValueError(f"its {info.compress_size} bytes would become {info.file_size}, so it is not unpacked")
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if info.file_size > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, f"No space left on device for {info.file_size} bytes", str(folder))


def _unpacked(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Path:
    stat = path.stat()
    key = f"{path.resolve()}:{stat.st_size}:{stat.st_mtime_ns}:{info.filename}"
    target = cache_folder() / "unpacked" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"
    if not target.exists():
        with atomic_path(target) as temporary, archive.open(info) as source, open(temporary, "wb") as file:
            while block := source.read(16 * 2**20):
                file.write(block)
    os.utime(target)
    return target


def _bad_array(which: str, error: Exception) -> TaskError:
    if "pickle" in str(error) or "object" in str(error).lower():
        return TaskError(
            f"{which} is an object array (pickle), which eclose never loads: "
            "store a rectangular array of numbers, or names as text (y.astype(str))"
        )
    reason = " ".join(str(error).split())
    return TaskError(f"{which} is not a readable array ({reason}): write it again with numpy")


def check_name(path: Path) -> None:
    """Refuse a name that does not say how arrays are to be written; best before they are computed."""
    if path.suffix not in (".npz", ".npy"):
        raise ConfigError(f"--out {path}: the name must end in .npz or .npy")


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """All arrays as ``.npz``, or the first one as ``.npy``."""
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        if path.suffix == ".npz":
            np.savez(file, **arrays)  # type: ignore[arg-type]
        else:
            np.save(file, next(iter(arrays.values())))
