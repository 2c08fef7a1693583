"""The found network for use elsewhere: a bundle of data files, a ``torch.export`` program, or an ONNX program."""

import contextlib
from pathlib import Path

from torch import nn

from eclose.engine.saved_networks import SavedNetwork
from eclose.errors import ConfigError, RunError
from eclose.exports.bundle import BUNDLE, write_bundle
from eclose.exports.onnx_program import ONNX_PROGRAM, write_onnx_program
from eclose.exports.program import PROGRAM, write_program
from eclose.registry import nearest
from eclose.runs import Run
from eclose.signature import Signature

_FILES = {"bundle": BUNDLE, "pt2": PROGRAM, "onnx": ONNX_PROGRAM}


def write_export(
    run: Run, saved: SavedNetwork, model: nn.Module, signature: Signature, to: Path, format: str
) -> list[Path]:
    """Write into the folder ``to``, all of it or nothing; refuses to overwrite."""
    if format not in _FILES:
        raise ConfigError(f"unknown format '{format}'; {nearest(format, _FILES)}")
    if to.exists() and not to.is_dir():
        raise RunError(f"{to} is a file: --to names a folder")
    names = _FILES[format]
    for name in names:
        if (to / name).exists():
            raise RunError(f"{to / name} exists: choose another folder with --to, or delete it")
    new = not to.exists()
    try:
        if format == "bundle":
            return write_bundle(run, saved, model, to)
        write = write_program if format == "pt2" else write_onnx_program
        return write(model, signature, to)
    except BaseException:
        for name in names:
            (to / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if new:
                to.rmdir()
        raise


__all__ = ["write_export"]
