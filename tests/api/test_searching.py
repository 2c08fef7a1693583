"""The Python side: every kind of data and network a user may hand in, and what comes back."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import eclose
from eclose.errors import ConfigError, RunError
from eclose.signature import Signature
from tests.end_to_end.command import ROOT, environment, python

FAST: dict[str, Any] = {"run.threads": 1, "train.batch": 8}


def quick(tmp_path: Path, **arguments: Any) -> eclose.Result:
    settings = {**FAST, **arguments.pop("settings", {})}
    return eclose.search(out=tmp_path / "run", epochs=1, settings=settings, **{"space": "backbone", **arguments})


def sample(kind: str, axes: int, channels: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    space = (11, 6, 5)[:axes]
    x = rng.normal(size=(20, channels, *space)).astype(np.float32)
    y: np.ndarray = {
        "classification": np.arange(20) % 3,
        "regression": rng.normal(size=(20, 2)),
        "dense": np.concatenate([x.mean(1, keepdims=True)] * 2, 1),
        "segmentation": (x[:, 0] > 0).astype(np.int64),
    }[kind]
    return {"x": x, "y": y}


def test_settings_may_name_the_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", **sample("classification", 1, 1))
    result = quick(tmp_path, settings={"task.data": str(tmp_path / "mine.npz")})  # and not the default recipe's task
    assert result.metrics["task"] == "mine"


# Every kind and every dimension once.
EXPORTED = {("classification", 2), ("regression", 1), ("dense", 3), ("segmentation", 2)}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["classification", "regression", "dense", "segmentation"])
def test_every_kind_in_every_dimension(tmp_path: Path, kind: str, axes: int) -> None:
    data = sample(kind, axes, channels=2)
    result = quick(tmp_path, data=data, settings={"backbone.width": 4})
    assert result.metrics["signature"]["kind"] == kind
    output = result.model(torch.from_numpy(data["x"]))
    signature = Signature.from_dict(result.metrics["signature"])
    assert tuple(output.shape) == signature.output_shape(20)
    assert np.isfinite(result.metrics["test"])
    answer = eclose.predict(result.run, data["x"])
    assert answer.keys() == ({"label", "probability"} if signature.labels else {"prediction"})
    assert (tmp_path / "run" / "report.html").exists()
    if (kind, axes) not in EXPORTED:
        return
    program, _ = eclose.export(result.run, tmp_path / "out", format="pt2")
    exported = torch.export.load(program).module()
    torch.testing.assert_close(exported(torch.from_numpy(data["x"][:3])), output[:3], rtol=1e-3, atol=1e-4)


def test_tokens(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 9, (30, 12))
    result = quick(tmp_path, data={"x": x, "y": x[:, 0] % 2}, tokens=True)
    assert result.metrics["signature"]["vocabulary"] == 9
    assert result.model(torch.from_numpy(x)).shape == (30, 2)


def test_datasets(tmp_path: Path) -> None:
    data = sample("classification", 1, 3)
    dataset = TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))
    one = quick(tmp_path / "one", data=dataset)
    arrays = quick(tmp_path / "arrays", data=data)
    assert one.metrics["test"] == arrays.metrics["test"]
    parts = quick(tmp_path / "parts", data={"train": dataset, "val": dataset, "test": dataset})
    assert parts.metrics["about"]["samples"] == {"train": 20, "val": 20, "test": 20}


class Tiny(nn.Module):
    def __init__(self, signature: Signature) -> None:
        super().__init__()
        self.line = nn.Linear(signature.channels, signature.outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x.mean(-1))


def test_a_network_of_ones_own(tmp_path: Path) -> None:
    data = sample("classification", 1, 3)
    for number, backbone in enumerate([Tiny, f"{__name__}:Tiny"]):
        result = quick(tmp_path / str(number), data=data, backbone=backbone)
        assert result.metrics["parameters"] == 12
        assert isinstance(result.model, nn.Module)
        assert result.genotype.choices["backbone"] == f"{__name__}:Tiny", "an importable class is named, not kept"


def test_a_network_that_is_only_an_object(tmp_path: Path) -> None:
    data = sample("classification", 1, 3)
    mine = Tiny(Signature("classification", 3, (11,), 3))
    before = mine.line.weight.detach().clone()
    result = quick(tmp_path, data=data, backbone=mine)
    assert torch.equal(mine.line.weight, before), "the user's object is not trained"
    assert result.model(torch.from_numpy(data["x"])).shape == (20, 3)
    script = f"import eclose; eclose.load({str(result.run)!r})"
    done = python("-c", script, cwd=ROOT)
    assert "was handed in as a Python object; hand it in again as backbone=..." in done.stderr
    again = f"import eclose; from {__name__} import *\n"
    again += f"m = eclose.load({str(result.run)!r}, backbone=Tiny(Signature('classification', 3, (11,), 3)))\n"
    again += "print(float(m(torch.ones(1, 3, 11)).sum().detach()))"
    done = python("-c", again, cwd=ROOT)
    assert float(done.stdout) == pytest.approx(float(result.model(torch.ones(1, 3, 11)).sum().detach()), rel=1e-5)


def test_wrong_output_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    wrong = nn.Sequential(nn.Flatten(), nn.Linear(33, 7))
    with pytest.raises(ConfigError, match=r"gives \(2, 7\).*needs \(2, 3\)"):
        quick(tmp_path, data=sample("classification", 1, 3), backbone=wrong)
    assert not (tmp_path / "run").exists()


def test_a_number_in_quotes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="train.epochs is '3', but must be a whole number"):
        eclose.search(data=sample("regression", 1, 1), epochs="3", out=tmp_path / "run")  # type: ignore[arg-type]


def test_same_seed_same_numbers(tmp_path: Path) -> None:
    data = sample("dense", 2, 1)
    runs = [quick(tmp_path / str(seed), data=data, seed=seed % 2) for seed in range(3)]
    values = [run.metrics["test"] for run in runs]
    assert values[0] == values[2]
    assert values[0] != values[1]


@pytest.mark.parametrize("unusual", ["float64", "meta", "no_grad"])
def test_what_is_usual_in_torch_does_not_matter(tmp_path: Path, unusual: str) -> None:
    data = sample("classification", 1, 1)
    before = torch.get_default_dtype()
    try:
        if unusual == "float64":
            torch.set_default_dtype(torch.float64)
        with torch.device("meta") if unusual == "meta" else torch.set_grad_enabled(unusual != "no_grad"):
            result = quick(tmp_path, data=data, space="xd", backbone="cnn", settings={"backbone.width": 4})
            model = result.model
            told = eclose.predict(result.run, data["x"])
            eclose.export(result.run, tmp_path / "bundle")
            again = eclose.retrain(tmp_path / "bundle", data=data, epochs=1, out=tmp_path / "again")
            assert eclose.explain(again.run)
    finally:
        torch.set_default_dtype(before)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    output = model(torch.from_numpy(data["x"])).softmax(1)
    np.testing.assert_allclose(told["probability"], output.detach().numpy(), rtol=1e-5)


def test_no_package_or_module_has_the_name_of_a_public_function() -> None:
    inside = {path.stem for path in (ROOT / "eclose").iterdir()}
    assert not inside & {name for name in dir(eclose) if not name.startswith("__")}
    assert callable(eclose.search)
    with pytest.raises(AttributeError, match="module 'eclose' has no attribute 'serach'"):
        _ = eclose.serach


def test_only_what_is_ours_is_shown() -> None:
    assert dir(eclose) == sorted(eclose.__all__)
    assert {"architecture", "search", "relax"} < set(dir(eclose))
    assert not {"importlib", "sys", "Any", "ModuleType", "api"} & set(dir(eclose))


def test_progress_is_shown_unless_it_is_declined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = sample("classification", 1, 1)
    quick(tmp_path / "one", data=data, settings={"backbone.width": 4})
    out, err = capsys.readouterr()
    assert out == ""
    assert "inception: epoch 1 of 1" in err
    silent = quick(tmp_path / "two", data=data, settings={"backbone.width": 4}, progress=False)
    (silent.run / "result.json").unlink()
    eclose.resume(silent.run, data=data, progress=False)
    eclose.retrain(silent.run, data=data, out=tmp_path / "three", progress=False)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("handed_in", [False, True])
def test_an_interruption_says_how_to_go_on(tmp_path: Path, handed_in: bool) -> None:
    data: Any = sample("classification", 1, 3)
    if not handed_in:
        np.savez(tmp_path / "mine.npz", **data)
        data = tmp_path / "mine.npz"
    backbone: Any = Tiny(Signature("classification", 3, (11,), 3)) if handed_in else "resnet"

    def trip(event: str, fields: dict[str, Any]) -> None:
        if event == "epoch":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        eclose.search(
            data=data,
            space="backbone",
            backbone=backbone,
            epochs=9,
            out=tmp_path / "run",
            settings=FAST,
            listeners=[trip],
        )
    again = ", data=..., backbone=..." if handed_in else ""
    assert str(caught.value) == f'stopped; go on with: eclose.resume("{tmp_path / "run"}"{again})'
    given = {"data": data, "backbone": backbone} if handed_in else {}
    assert eclose.resume(tmp_path / "run", **given).metrics["epochs"] == 9


def test_bare_import_needs_nothing() -> None:
    script = "import eclose, sys; assert not {'torch', 'numpy', 'typer'} & set(sys.modules); print(eclose.__version__)"
    subprocess.run([sys.executable, "-S", "-c", script], env=environment(), cwd=ROOT, check=True)


def test_unfinished_runs_say_so(tmp_path: Path) -> None:
    result = quick(tmp_path, data=sample("classification", 1, 1))
    (result.run / "result.json").unlink()
    with pytest.raises(RunError, match="has not finished: `eclose resume"):
        eclose.load(result.run)
    with pytest.raises(RunError, match=r"where its data is, .*: hand it in again, from Python as data=\.\.\.$"):
        eclose.resume(result.run)
    again = eclose.resume(result.run, data=sample("classification", 1, 1))
    assert again.metrics["test"] == result.metrics["test"]


def test_recipes_run(tmp_path: Path) -> None:
    settings = {**FAST, "task.train": 16, "task.val": 4, "task.test": 4, "task.points": 64, "backbone.width": 8}
    result = eclose.search(recipe="default", epochs=1, out=tmp_path / "run", settings=settings)
    rows = result.metrics["baselines"]
    assert [row["name"] for row in rows if row["kind"] == "network"] == ["cnn", "fno"]
    assert result.metrics["task"] == "plucked-string"


def test_tensorboard_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    result = quick(tmp_path, data=sample("classification", 1, 1), settings={"run.tensorboard": True})
    assert list((result.run / "tensorboard").glob("events*"))


@pytest.mark.parametrize("size", [1e-25, 1e-11, 1.0, 1e12])
@pytest.mark.parametrize("kind", ["dense", "regression"])
def test_figures_do_not_depend_on_units(tmp_path: Path, kind: str, size: float) -> None:
    data = sample(kind, 1, 1)
    unit = quick(tmp_path / "unit", data=data, settings={"backbone.width": 4})
    other = quick(tmp_path / "other", data={"x": data["x"], "y": data["y"] * size}, settings={"backbone.width": 4})
    factor = size**2 if kind == "regression" else 1.0
    assert other.metrics["test"] == pytest.approx(unit.metrics["test"] * factor, rel=0.02)


class Secret(nn.Module):
    """Keeps random numbers outside its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(11, 3)
        self.order = torch.randperm(11)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x[:, 0, self.order])


def test_a_loaded_network_is_the_trained_one(tmp_path: Path) -> None:
    data = sample("classification", 1, 1)
    result = quick(tmp_path, data=data, backbone=Secret)
    answers = [eclose.predict(result.run, data["x"])["probability"] for _ in range(3)]
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_two_networks_of_one_class(tmp_path: Path) -> None:
    data = sample("classification", 1, 1)
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(11, 3), activation()) for activation in (nn.ReLU, nn.Tanh)]
    runs = [quick(tmp_path / str(i), data=data, backbone=network) for i, network in enumerate(networks)]
    assert isinstance(eclose.load(runs[0].run).get_submodule("network.2"), nn.ReLU)
    assert isinstance(eclose.load(runs[1].run).get_submodule("network.2"), nn.Tanh)


def test_other_data_is_noticed(tmp_path: Path) -> None:
    data = sample("classification", 1, 1)
    result = quick(tmp_path, data=data)
    (result.run / "result.json").unlink()
    with pytest.raises(RunError, match="has changed since the run began"):
        eclose.resume(result.run, data={"x": data["x"] + 1, "y": data["y"]})
    eclose.resume(result.run, data=data)


def test_retrain_keeps_the_network(tmp_path: Path) -> None:
    result = quick(tmp_path, data=sample("classification", 1, 1))
    for key, value in (("backbone.width", 3), ("strategy.name", "bilevel")):
        with pytest.raises(ConfigError, match=f"'{key}' cannot be set: retrain"):
            eclose.retrain(result.run, settings={key: value})
    eclose.export(result.run, tmp_path / "bundle")
    with pytest.raises(RunError, match=r"bundle does not say where .*: give it with --data FILE, or from Py"):
        eclose.retrain(tmp_path / "bundle")
    np.savez(tmp_path / "mine.npz", **sample("classification", 1, 1))
    again = eclose.retrain(tmp_path / "bundle", out=tmp_path / "again", data=tmp_path / "mine.npz", epochs=1)
    assert again.metrics["parameters"] == result.metrics["parameters"]


def test_predictions_have_their_outputs_where_the_data_has_its_channels(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 9, 8, 3)).astype(np.float32)
    result = quick(tmp_path / "dense", data={"x": x, "y": x[..., :2]})
    answer = eclose.predict(result.run, x, y=x[..., :2])
    assert answer["prediction"].shape == (20, 9, 8, 2)
    difference = np.sqrt(((answer["prediction"] - x[..., :2]) ** 2).sum((1, 2, 3)) / (x[..., :2] ** 2).sum((1, 2, 3)))
    assert answer.score == pytest.approx(float(difference.mean()), rel=1e-4)
    answer = eclose.predict(result.run, x, y=np.zeros_like(x[..., :2]))  # no error is relative to zero
    assert (answer.metric, answer.score) == ("mse", pytest.approx((answer["prediction"] ** 2).mean(), rel=1e-5))
    result = quick(tmp_path / "labels", data={"x": x, "y": (x[..., 0] > 0).astype(int)})
    answer = eclose.predict(result.run, x)
    assert answer["probability"].shape == (20, 9, 8, 2)
    assert np.array_equal(answer["probability"].argmax(-1), answer["label"])
