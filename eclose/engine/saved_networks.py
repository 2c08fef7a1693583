"""Networks that a run has saved, the one it found and those of its trials: as data, with their weights, in words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eclose.backbones.reference import one_line
from eclose.errors import EcloseError, RunError, typed
from eclose.runs import FIGURES, Run, Trial
from eclose.signature import Signature
from eclose.spaces import Genotype, assemble, space_of, unit_scale
from eclose.spaces.explanation import Section, sections_from
from eclose.train import load_tensors
from eclose.train.augment import told_changes


@dataclass(frozen=True)
class SavedNetwork:
    """A network as data, where its weights are, and what a bundle says of it."""

    genotype: Genotype
    weights: Path
    seed: int
    result: dict[str, Any]  # result.json, with the figures of the trial


def saved_network(run: Run, trial: int | None) -> SavedNetwork:
    """The network of a trial with its weights; without a number that which was found."""
    result = run.result or {}
    if trial is None:
        weights = run.path / "weights.safetensors"
        return SavedNetwork(saved_genotype(run, None), weights, result.get("trial_seed", 0), result)
    row, folder = _trained(run, trial), run.trial_folder(trial)
    weights = folder / "weights.safetensors"
    if not weights.exists():
        way_out = f"`eclose retrain {typed(run.path)} --trial {trial}` trains it again"
        raise RunError(f"the weights of trial {trial} were not kept: {way_out}")
    return SavedNetwork(Genotype.load(folder), weights, row.seed, _result(result, row))


def saved_explanation(run: Run) -> list[Section] | None:
    """What the run says of the network that it found; None where it says nothing, as older ones do."""
    told = (run.result or {}).get("explanation")
    if told is None:
        return None
    try:
        return sections_from(told)
    except (ValueError, RecursionError) as error:
        path = run.path / "result.json"
        raise RunError(
            f"{path} is damaged (explanation: {error}): delete it and `eclose resume {typed(run.path)}`"
        ) from None


def saved_genotype(run: Run, trial: int | None) -> Genotype:
    """The network of a trial as data, whether its weights were kept or not; without a number that which was found."""
    if trial is not None:
        return Genotype.load(run.trial_folder(_trained(run, trial).number))
    if run.result is None:
        raise RunError(f"{run.path} has not finished: `eclose resume {typed(run.path)}` first")
    return Genotype.load(run.path)


def _trained(run: Run, number: int) -> Trial:
    """The row of a trial that came to its end."""
    if not (run.path / "trials.sqlite").exists():
        raise RunError(f"{run.path} has no trials: it holds one network, leave out --trial {number}")
    rows = {row.number: row for row in run.table.all()}
    if number not in rows:
        known = f"0 to {max(rows)}" if rows else "none yet"
        raise RunError(f"{run.path} has no trial {number}, but {known}: `eclose show {typed(run.path)}` lists them")
    row = rows[number]
    if row.state == "failed":
        raise RunError(
            f"trial {number} failed ({row.reason}): choose another, `eclose show {typed(run.path)}` lists them"
        )
    if row.state != "done":
        raise RunError(f"trial {number} has not finished: `eclose resume {typed(run.path)}` first")
    return row


def _result(result: dict[str, Any], row: Trial) -> dict[str, Any]:
    """Without what the run says of other networks."""
    others = {
        "baselines",
        "finals",
        "front",
        "search",
        "network",
        "unbeaten",
        "explanation",
        *(figure.name for figure in FIGURES),
    }
    kept = {key: value for key, value in result.items() if key not in others - {"seconds"}}  # those of the whole run
    own = {key: value for key, value in row.figures().items() if key != "seconds"}
    told = {"name": row.name, "collapsed": row.collapsed, "note": row.note}
    place = {"trial": row.number, "trial_seed": row.seed, "trial_seconds": row.seconds}
    return {**kept, **own, **told, **place, "baselines": []}


def load_trial_model(run: Run, trial: Trial, signature: Signature) -> nn.Module:
    """The trained network of a trial, on the CPU."""
    folder = run.trial_folder(trial.number)
    return load_network(run, Genotype.load(folder), signature, folder / "weights.safetensors", trial.seed)


def load_network(run: Run, genotype: Genotype, signature: Signature, weights: Path, seed: int) -> nn.Module:
    """A network from its genotype and weights; needs no data."""
    tensors = load_tensors(weights)
    scale = unit_scale(signature, run.config.task.standardise, tensors)
    model = assemble(build_network(run, genotype, signature, seed), signature, scale)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{weights} does not fit the network of the run: {reason}") from None
    return model.eval()


def build_network(run: Run, genotype: Genotype, signature: Signature, seed: int) -> nn.Module:
    """The network of a genotype that a file holds, with new weights.

    It is built with the random numbers of its training, for networks that keep some outside their weights.
    """
    try:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            return space_of(genotype, run.config).build(genotype, signature)
    except EcloseError:
        raise
    except Exception as error:  # whatever a file may say
        told = f"a genotype of {run.path} does not describe a network ({one_line(error):.200})"
        raise RunError(f"{told}: restore its file") from error


def explained(run: Run, genotype: Genotype, network: nn.Module) -> list[Section]:
    """What a network of a run is, as its space says it."""
    sections = space_of(genotype, run.config).explain(genotype, network)
    return [*sections, _samples_section(genotype)] if genotype.augment else sections


def _samples_section(genotype: Genotype) -> Section:
    """How its samples were changed while it was trained."""
    told = "; ".join(
        f"{name} ({', '.join(f'{key} {value}' for key, value in options.items()) or 'as usual'})"
        for name, options in genotype.augment.items()
    )
    return Section(
        "Its samples",
        (
            f"It was trained on {told_changes(genotype.augment)} samples: {told}.",
            "On samples as they are the same network knew its training samples much better than those for validation.",
            "You change samples in other trainings with the settings `augment`.",
        ),
    )
