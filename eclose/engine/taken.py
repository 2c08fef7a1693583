"""What is taken from a run: the network that it found, or that of one of its trials."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eclose.errors import RunError, typed
from eclose.runs import FIGURES, Run, Trial
from eclose.spaces import Genotype
from eclose.spaces.explanation import Section, sections_from


@dataclass(frozen=True)
class Taken:
    """A network as data, where its weights are, and what a bundle says of it."""

    genotype: Genotype
    weights: Path
    seed: int
    result: dict[str, Any]  # result.json, with the figures of the trial


def take(run: Run, trial: int | None) -> Taken:
    """The network of a trial with its weights; without a number that which was found."""
    result = run.result or {}
    if trial is None:
        weights = run.path / "weights.safetensors"
        return Taken(network_of(run, None), weights, result.get("trial_seed", 0), result)
    row, folder = _trained(run, trial), run.trial_folder(trial)
    weights = folder / "weights.safetensors"
    if not weights.exists():
        way_out = f"`eclose retrain {typed(run.path)} --trial {trial}` trains it again"
        raise RunError(f"the weights of trial {trial} were not kept: {way_out}")
    return Taken(Genotype.load(folder), weights, row.seed, _result(result, row))


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


def network_of(run: Run, trial: int | None) -> Genotype:
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
