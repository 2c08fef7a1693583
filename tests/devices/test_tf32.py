"""Products in TF32, which a GPU has by default, change no network by more than their rounding."""

import numpy as np
import pytest
import torch

from eclose.backbones import make_backbone
from eclose.config import Config
from eclose.engine.predictors import fit_predictors
from eclose.ops.continuous import TRUNKS, features, mesh
from eclose.ops.precision import all_digits
from eclose.signature import Signature
from eclose.tasks import load_task
from eclose.train.metrics import make_metric
from tests.backbones.test_contract import DENSE, POOLED, SMALL
from tests.devices.tf32 import TF32, rounded


@pytest.fixture(autouse=True)
def _allowed():
    """As in a run on a GPU."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


def apart(ones: torch.Tensor, others: torch.Tensor) -> float:
    return float((ones - others).detach().norm() / others.detach().norm())


def test_numbers_are_rounded_to_ten_binary_digits():
    ones = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-12, -3.0, 1 / 3])
    assert rounded(ones).tolist() == pytest.approx([1.0, 1 + 2**-10, 1.0, -3.0, 1 / 3], rel=2**-11)
    assert rounded(ones)[:4].tolist() == [1.0, 1 + 2**-10, 1.0, -3.0]


@pytest.mark.parametrize("layer", [torch.nn.Linear(30, 5), torch.nn.Conv1d(30, 5, 1)], ids=["matrix", "convolution"])
def test_products_are_rounded_unless_they_need_all_digits(layer):
    x = torch.randn(7, 30, 1) if isinstance(layer, torch.nn.Conv1d) else torch.randn(7, 30)
    exact = layer(x)
    with TF32():
        assert 1e-5 < apart(layer(x), exact) < 1e-3
        with all_digits("cpu"):
            assert torch.equal(layer(x), exact)
        assert not torch.equal(layer(x), exact)  # the switches are as they were


@pytest.mark.parametrize("kind", TRUNKS)
def test_kernels_of_long_signals_keep_their_phases(kind):
    torch.manual_seed(0)
    trunk = TRUNKS[kind](1, 16, 500.0)
    points = mesh([torch.linspace(-1, 1, 4001)])
    exact = features(trunk, points)
    with TF32():
        assert torch.equal(features(trunk, points), exact)


def steps():
    """Levels that are constant for a while, as those of a switch."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 3, (120, 1, 10)), 12, axis=2)
    return {"x": x.astype("f4"), "y": (x[:, 0, ::12] == 1).sum(1) > 3}


def curvatures():
    """Of smooth fields: large weights that cancel each other."""
    x = np.cumsum(np.cumsum(np.random.default_rng(0).normal(size=(200, 1, 64)), 2), 2).astype("f4")
    return {"x": x, "y": np.gradient(np.gradient(x, axis=2), axis=2)}


@pytest.mark.parametrize("data", [steps, curvatures])
def test_fitted_models_answer_as_they_were_fitted(data):
    task = load_task(Config().task, lambda done, total: None, data())
    x = task.val.all()[0]
    for predictor in fit_predictors(task, make_metric("accuracy" if data is steps else "mse")):
        exact = predictor.model(x)
        with TF32():
            assert torch.equal(predictor.model(x), exact)


@pytest.mark.parametrize("sees", ["all", "near"])
def test_linear_models_of_fields_keep_all_digits(sees):
    model = make_backbone("linear", Signature("dense", 2, (12, 10), 1), {"sees": sees})
    x = torch.randn(3, 2, 12, 10)
    exact = model(x)
    with TF32():
        assert torch.equal(model(x), exact)


@pytest.mark.parametrize(("name", "kind"), [*((name, "regression") for name in POOLED), *((n, "dense") for n in DENSE)])
def test_every_network(name, kind):
    torch.manual_seed(0)
    signature = Signature(kind, 2, (400,), 3)
    model = make_backbone(name, signature, SMALL.get(name, {})).eval().requires_grad_(False)
    x = torch.randn(signature.input_shape(2))
    exact = model(x)
    with TF32():
        assert apart(model(x), exact) < 4e-3
