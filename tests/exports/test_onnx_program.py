import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import eclose
from eclose.backbones import make_backbone
from eclose.errors import ConfigError, EcloseError
from eclose.exports import onnx_program
from eclose.exports.onnx_program import write_onnx_program
from eclose.signature import Signature

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

SIGNATURE = Signature("regression", 2, (8,), 3)
NETWORKS = [
    ("lenet", Signature("classification", 1, (12, 10), 3), {"widths": (2, 3), "hidden": (4,)}),
    ("linear", Signature("dense", 2, (5, 4, 3), 2), {}),  # a Conv3d without bias
    *(
        ("linear", Signature("classification", 1, (7,), 2, vocabulary=9), {"reads": reads})
        for reads in ("shares", "pairs", "places")
    ),
    ("fno", Signature("dense", 1, (11,), 1), {"width": 3, "modes": 3, "layers": 1}),
    ("linear_plus", Signature("dense", 2, (5, 4), 2), {"network": "cnn", "width": 3}),
    ("random_filters", Signature("classification", 2, (7,), 2), {"filters": 8, "cells": (3,)}),
]


def moved(model: nn.Module) -> nn.Module:
    """Away from its start, as after steps of a training."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def inputs(signature: Signature, batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(10 + batch)
    if signature.tokens:
        return torch.randint(signature.vocabulary, signature.input_shape(batch), generator=generator)
    return torch.randn(signature.input_shape(batch), generator=generator)


def assert_written(model: nn.Module, signature: Signature, folder: Path) -> None:
    """The file computes what the network does, for any batch, and names no place on this machine."""
    path, _ = write_onnx_program(model, signature, folder)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (given,), (answer,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape) == ("x", ["batch", *signature.input_shape(1)[1:]])
    assert (answer.name, answer.shape) == ("y", ["batch", *signature.output_shape(1)[1:]])
    for batch in (1, 5):
        x = inputs(signature, batch)
        with torch.no_grad():
            wanted = model(x)
        (got,) = session.run(["y"], {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=1e-4, atol=1e-5)
    content = path.read_bytes()
    assert str(Path(eclose.__file__).parent).encode() not in content
    assert b"site-packages" not in content


@pytest.mark.parametrize(("name", "signature", "options"), NETWORKS)
def test_the_file_computes_what_the_network_does(
    name: str, signature: Signature, options: dict[str, Any], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    assert_written(moved(make_backbone(name, signature, options)), signature, tmp_path)


def test_xd_operations(tmp_path: Path) -> None:
    torch.manual_seed(0)
    signature, plain = Signature("dense", 2, (4,), 3), nn.Conv1d(2, 3, 3, padding=1)
    assert_written(moved(eclose.relax(plain, inputs(signature, 2))), signature, tmp_path)


def test_answers_that_happen_to_be_zero(tmp_path: Path) -> None:
    signature = Signature("regression", 1, (6,), 1, vocabulary=300)
    model = make_backbone("linear", signature, {"reads": "shares"})
    weight, mean = torch.zeros(300, 1), torch.rand(300, generator=torch.Generator().manual_seed(0)) / 300
    weight[7] = 6  # how often token 7 occurs
    weight += 0.37  # which all shares together make a constant
    with torch.no_grad():
        model.load_state_dict(model.state_dict() | {"weight": weight, "mean": mean, "bias": (mean @ weight - 0.37)})
    x = inputs(signature, 5)
    assert not (x == 7).any()
    assert 0 < model(x).abs().max() < 1e-5
    assert_written(model, signature, tmp_path)


class KernelOfEachSample(nn.Module):
    """A convolution with as many groups as the batch has channels, which ONNX cannot say."""

    def forward(self, x: Tensor) -> Tensor:
        kernel = x[..., :2].flatten(0, 1)[:, None]
        y = nn.functional.conv1d(x.flatten(0, 1)[None], kernel, padding=1, dilation=2, groups=kernel.shape[0])
        return y.unflatten(1, (-1, 2))[0].mean(2)


def test_a_kernel_for_every_sample(tmp_path: Path) -> None:
    assert_written(KernelOfEachSample(), Signature("regression", 2, (8,), 2), tmp_path)


def test_four_lines_use_it_without_torch(tmp_path: Path) -> None:
    words = Signature("classification", 1, (5,), 2, vocabulary=9)
    tokens = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 2))
    wanted, blocked = [], "import runpy, sys; sys.modules['eclose'] = sys.modules['torch'] = None\n"
    for signature, model in ((SIGNATURE, nn.Sequential(nn.Flatten(), nn.Linear(16, 3))), (words, tokens)):
        _, use = write_onnx_program(model, signature, tmp_path / signature.kind)
        assert use.read_text().count("\n") == 4
        x = torch.zeros(signature.input_shape(2), dtype=torch.long if signature.tokens else torch.float32)
        wanted.append(model(x).detach().numpy())
        assert model.training
        blocked += f"runpy.run_path({str(use)!r}); print('next')\n"
    done = subprocess.run([sys.executable, "-c", blocked], cwd="/", capture_output=True, text=True, check=True)
    answers = [np.array(text.replace("[", "").replace("]", "").split(), float) for text in done.stdout.split("next\n")]
    for got, right in zip(answers, wanted, strict=False):
        np.testing.assert_allclose(got, right.ravel(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_extra_costs_one_line(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError) as caught:
        write_onnx_program(nn.Flatten(), SIGNATURE, tmp_path / "out")
    assert str(caught.value) == "--format onnx needs ONNX: pip install 'eclose[onnx]', or use --format pt2"
    assert not list(tmp_path.iterdir())


class Bessel(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.bessel_j0(x.mean(2))


def test_a_network_that_onnx_cannot_hold_costs_one_line(tmp_path: Path) -> None:
    with pytest.raises(EcloseError) as caught:
        write_onnx_program(Bessel(), Signature("regression", 2, (8,), 2), tmp_path / "out")
    text = str(caught.value)
    assert text.startswith("ONNX cannot hold this network (")
    assert "bessel_j0" in text
    assert text.endswith("): use --format pt2")
    assert "\n" not in text
    assert not list(tmp_path.iterdir())


def test_a_network_that_is_too_large_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_program, "_LARGEST", 100)
    with pytest.raises(EcloseError, match=r"^an ONNX file holds 2 GB, this network has 0.0 GB: use --format pt2$"):
        write_onnx_program(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), SIGNATURE, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_answers_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maximum = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 20]>
        wrong (float[batch, 2, 8] x) => (float[batch, 2] y) <int64[1] axes = {2}> {
            y = ReduceMax <keepdims = 0> (x, axes)
        }
    """)
    monkeypatch.setattr(onnx_program, "_converted", lambda program, signature: maximum.SerializeToString())
    average = nn.Sequential(nn.AvgPool1d(8), nn.Flatten())
    with pytest.raises(EcloseError, match="^onnxruntime does not compute what the network does: use --format pt2$"):
        write_onnx_program(average, Signature("regression", 2, (8,), 2), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_onnx_is_imported_only_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnx", "onnx_ir", "onnxscript", "onnxruntime"):
        monkeypatch.setitem(sys.modules, package, None)
    for path in Path(onnx_program.__file__).parent.glob("*.py"):
        runpy.run_path(str(path))
