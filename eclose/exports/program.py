"""A ``torch.export`` program: the network as a graph that runs without eclose."""

import copy
import io
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from eclose.errors import EcloseError
from eclose.runs import atomic_path, write_text
from eclose.signature import Signature

PROGRAM = ("model.pt2", "use.py")

_USE = """\
import pathlib, torch  # nothing else is needed
model = torch.export.load(pathlib.Path(__file__).with_name("model.pt2")).module()
x = torch.zeros({shape})  # {meaning}
print(model(x))
"""


def write_program(model: nn.Module, signature: Signature, folder: Path) -> list[Path]:
    """Write ``model.pt2``, for any batch size, and ``use.py``, which shows in four lines how to use it."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = traced(model, signature)
        buffer = io.BytesIO()  # torch's own writer ends the process when the disk is full
        torch.export.save(program, buffer)
    with atomic_path(folder / "model.pt2") as temporary:
        temporary.write_bytes(buffer.getbuffer())
    write_text(folder / "use.py", _use(signature))
    return [folder / name for name in PROGRAM]


def traced(model: nn.Module, signature: Signature) -> ExportedProgram:
    """The program of a network; it was seen to compute what the network does."""
    try:
        model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
        program = torch.export.export(model, (example(signature, 2),), dynamic_shapes=({0: Dim("batch", min=1)},))
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise EcloseError(f"torch.export cannot trace this network ({reason}): use --format bundle") from error
    for batch in (1, 3):
        x = example(signature, batch)
        wanted, got = model(x), program.module()(x)
        if not torch.allclose(wanted, got, rtol=1e-4, atol=1e-5 * float(wanted.abs().max())):
            raise EcloseError("the exported program does not compute what the network does: use --format bundle")
    return program


def _use(signature: Signature) -> str:
    shape = ", ".join(map(str, signature.input_shape(2)))
    if signature.tokens:
        return _USE.format(shape=f"{shape}, dtype=torch.long", meaning="your tokens, any number of sequences")
    return _USE.format(shape=shape, meaning="your values as they are, any number of samples")


def example(signature: Signature, batch: int) -> Tensor:
    """Inputs as good as any."""
    generator = torch.Generator().manual_seed(batch)
    shape = signature.input_shape(batch)
    if signature.tokens:
        return torch.randint(signature.vocabulary, shape, generator=generator)
    return torch.randn(shape, generator=generator)
