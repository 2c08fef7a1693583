"""How the networks of a portfolio stand: each by its longest trainings, of equals the simpler one first."""

import math
from collections.abc import Sequence
from dataclasses import replace

from eclose.runs import STAGES, Trial
from eclose.spaces import Genotype
from eclose.train.metrics import Goal

_MORE = 1 + 1e-6  # of a difference that is exactly one of chance

Network = tuple[str, str]  # its space and its name: what was asked for, whatever its training made of it


def network_of(trial: Trial) -> Network:
    """Which network was trained."""
    return trial.space, trial.name


def network_named(genotype: Genotype) -> Network:
    """As :func:`network_of` names the trial of one."""
    return genotype.space, genotype.label


def standings(
    trials: Sequence[Trial], goal: Goal, plain: str, chance: float = 0.0, fitted: Trial | None = None
) -> list[Trial]:
    """The best training of every network, the best network first; its figures are the means over its seeds.

    A network that has come to a later stage stands before all that have not, whatever a short training of theirs may
    have reached by luck. A stage counts once a network of the space ``plain`` has been through it. Of equal networks
    that with the lower validation loss is first, then a plain one, then the one with fewer weights. A network that is
    not plain leads all plain ones only if it is ahead of them by more than ``chance``. The ``fitted`` model is first if
    it is better than all that were trained longest, else it is left out: losses do not decide between equals here, as
    networks that are trained with smoothed labels are less sure of themselves.
    """
    done = [trial for trial in trials if trial.state == "done" and not math.isnan(_valid(trial))]
    counts = max((_stage(trial) for trial in done if trial.space == plain), default=len(STAGES))
    found = []
    for network in dict.fromkeys(map(network_of, done)):
        own = [trial for trial in done if network_of(trial) == network]
        level = min(counts, max(map(_stage, own)))
        judged = [trial for trial in own if min(1, level) <= _stage(trial) <= level] or own
        found.append((level, _mean(judged, goal)))
    sign = -1 if goal == "max" else 1
    found.sort(key=lambda pair: (-pair[0], sign * _valid(pair[1]), *_plainness(pair[1], plain)))
    rivals = [pair for pair in found if pair[0] == found[0][0] and pair[1].space == plain]
    if rivals and abs(_valid(found[0][1]) - _valid(rivals[0][1])) < chance * _MORE:
        found.sort(key=lambda pair: pair is not rivals[0])
    order = [trial for _, trial in found]
    if fitted is None or not order or math.isnan(_valid(fitted)):
        return order
    best = min(sign * _valid(trial) for level, trial in found if level == found[0][0])
    behind = sign * _valid(fitted) >= best or math.isclose(_valid(fitted), sign * best)  # means of seeds are rounded
    return order if behind else [fitted, *order]


def _stage(trial: Trial) -> int:
    return STAGES.index(trial.origin) if trial.origin in STAGES else 0


def _valid(trial: Trial) -> float:
    return math.nan if trial.valid is None else trial.valid


def _loss(trial: Trial) -> float:
    return math.inf if trial.valid_loss is None else trial.valid_loss


def _mean(trials: Sequence[Trial], goal: Goal) -> Trial:
    """The best of some trainings of one network, with the means of all."""
    if len(trials) == 1:
        return trials[0]
    best = (max if goal == "max" else min)(trials, key=_valid)
    losses = [trial.valid_loss for trial in trials if trial.valid_loss is not None]
    loss = sum(losses) / len(losses) if losses else None
    # Rounded: the means of equal figures in another order differ in their last bits.
    return replace(best, valid=round(sum(map(_valid, trials)) / len(trials), 12), valid_loss=loss)


def _plainness(trial: Trial, plain: str) -> tuple[float, bool, float, int]:
    size = math.inf if trial.parameters is None else trial.parameters
    return _loss(trial), trial.space != plain, size, trial.number
