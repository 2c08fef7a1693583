"""How long each training of a portfolio may take."""

from collections.abc import Sequence

from eclose.engine.clock import beside
from eclose.engine.portfolio.race import AGAIN, LONG, SHORT, Race
from eclose.engine.portfolio.stages import plain_networks, under_way
from eclose.engine.strategy import trainings_after
from eclose.spaces import Genotype

_EXPECTED = 6  # networks of other spaces, before it is known which


def share(race: Race) -> float:
    """Of the time that is left, what the next training may take.

    A long training counts as several short ones, and so does each that follows.
    """
    stage, left = under_way(race)
    return _of_a_short_one(race, len(left)) if stage == SHORT else _of_a_longer_one(race, stage, left)


def _of_a_short_one(race: Race, left: int) -> float:
    config, plain, begun = race.search.config, len(plain_networks(race)), len(race.of(SHORT))
    expected = min(race.room, plain + _EXPECTED * race.time_for_others)
    shorts = max(1, expected - begun if begun < plain else left)
    longs = min(expected, race.finalists(expected) + race.time_for_others) + len(race.changes(expected))
    part = 1 / (shorts + race.options.longer * (longs + max(1, _beside_final(race) + race.last)))
    # All trainings that are still to come take time besides their steps, of which this one bears its part.
    trainings = shorts + longs + max(1, trainings_after(config))
    return min(1.0, part + (1 - part * trainings) * beside(race.trials) / max(1.0, race.seconds_left))


def _of_a_longer_one(race: Race, stage: str, left: Sequence[Genotype]) -> float:
    """If the fitted model leads, less is kept for a final training: what networks need is time to overtake it."""
    last = race.last
    changes = _changes_to_come(race, left) if stage == LONG else 0
    if race.among([trial for trial in race.trials if trial.origin not in (LONG, AGAIN)]).fitted_leads:
        last = 0 if len(left) + changes == 1 and race.fitted_leads else min(1, last)
    return 1 / (max(1, len(left)) + changes + _beside_final(race) + last)


def _changes_to_come(race: Race, left: Sequence[Genotype]) -> int:
    """For how many trainings on changed samples the long ones leave time.

    For none if a fitted model leads and networks do not overfit: then they need the time themselves.
    """
    if any(network.augment for network in left):
        return 0
    leader = race.order(LONG)[:1]
    if leader and race.fitted_leads and not race.overfits(leader[0]):
        return 0
    return len(race.changes(len(race.of(SHORT))))


def _beside_final(race: Race) -> int:
    """How many trainings follow the search besides the final ones."""
    return trainings_after(race.search.config) - race.search.config.final.networks
