"""What users do with a finished run: load, predict, explain, describe, report, export."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from eclose.backbones.consent import Consent, consenting
from eclose.backbones.reference import hand_in
from eclose.display import write_page, write_study
from eclose.display.notebook import Description, Explanation, Page
from eclose.engine import build_network, explained, load_network
from eclose.engine.saved_networks import SavedNetwork, saved_explanation, saved_genotype, saved_network
from eclose.errors import ConfigError, RunError, TaskError, typed
from eclose.exports import write_export
from eclose.plural import plural
from eclose.runs import Run
from eclose.signature import Signature
from eclose.spaces.xd_explanation import explain_operations
from eclose.spaces.xd_likeness import found_operations
from eclose.tasks import Layout, answers, features, input_tensor, is_table, read_arrays, read_table, target_tensor
from eclose.tasks.own_data.files import Array
from eclose.train import choose_device, usual_torch
from eclose.train import predict as outputs_of
from eclose.train.metrics import make_metric
from eclose.train.module_hooks import takes_any_sizes

Backbone = str | nn.Module | Callable[..., nn.Module]


class Predictions(dict[str, Array]):
    """Arrays by name. ``score`` is the run's metric where the true answers were at hand, else None."""

    metric: str = ""
    score: float | None = None


@usual_torch()
def load(
    run: str | Path, *, trial: int | None = None, backbone: Backbone | None = None, trust: bool = False
) -> nn.Module:
    """The found network of a run (or of an exported bundle) with its weights: a plain ``nn.Module`` in eval mode.

    With ``trial`` it is the network of that trial, if its weights were kept. A network of your own code is given
    again as ``backbone`` where the run did not begin here; ``trust`` calls whatever code its files name.
    """
    opened = Run.open(Path(run))
    with consenting(consent_of(opened, backbone, trust)):
        return _network(opened, saved_network(opened, trial))


@usual_torch()
def predict(
    run: str | Path,
    x: str | Path | Array | torch.Tensor,
    *,
    y: Array | torch.Tensor | None = None,
    trial: int | None = None,
    device: str = "auto",
    backbone: Backbone | None = None,
    trust: bool = False,
) -> Predictions:
    """What the found network, or that of a trial, says about ``x``: an array, a file with ``x`` (else ``x_test``),
    or a table.

    Classification and segmentation give ``label`` (as the training data had them) and ``probability``, the others
    ``prediction``, without the axis of outputs where there is only one; this axis is last where x has its channels
    last. With ``y``, given or in the file, the answer also has a ``score`` by the ``metric`` of the run (by mse, if
    that is a relative error and some target is zero).
    """
    opened = Run.open(Path(run))
    signature = signature_of(opened)
    layout = Layout.from_dict((opened.result or {}).get("layout"), signature)
    name, inputs, found = _inputs(x, layout)
    model = load(run, trial=trial, backbone=backbone, trust=trust)
    other = takes_any_sizes(model.get_submodule("network")) and opened.config.task.standardise != "pointwise"
    given, y = input_tensor(name, inputs, signature, layout, any_sizes=other), found if y is None else y
    signature = dataclasses.replace(signature, sizes=tuple(given.shape[-signature.axes :]))
    target = None if y is None else target_tensor(name.replace("x", "y"), y, signature, layout)
    if target is not None and len(target) != len(given):
        raise TaskError(f"x has {plural(len(given), 'sample')}, but y has {len(target)}: they must be as many")
    place = choose_device(device)
    output = outputs_of(model.to(place), given, place)
    told = _answer(output, signature, layout)
    if target is not None:
        metric = make_metric(_judge(opened.config.task.metric, target))
        meter = metric.meter()
        meter.update(output, target)
        told.metric, told.score = metric.name, meter.value()
    return told


def _judge(metric: str, target: torch.Tensor) -> str:
    """The metric of the run; as in a search, no error is relative to a target that is zero."""
    zero = metric == "relative_l2" and not target.flatten(1).any(1).all()
    return "mse" if zero else metric


def _answer(output: torch.Tensor, signature: Signature, layout: Layout) -> Predictions:
    """Outputs in the user's terms."""

    def placed(values: torch.Tensor) -> Array:
        return (values.movedim(1, -1) if layout.channels == "last" else values).numpy()

    if not signature.labels:
        return Predictions(prediction=output.squeeze(1).numpy() if signature.outputs == 1 else placed(output))
    numbers = output.argmax(1).numpy()
    labels = np.array(layout.classes)[numbers] if layout.classes else numbers
    return Predictions(label=labels, probability=placed(output.softmax(1)))


@usual_torch()
def report(run: str | Path, *, dashboard: bool = False) -> Page:
    """Write (again) the page of a run; its path, which a notebook shows as the page itself.

    With ``dashboard`` also the study for Optuna's dashboard.
    """
    opened = Run.open(Path(run))
    if dashboard:
        with opened.locked():
            write_study(opened, anew=True)
    return Page(write_page(opened))


@usual_torch()
def export(
    run: str | Path,
    to: str | Path,
    *,
    trial: int | None = None,
    format: str = "bundle",
    backbone: Backbone | None = None,
    trust: bool = False,
) -> list[Path]:
    """Write the found network (or that of a ``trial``) for use elsewhere; the files written.

    ``bundle``: JSON, TOML and safetensors that :func:`load` reads. ``pt2``: a ``torch.export`` program that runs
    without eclose, for any batch size. ``onnx`` (extra ``onnx``): an ONNX program that runs without torch, too.
    """
    if not str(to):
        raise ConfigError("the name of the folder to write into is empty")
    opened = Run.open(Path(run))
    saved = saved_network(opened, trial)
    with consenting(consent_of(opened, backbone, trust)):
        return write_export(opened, saved, _network(opened, saved), signature_of(opened), Path(to), format)


@usual_torch()
def explain(
    run: str | Path, *, trial: int | None = None, backbone: Backbone | None = None, trust: bool = False
) -> Explanation:
    """What a run found, or what the network of a trial is: sentences, pictures, a table.

    It prints as text and a notebook draws it. What the run itself says of its network is shown as it stands; else the
    network is loaded, as :func:`load` does.
    """
    opened = Run.open(Path(run))
    told = saved_explanation(opened) if trial is None else None
    if told is None:
        genotype = saved_genotype(opened, trial)
        with consenting(consent_of(opened, backbone, trust)):
            if genotype.tensors:  # what it is lies in its weights too
                network = _network(opened, saved_network(opened, trial)).get_submodule("network")
            else:
                network = build_network(opened, genotype, signature_of(opened), seed=0)
            told = explained(opened, genotype, network)
    return Explanation(told)


def describe(network: nn.Module) -> Description:
    """Every XD-operation of a network: how far it moved from its start, and the known operations nearest to it.

    A list that is printed, and that a notebook shows, as :func:`explain` shows a run.
    """
    found = found_operations(network)
    return Description(found, Explanation(explain_operations(network, found)))


def _network(run: Run, saved: SavedNetwork) -> nn.Module:
    return load_network(run, saved.genotype, signature_of(run), saved.weights, saved.seed)


def consent_of(run: Run, backbone: Backbone | None, trust: bool) -> Consent:
    """What the user agreed to when the run began here, and agrees to now."""
    code, objects, name = dict(run.agreed or {}), {}, run.config.backbone.name
    if isinstance(backbone, str) and ":" in backbone:
        code[backbone] = os.getcwd()
    elif backbone is not None and backbone != "":
        if ":" not in name or isinstance(backbone, str):
            made_with = f"with the backbone '{name}' of eclose" if name else "without a backbone"
            raise ConfigError(f"{run.path} was made {made_with}: leave backbone out")
        if name.startswith("python:"):
            code[hand_in(backbone, name)] = ""
        else:
            objects[name] = backbone
    return Consent(code, objects, trust)


def signature_of(run: Run) -> Signature:
    """The data that a finished run is for."""
    if run.result is None:
        raise RunError(f"{run.path} has not finished: `eclose resume {typed(run.path)}` first")
    return Signature.from_dict(run.result["signature"])


def _inputs(
    x: str | Path | Array | torch.Tensor, layout: Layout
) -> tuple[str, Array | torch.Tensor, Array | torch.Tensor | None]:
    """The name of the inputs, the inputs, and the true answers where the file has them."""
    if is_table(x):
        if not layout.columns:
            raise TaskError("the run did not learn from a table: give x as an array, or as .npz or .npy")
        table = read_table(x, layout.label if isinstance(next(iter(layout.classes), 0), str) else "")
        return "x", features(table, layout.columns), answers(table, layout)
    if not isinstance(x, (str, Path)):
        return "x", x, None
    arrays = read_arrays(Path(x), ("x", "x_test", "y", "y_test"))
    for part in ("", "_test"):
        if f"x{part}" in arrays:
            return f"x{part}", arrays[f"x{part}"], arrays.get(f"y{part}")
    raise ConfigError(f"{x} has no array 'x' (or 'x_test') to predict from")
