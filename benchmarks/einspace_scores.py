"""Training-free scores and learned probabilities on handwritten digits: what they foretell, give and cost."""

import tempfile
from pathlib import Path
from typing import Any

import scipy.stats
import torch

from benchmarks.einspace_search import search
from benchmarks.runner import Entry
from eclose.runs import Run, Trial

TRIALS, EPOCHS, SEEDS = 40, 4, (3, 4)
GUIDES = {
    "scored only": {"strategy.prefilter": 1},
    "best of 8": {"strategy.prefilter": 8},
    "learned": {"strategy.prefilter": 1, "strategy.learn": 1.0},
    "both": {"strategy.prefilter": 8, "strategy.learn": 1.0},
}


def check(device: torch.device) -> str:
    """The correlation told is scipy's."""
    found, trials, _ = _searched(0, {"strategy.prefilter": 1}, device, trials=6, epochs=1)
    for name in ("gradient", "kernel"):
        scores = [-float("inf") if (value := trial.scores[name]) is None else value for trial in trials]
        wanted = scipy.stats.spearmanr(scipy.stats.rankdata(scores), [trial.valid for trial in trials]).statistic
        if abs(found["rank_correlation"][name] - wanted) > 1e-9:
            raise AssertionError(f"{name}: told {found['rank_correlation'][name]}, scipy finds {wanted}")
    return "rank correlations of a small search are those of scipy"


def measure(device: torch.device) -> list[str]:
    """One row a guide and seed."""
    lines = [
        "`eclose search --space einspace --task digits --strategy random --set strategy.halving=0 --seed ...",
        f"--trials {TRIALS} --epochs {EPOCHS} --set strategy.prefilter=... --set strategy.learn=...`, one thread.",
        "Accuracy on validation samples: best and mean of all trials, and its rank correlation with scores over all",
        "trials; where networks were chosen by their scores, only such as score well are compared. Seconds of scoring",
        "and of training, all trials together; milliseconds of scoring a network. The scores were designed on other",
        "seeds (0 to 2).",
        "",
        "| networks | seed | best | mean | gradient | kernel | both | scoring, s | training, s | ms a network |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return lines + [_row(name, seed, device) for seed in SEEDS for name in GUIDES]


def _row(name: str, seed: int, device: torch.device) -> str:
    found, trials, scored = _searched(seed, GUIDES[name], device, trials=TRIALS, epochs=EPOCHS)
    correlation = found["rank_correlation"]
    scoring = sum(event["seconds"] for event in scored)
    networks = sum(len(event["candidates"]) for event in scored)
    training = sum(trial.seconds or 0.0 for trial in trials)
    values = [f"{found[key]:.3f}" for key in ("best", "mean")]
    values += [f"{correlation[key]:.2f}" for key in ("gradient", "kernel", "both")]
    values += [f"{scoring:.1f}", f"{training:.0f}", f"{1000 * scoring / networks:.0f}"]
    return f"| {name} | {seed} | {' | '.join(values)} |"


def _searched(
    seed: int, guide: dict[str, Any], device: torch.device, **arguments: int
) -> tuple[dict[str, Any], list[Trial], list[dict[str, Any]]]:
    """``search`` of the result, the trials, and what was told of scoring."""
    scored: list[dict[str, Any]] = []
    settings = {"strategy.halving": 0, "final.networks": 0, **guide}

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "scored":
            scored.append(fields)

    with tempfile.TemporaryDirectory() as folder:
        given = {"strategy": "random", "seed": seed, "settings": settings, "listeners": [listen], **arguments}
        result = search(Path(folder) / "run", device, **given)
        return result.metrics["search"], Run.open(result.run).table.all(), scored


ENTRY = Entry("einspace-scores", "Scores and learned probabilities in einspace on digits", check, measure)
