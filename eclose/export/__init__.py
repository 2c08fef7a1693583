"""The found network for use elsewhere: a bundle of data files, or a ``torch.export`` program."""

from pathlib import Path

from torch import nn

from eclose.errors import ConfigError, RunError
from eclose.export.bundle import BUNDLE, write_bundle
from eclose.export.program import write_program
from eclose.registry import nearest
from eclose.runs import Run
from eclose.search.taken import Taken
from eclose.signature import Signature

FORMATS = ("bundle", "pt2")


def write_export(run: Run, taken: Taken, model: nn.Module, signature: Signature, to: Path, format: str) -> list[Path]:
    """Write into the folder ``to``; refuses to overwrite."""
    if format not in FORMATS:
        raise ConfigError(f"unknown format '{format}'; {nearest(format, FORMATS)}")
    if to.exists() and not to.is_dir():
        raise RunError(f"{to} is a file: --to names a folder")
    for name in BUNDLE if format == "bundle" else ("model.pt2",):
        if (to / name).exists():
            raise RunError(f"{to / name} exists: choose another folder with --to, or delete it")
    if format == "bundle":
        return write_bundle(run, taken, model, to)
    return [write_program(model, signature, to / "model.pt2")]


__all__ = ["FORMATS", "write_bundle", "write_export", "write_program"]
