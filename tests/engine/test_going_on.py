"""Trainings of a portfolio that begin with what an earlier one of the same network has learned."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from eclose.engine import make_strategy, runner
from eclose.engine.portfolio import AGAIN, LONG, SHORT
from eclose.engine.runner import begin_with
from eclose.runs import Run, Trial
from eclose.train import load_tensors
from tests.engine.test_portfolio import _two_networks, planned, run_of  # noqa: F401

SEARCH = planned(**{"budget.minutes": 7.0})
STRATEGY = make_strategy(SEARCH.config)


def trial(number: int, origin: str, **fields: object) -> Trial:
    network = SEARCH.space.start(SEARCH.task.signature)
    named = (network.label, network.space, network.choices, network.hash)
    return Trial(number, "search", *named, 0, **{"state": "done", "origin": origin, "valid": 0.8, **fields})


def weights(run: Path, trial: Trial) -> dict[str, torch.Tensor]:
    tensors = load_tensors(run / "trials" / str(trial.number) / "weights.safetensors")
    return {name: value for name, value in tensors.items() if value.ndim > 1}


def near(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two trainings began alike: weights that were drawn anew have nothing in common."""
    if {name: value.shape for name, value in one.items()} != {name: value.shape for name, value in other.items()}:
        return False
    ours, theirs = (torch.cat([weights[name].flatten() for name in one]) for weights in (one, other))
    return bool(torch.cosine_similarity(ours, theirs, dim=0) > 0.5)


def test_weights_are_those_of_the_earlier_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "is_constant", lambda *_: False)  # as networks that hardly move are
    monkeypatch.setattr(runner.TrialRunner, "_forget", lambda _: None)  # weights of short trainings are to be seen
    still = {"optimiser.name": "sgd", "optimiser.learning_rate": 1e-4}  # weights stay near those that they begin with
    result = run_of(tmp_path / "run", minutes=0.2, settings=still)
    trials = Run.open(result.run).table.all()
    by = {(trial.origin, trial.name): trial for trial in trials if trial.role == "search"}
    longer = [trial for trial in trials if trial.origin == LONG]
    assert longer
    for row in longer:
        short = by[SHORT, row.name]
        assert row.goes_on == short.number
        assert row.seed != short.seed
        assert near(weights(result.run, row), weights(result.run, short))
    (final,) = (trial for trial in trials if trial.role == "final")
    chosen = by[LONG, final.name]
    assert final.goes_on == chosen.number
    assert near(weights(result.run, final), weights(result.run, chosen))
    assert all(trial.goes_on is None for trial in trials if trial.origin == SHORT)
    parts = (by[SHORT, final.name], chosen, final)
    assert result.metrics["trial_seconds"] == pytest.approx(sum(part.seconds or 0.0 for part in parts))
    assert result.metrics["epochs"] == sum(part.epochs or 0 for part in parts)


def test_weights_of_another_network_are_not_taken() -> None:
    """What masks have left of a supernet does not fit the whole of it."""
    whole, same, smaller = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(3, 2)
    before = whole.weight.detach().clone()
    assert not begin_with(smaller.state_dict(), whole)
    assert not begin_with(nn.Sequential(same).state_dict(), whole)
    assert torch.equal(whole.weight, before)
    assert begin_with(same.state_dict(), whole)
    assert torch.equal(whole.weight, same.weight)


def test_second_seeds_changed_samples_and_what_answers_a_constant_begin_anew() -> None:
    asked = SEARCH.space.start(SEARCH.task.signature)
    short, long = trial(0, SHORT), trial(1, LONG)

    def begun(origin: str, *trials: Trial) -> int | None:
        network = asked.on_changed_samples({"flip": {}}) if origin == "changed" else asked
        before = STRATEGY.goes_on(SEARCH, trials, replace(network, origin=LONG if origin == "changed" else origin))
        return before.number if before else None

    assert begun(LONG, short) == 0
    assert begun(SHORT) is None
    assert begun(AGAIN, short, long) is None
    assert begun("changed", short, long) is None
    assert begun(LONG, trial(0, SHORT, collapsed=True)) is None
    assert begun(LONG, trial(0, SHORT, state="failed")) is None


def test_a_final_training_goes_on_unless_nothing_was_learned() -> None:
    assert STRATEGY.goes_on_in_the_end(SEARCH, trial(3, LONG))
    assert not STRATEGY.goes_on_in_the_end(SEARCH, trial(3, LONG, collapsed=True))
