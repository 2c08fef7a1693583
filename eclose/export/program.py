"""A ``torch.export`` program: the network as a graph that runs without eclose."""

import copy
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim

from eclose.errors import EcloseError
from eclose.runs import atomic_path
from eclose.signature import Signature


def write_program(model: nn.Module, signature: Signature, path: Path) -> Path:
    """Write ``path`` (.pt2) for any batch size, after checking that it computes what the model does."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
            program = torch.export.export(model, (_example(signature, 2),), dynamic_shapes=({0: Dim("batch", min=1)},))
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise EcloseError(f"torch.export cannot trace this network ({reason}): use --format bundle") from error
        for batch in (1, 3):
            x = _example(signature, batch)
            wanted, got = model(x), program.module()(x)
            if not torch.allclose(wanted, got, rtol=1e-4, atol=1e-5 * float(wanted.abs().max())):
                raise EcloseError("the exported program does not compute what the network does: use --format bundle")
        with atomic_path(path) as temporary:
            # torch insists on the suffix
            plain = temporary.with_suffix(".pt2")
            torch.export.save(program, plain)
            plain.rename(temporary)
    return path


def _example(signature: Signature, batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(batch)
    shape = signature.input_shape(batch)
    if signature.tokens:
        return torch.randint(signature.vocabulary, shape, generator=generator)
    return torch.randn(shape, generator=generator)
