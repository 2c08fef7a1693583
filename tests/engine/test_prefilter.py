"""Which of several networks is trained: by their scores, whatever they do, and as the table alone decides."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import eclose
from eclose.engine.evolution import Evolution
from eclose.engine.prefilter import Prefilter, rank_correlation
from eclose.engine.scores import score
from eclose.events import Events
from eclose.runs import Run, Trial
from eclose.spaces import assemble
from eclose.train import Objective, generator_for
from eclose.train.data import training_order
from tests.engine import perils, widths
from tests.engine.test_sampled_search import surroundings

CPU = torch.device("cpu")


def prefilter(candidates: int, told: list[dict[str, Any]], space: str = "einspace", **settings: Any) -> Prefilter:
    search, strategy = surroundings("random", 30, space, **settings)
    return Prefilter(search, strategy, candidates, CPU, Events([lambda event, fields: told.append(fields)]))


def test_the_best_mean_rank_is_chosen() -> None:
    told: list[dict[str, Any]] = []
    chooser = prefilter(7, told)
    search = chooser.search
    task, config = search.task, search.config
    order = training_order(len(task.train), config.train.batch, generator_for(config.run.seed, "score"))
    x, y = task.train.take(order[0])
    for number in range(3):
        found = chooser.ask([], generator_for(number), seed=number)
        assert found is not None
        generator = generator_for(number)
        asked = [chooser.strategy.ask(search, [], generator) for _ in range(7)]
        wanted = []
        for genotype in asked:
            torch.manual_seed(number)
            network = search.space.build(genotype, task.signature)
            model = assemble(network, task.signature, task.scale)
            wanted.append(score(model, Objective.of(task, config.loss, CPU), x, y))
        assert told[number]["candidates"] == wanted
        columns = [[-np.inf if s[name] is None else s[name] for s in wanted] for name in ("gradient", "kernel")]
        best = int(np.argmax(sum(scipy.stats.rankdata(column) for column in columns)))
        assert told[number]["chosen"] == best
        assert found == (asked[best], wanted[best])


def test_the_same_network_is_scored_once() -> None:
    told: list[dict[str, Any]] = []
    assert prefilter(40, told, "widths", space__widest=2).ask([], generator_for(0), 0) is not None
    assert len(told[0]["candidates"]) == 2
    none_left = [Trial(n, "search", "", "widths", {}, widths.genotype(n + 1).hash, 0) for n in range(2)]
    assert prefilter(3, told, "widths", space__widest=2).ask(none_left, generator_for(0), 0) is None


def test_networks_that_cannot_be_scored_come_last() -> None:
    told: list[dict[str, Any]] = []
    chooser = prefilter(12, told, "widths")
    for number in range(10):
        found = chooser.ask([], generator_for(number), number)
        assert found is not None
        assert found[0].choices["width"] % 10 not in (widths.UNBUILDABLE, widths.DIVERGING, widths.TOO_LARGE)
    assert {"gradient": None, "kernel": None} in [scores for fields in told for scores in fields["candidates"]]


def test_of_networks_that_all_fail_the_first_is_tried(tmp_path: Path) -> None:
    behaviours = ("raises", "plain", "needs memory")
    settings = {"strategy.start": "mix", "space.behaviours": behaviours, "strategy.prefilter": 2, "final.networks": 0}
    given = {"task": "digits", "space": "perils", "epochs": 1, "trials": len(behaviours), "out": tmp_path / "run"}
    assert perils.Perils.name == given["space"]
    result = eclose.search(**given, settings={**settings, "task.subset": 100, "run.threads": 1})
    trials = Run.open(result.run).table.all()
    assert [trial.state for trial in trials] == ["failed", "done", "failed"]
    assert [None in trial.scores.values() for trial in trials] == [True, False, True]


def test_scoring_alone_changes_nothing(tmp_path: Path) -> None:
    """With one candidate the trials are those without scores, bit by bit; what is reported follows from the table."""
    settings = {"run.threads": 1, "task.subset": 100, "task.subset_eval": 60, "space.nodes": 30, "strategy.halving": 0}
    given = {"task": "digits", "space": "einspace", "strategy": "random", "trials": 6, "epochs": 1}
    plain = eclose.search(**given, out=tmp_path / "plain", settings=settings)
    scored = eclose.search(**given, out=tmp_path / "scored", settings={**settings, "strategy.prefilter": 1})
    ours, theirs = (Run.open(result.run).table.all() for result in (scored, plain))
    assert [(t.hash, t.valid, t.test) for t in ours] == [(t.hash, t.valid, t.test) for t in theirs]
    assert not any(trial.scores for trial in theirs)
    assert "rank_correlation" not in plain.metrics["search"]
    searched = [trial for trial in ours if trial.role == "search"]
    assert all(trial.scores for trial in searched)
    found = json.loads((scored.run / "result.json").read_text())["search"]["rank_correlation"]
    assert found == rank_correlation(searched, "max")
    assert found["trials"] == 6
    text = "Rank correlation of scores and metric, 6 trials to the end: gradient "
    assert text in (scored.run / "report.html").read_text()


@pytest.mark.parametrize("name", ["prefilter", "learn"])
def test_off_in_paper_mode(name: str) -> None:
    assert getattr(Evolution(**{name: 1}).selection, name) == 1
    assert getattr(Evolution(**{name: 1}, paper=True).selection, name) == 0
    assert getattr(Evolution().selection, name) == 0
