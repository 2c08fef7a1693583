"""An ONNX program (extra ``onnx``): the network for onnxruntime, and for whatever else reads ONNX, without torch."""

import contextlib
import importlib
import logging
import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from eclose.errors import ConfigError, EcloseError
from eclose.exports.plain_operations import in_plain_operations
from eclose.exports.program import example, traced
from eclose.runs import atomic_path, write_text
from eclose.signature import Signature

ONNX_PROGRAM = ("model.onnx", "use.py")

_LARGEST = 2**31  # bytes of a file
_MOST, _NUMBERS = 256, 2**16  # samples that show how large answers are, and numbers in them
_USE = """\
import pathlib, numpy, onnxruntime  # nothing else is needed
model = onnxruntime.InferenceSession(str(pathlib.Path(__file__).with_name("model.onnx")))
x = numpy.zeros({shape}, "{type}")  # {meaning}
print(model.run(["y"], {{"x": x}})[0])
"""


def write_onnx_program(model: nn.Module, signature: Signature, folder: Path) -> list[Path]:
    """Write ``model.onnx``, for any batch size, and ``use.py``, which shows in four lines how to use it."""
    with _quiet(), torch.no_grad():
        _check_extra()
        program = traced(model, signature)
        _check_size(program)
        try:
            content = _converted(program, signature)
            right = all(_agree(content, program, signature))
        except Exception as error:
            raise EcloseError(f"ONNX cannot hold this network ({_reason(error)}): use --format pt2") from error
        if not right:
            raise EcloseError("onnxruntime does not compute what the network does: use --format pt2")
    with atomic_path(folder / "model.onnx") as temporary:
        temporary.write_bytes(content)
    write_text(folder / "use.py", _use(signature))
    return [folder / name for name in ONNX_PROGRAM]


def _check_extra() -> None:
    try:
        for package in ("onnx", "onnxscript", "onnxruntime"):
            importlib.import_module(package)
    except ImportError:
        raise ConfigError("--format onnx needs ONNX: pip install 'eclose[onnx]', or use --format pt2") from None


def _check_size(program: ExportedProgram) -> None:
    size = sum(tensor.nbytes for tensor in program.state_dict.values())
    if size >= _LARGEST:
        raise EcloseError(f"an ONNX file holds 2 GB, this network has {size / 2**30:.1f} GB: use --format pt2")


def _converted(program: ExportedProgram, signature: Signature) -> bytes:
    """The program as the content of an ONNX file, without the places of files on this machine."""
    from onnx_ir.passes import common as passes
    from onnxscript import optimizer

    # The rewriting of onnxscript takes minutes for XD-operations, and onnxruntime does it anyway.
    converted = torch.onnx.export(
        in_plain_operations(program),
        (example(signature, 2),),
        input_names=["x"],
        output_names=["y"],
        dynamic_shapes=({0: "batch"},),
        dynamo=True,
        optimize=False,
        verbose=False,
    )
    assert converted is not None
    passes.CommonSubexpressionEliminationPass()(converted.model)
    optimizer.fold_constants(converted.model, onnx_shape_inference=True)
    passes.RemoveUnusedNodesPass()(converted.model)
    passes.ClearMetadataAndDocStringPass()(converted.model)
    return converted.model_proto.SerializeToString()


def _agree(content: bytes, program: ExportedProgram, signature: Signature) -> Iterator[bool]:
    """Whether onnxruntime computes what the program does. It adds in another order, so the last digits may differ."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    network = program.module()
    size = float(network(_many(signature)).abs().max())
    for batch in (1, 3):
        x = example(signature, batch)
        wanted, got = network(x).numpy(), session.run(["y"], {"x": x.numpy()})[0]
        atol = 1e-3 * max(size, np.abs(wanted).max())
        yield wanted.shape == got.shape and np.allclose(got, wanted, rtol=0, atol=atol)


def _many(signature: Signature) -> Tensor:
    """Inputs that show how large answers are: a few of them may all be zero, as counts of a rare token are."""
    shape = signature.input_shape(1)
    batch = max(1, min(_MOST, _NUMBERS // math.prod(shape)))
    if not signature.tokens:
        return example(signature, batch)
    return torch.arange(batch * math.prod(shape)).remainder(signature.vocabulary).view(batch, *shape[1:])


def _reason(error: BaseException) -> str:
    """What was wrong at first: torch wraps it in advice to its developers."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:300]


def _use(signature: Signature) -> str:
    shape = signature.input_shape(2)
    if signature.tokens:
        return _USE.format(shape=shape, type="int64", meaning="your tokens, any number of sequences")
    return _USE.format(shape=shape, type="float32", meaning="your values as they are, any number of samples")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings and log lines of torch and onnxscript."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
