"""Who is ahead in a portfolio: by the longest trainings, and of equals the simpler network."""

from typing import Any

from eclose.engine.standings import standings
from eclose.runs import Trial


def trial(number: int, name: str, stage: str, valid: float | None, **more: Any) -> Trial:
    space = "xd" if "xd" in name else "backbone"
    more = {"state": "done" if valid is not None else "failed", "parameters": 100, **more}
    return Trial(number, "search", name, space, {}, f"{number}", 0, origin=stage, valid=valid, **more)


def names(*trials: Trial, goal: Any = "max") -> list[str]:
    return [found.name for found in standings(trials, goal, "backbone")]


def test_a_lucky_short_training_is_no_lead() -> None:
    trials = [trial(0, "net", "short", 0.95), trial(1, "xd", "short", 0.9), trial(2, "tiny", "short", 0.99)]
    trials += [trial(3, "net", "long", 0.91), trial(4, "xd", "long", 0.92)]
    found = standings(trials, "max", "backbone")
    assert [(each.name, each.number, each.valid) for each in found] == [
        ("xd", 4, 0.92),
        ("net", 3, 0.91),
        ("tiny", 2, 0.99),  # it was not among those that were trained at length
    ]


def test_seeds_are_judged_together() -> None:
    trials = [trial(0, "net", "long", 0.90), trial(1, "xd", "long", 0.94), trial(2, "other", "long", 0.93)]
    trials += [trial(3, "net", "again", 0.92), trial(4, "xd", "again", 0.86)]
    found = standings(trials, "max", "backbone")
    assert [(each.name, each.number, each.valid) for each in found] == [
        ("net", 3, 0.91),
        ("xd", 1, 0.90),
        ("other", 2, 0.93),
    ]


def test_a_stage_counts_once_the_plain_network_has_been_through_it() -> None:
    trials = [trial(0, "net", "short", 0.9), trial(1, "xd", "short", 0.8), trial(2, "xd", "long", 0.85)]
    assert names(*trials) == ["net", "xd"]
    assert names(*trials, trial(3, "net", "long", None)) == ["net", "xd"]
    assert names(*trials, trial(3, "net", "long", 0.84)) == ["xd", "net"]
    assert names(trial(0, "xd", "short", 0.8), trial(1, "xd", "long", 0.7)) == ["xd"]


def test_of_equals_the_simpler_one() -> None:
    assert names(trial(0, "xd", "long", 0.9), trial(1, "net", "long", 0.9)) == ["net", "xd"]
    assert names(trial(0, "net", "long", 0.9, parameters=9), trial(1, "small", "long", 0.9, parameters=8))[0] == "small"
    assert names(trial(0, "net", "long", 0.2), trial(1, "xd", "long", 0.1), goal="min") == ["xd", "net"]


def test_a_found_network_leads_by_more_than_chance() -> None:
    trials = [trial(0, "net", "long", 0.9), trial(1, "xd", "long", 0.91), trial(2, "xd 2", "long", 0.908)]
    assert [found.name for found in standings(trials, "max", "backbone", 0.01)] == ["net", "xd", "xd 2"]
    assert [found.name for found in standings(trials, "max", "backbone", 0.009)] == ["xd", "xd 2", "net"]
    trials += [trial(3, "other", "long", 0.92)]
    assert standings(trials, "max", "backbone", 0.01)[0].name == "other"  # plain ones among themselves


def test_of_equals_the_surer_one() -> None:
    trials = [trial(0, "net", "long", 0.9, valid_loss=0.4), trial(1, "xd", "long", 0.9, valid_loss=0.3)]
    assert names(*trials) == ["xd", "net"]
    assert names(*trials, trial(2, "last", "long", 0.9, valid_loss=0.3)) == ["last", "xd", "net"]
