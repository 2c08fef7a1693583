"""Where the teacher of a search comes from: an earlier run, weights in a file, or a training of its own before it."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eclose.backbones.consent import consent_now, consenting
from eclose.config import Config
from eclose.engine.saved_networks import load_network, load_trial_model, saved_network
from eclose.engine.strategy import Search, is_own
from eclose.errors import ConfigError, RunError, typed
from eclose.runs import Run, Trial, write_json
from eclose.runs.files import parse_json
from eclose.signature import Signature
from eclose.spaces import ContinuousSpace, Genotype, assemble, backbone_genotype, space_of, unit_scale
from eclose.train import load_tensors
from eclose.train.memory_layout import lay_out
from eclose.train.teacher import Teacher, matched, stages

_FILE = "teacher.json"
SHARE = 0.25  # of the time left, where it is limited: for the training of a teacher


def network_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the teacher's network: ``[teacher.backbone]``."""
    own = options.get("backbone", {})
    if not isinstance(own, Mapping):
        raise ConfigError(f"teacher.backbone is {own!r}, but must be a table of options: the name is teacher.network")
    return dict(own)


def is_trained_first(config: Config) -> bool:
    """Whether the run trains a teacher of its own."""
    return bool(config.teacher.network) and not config.teacher.weights


def teacher_genotype(config: Config, signature: Signature) -> Genotype:
    """The network that ``teacher.network`` names."""
    return backbone_genotype(config.teacher.network, network_options(config.teacher.options), signature)


def teacher_search(search: Search) -> Search:
    """The surroundings of the teacher's own training."""
    settings = {name: values for name, values in search.config.teacher.options.items() if name != "backbone"}
    return replace(search, config=search.config.with_sections(settings), teacher=None)


def load_teacher(run: Run | None, search: Search, trained: Trial | None, device: torch.device) -> Teacher | None:
    """The teacher of a search on a device; None where there is none. ``trained``: the row of one of its own."""
    section, signature, own = search.config.teacher, search.task.signature, False
    if section.run:
        model, own = _of_run(Path(section.run), signature)
    elif section.weights:
        model, own = _of_file(search)
    elif run is not None and trained is not None:
        model = load_trial_model(run, trained, signature)
        own = is_own(Genotype.load(run.trial_folder(trained.number)))
    else:
        return None
    model = model.to(device)
    if not own:
        lay_out(model, search.config.train.precision, device)
    return Teacher(model, signature, section.weight)


def check_teacher(search: Search) -> None:
    """Refuse a teacher that is not there, or that has no stage in common with what it is to teach."""
    config, signature = search.config, search.task.signature
    teacher = load_teacher(None, search, None, torch.device("cpu"))
    if is_trained_first(config):
        genotype = teacher_genotype(config, signature)
        untrained = space_of(genotype, config).build(genotype, signature)
        teacher = Teacher(assemble(untrained, signature, search.task.scale), signature, config.teacher.weight)
    if teacher is not None and (network := _first(search)) is not None:
        matched(stages(assemble(network, signature, search.task.scale), signature), teacher.stages)


def _first(search: Search) -> nn.Module | None:
    """The network that the search begins with, where it begins with one."""
    space, signature = search.space, search.task.signature
    if isinstance(space, ContinuousSpace):
        return space.supernet(search.start, signature)
    return space.build(search.start, signature) if space.takes_backbone else None


def _of_run(path: Path, signature: Signature) -> tuple[nn.Module, bool]:
    """The network that an earlier run found, and whether it is the user's own code."""
    try:
        run = Run.open(path)
    except RunError as error:
        raise RunError(f"{error}; the teacher is to lie there: put it back, or begin with another --teacher") from None
    if run.result is None:
        raise RunError(f"the teacher {path} has not finished: `eclose resume {typed(path)}` first")
    theirs = Signature.from_dict(run.result["signature"])
    shapes = [(each.channels, each.sizes, each.vocabulary) for each in (signature, theirs)]
    if shapes[0] != shapes[1]:
        ours, given = (f"{channels} x {'x'.join(map(str, sizes))}" for channels, sizes, _ in shapes)
        raise ConfigError(
            f"the teacher {path} looks at inputs of {given}, but those of this task are {ours}: "
            "name a run on data of this shape"
        )
    saved, consent = saved_network(run, None), consent_now()
    with consenting(replace(consent, code={**(run.agreed or {}), **consent.code})):
        model = load_network(run, saved.genotype, theirs, saved.weights, saved.seed)
    return model, is_own(saved.genotype)


def _of_file(search: Search) -> tuple[nn.Module, bool]:
    """``teacher.network`` with ``teacher.weights``: those of the network alone, or as a run folder has them."""
    section, signature, path = search.config.teacher, search.task.signature, Path(search.config.teacher.weights)
    if path.suffix != ".safetensors":
        raise ConfigError(
            f"teacher.weights is {path}, but must be a .safetensors file: write one with "
            "safetensors.torch.save_file(network.state_dict(), 'teacher.safetensors')"
        )
    if not path.is_file():
        raise ConfigError(f"teacher.weights is {path}, but there is no such file")
    genotype, tensors = teacher_genotype(search.config, signature), load_tensors(path)
    network = space_of(genotype, search.config).build(genotype, signature)
    own = tensors.keys() == network.state_dict().keys()  # also where a part of it is called "network"
    whole = not own and any(name.startswith("network.") for name in tensors)
    scale = search.task.scale
    if whole:
        scale = unit_scale(signature, search.config.task.standardise, tensors)
    model = assemble(network, signature, scale)
    try:
        (model if whole else network).load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"teacher.weights {path} does not fit the network '{section.network}': {reason}; "
            "say which network it belongs to, and its teacher.backbone options"
        ) from None
    return model, is_own(genotype)


def remember_teacher(run: Run) -> None:
    """Note which weights the teacher of a new run has, where they come from outside."""
    if (weights := _weights(run.config)) is not None:
        write_json(run.path / _FILE, {"weights": _hash(weights)})


def check_same_teacher(run: Run) -> None:
    """Refuse to go on with another teacher than the run began with; runs of earlier versions do not know theirs."""
    path, weights = run.path / _FILE, _weights(run.config)
    if weights is None or not (path.is_file() and weights.is_file()):  # what is missing is told where it is loaded
        return
    try:
        known = parse_json(path.read_text(encoding="utf-8"))["weights"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}): restore it from a copy, or start a new run") from None
    if known != _hash(weights):
        raise RunError(f"the teacher's {weights} has changed since {run.path} began: restore it, or start a new run")


def _weights(config: Config) -> Path | None:
    """The file that the teacher's weights are read from; None where the run trains its own, or has none."""
    if config.teacher.run:
        return saved_network(Run.open(Path(config.teacher.run)), None).weights
    return Path(config.teacher.weights) if config.teacher.weights else None


def _hash(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
