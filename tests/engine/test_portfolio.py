"""The portfolio: what follows from which trials, and one search from a file to its winner, on a clock."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import eclose
from eclose.config import Config
from eclose.engine import Search, complete, load_trial_model, make_strategy
from eclose.engine.clock import Clock, time_for_tests
from eclose.engine.driver import Driver
from eclose.engine.portfolio import AGAIN, LONG, SHORT, Portfolio, race
from eclose.engine.portfolio.race import Race
from eclose.errors import ConfigError
from eclose.events import Events
from eclose.ops.xd import XD
from eclose.runs import Run, Trial
from eclose.spaces import Genotype, backbone
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import Surroundings, World

PLAIN = ("lenet", "resnet20")


@pytest.fixture(autouse=True)
def _two_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbone, "strongest", lambda signature: list(PLAIN))
    monkeypatch.setattr(backbone, "regions", lambda signature: 1)


def arrays(count: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(count) % 2
    x = rng.normal(size=(count, 1, 12, 12)) + 3 * y[:, None, None, None]
    return {"x": x.astype(np.float32), "y": y}


TASK = task_from_arrays("toy", arrays(), Reading())


def planned(**settings: Any) -> Search:
    given = {"space.name": "portfolio", "space.spaces": ["xd"], "backbone.name": "lenet", **settings}
    return Search.of(complete(Config().with_values(given), TASK), TASK)


class Told:
    """Trials that end as they are told to, each a minute after the other."""

    def __init__(self, search: Search, **valid: float) -> None:
        self.search, self.valid = search, valid
        self.strategy = make_strategy(search.config)
        self.trials: list[Trial] = []

    def ask(self) -> Genotype | None:
        return self.strategy.ask(self.search, self.trials, torch.Generator())

    def go(self, seconds: float = 60.0, beside: float = 0.0) -> list[tuple[str, str]]:
        """Stage and name of all that is asked for; each takes some seconds ``beside`` its steps."""
        asked = []
        while (genotype := self.ask()) is not None:
            assert 0 < self.strategy.share(self.search, self.trials) < 1
            name = f"{genotype.choices['backbone']}{'_xd' * (genotype.space == 'xd')}"
            asked.append((genotype.origin, name))
            number = len(self.trials)
            named = (genotype.label, genotype.space, genotype.choices, genotype.hash)
            valid, elapsed = self.valid[name] + 0.001 * number, (seconds + beside) * (number + 1)
            trial = Trial(number, "search", *named, 0, state="done", origin=genotype.origin)
            self.trials.append(replace(trial, valid=valid, seconds=seconds, elapsed=elapsed, epochs=3))
        return asked


def test_plain_networks_then_what_is_made_of_the_best_then_longer_trainings() -> None:
    told = Told(planned(**{"budget.minutes": 7.0}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    asked = told.go()
    assert asked[:2] == [(SHORT, "lenet"), (SHORT, "resnet20")]
    assert asked[2:4] == [(SHORT, "resnet20_xd"), (SHORT, "lenet_xd")]  # of the better one first
    assert asked[4:] == [(LONG, "resnet20"), (LONG, "resnet20_xd")]  # half of few networks, the plain one first


def test_the_best_plain_network_always_takes_part() -> None:
    search = planned(**{"strategy.finalists": 1})
    told = Told(search, lenet=0.5, resnet20=0.4, resnet20_xd=0.8, lenet_xd=0.9)
    assert told.go()[4:] == [(LONG, "lenet"), (LONG, "lenet_xd")]


MIXED = "resnet20 on mixed samples"  # one answer of nine is no lead for the other


def overfitted(fit: float | None, **settings: Any) -> list[tuple[str, str]]:
    """Stage and label of long trainings, with this figure on training samples."""
    told = Told(planned(**{"budget.minutes": 7.0, **settings}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    while (genotype := told.ask()) is not None:
        number = len(told.trials)
        name = f"{genotype.choices['backbone']}{'_xd' * (genotype.space == 'xd')}"
        named = (genotype.label, genotype.space, genotype.choices, genotype.hash)
        known = {"fit": fit, "seconds": 60.0, "elapsed": 60.0 * (number + 1), "valid": told.valid[name], "epochs": 3}
        told.trials.append(Trial(number, "search", *named, 0, state="done", origin=genotype.origin, **known))
        assert bool(genotype.augment) == (" on " in genotype.label)
    return [(trial.origin, trial.name) for trial in told.trials if trial.origin != SHORT]


def test_a_leader_that_overfits_is_trained_on_changed_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "usual_changes", lambda *_, **__: [{"mix": {}}, {"crop": {}}])
    usual = [(LONG, "resnet20"), (LONG, "resnet20 with XD-operations")]
    assert overfitted(0.95) == [*usual, (LONG, MIXED)]  # of four networks: one way of changing samples
    assert overfitted(0.85) == overfitted(None) == usual  # it knows its own samples hardly better
    assert overfitted(0.95, **{"strategy.changes": False}) == usual
    for chosen in ("augment.names", "final.augment.names"):  # by the user
        assert overfitted(0.95, **{chosen: ["flip"]}) == usual


def test_long_trainings_leave_time_for_changed_samples_and_are_equally_long() -> None:
    told = Told(planned(), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go(seconds=20.0)
    short = [trial for trial in told.trials if trial.origin == SHORT]
    long = [replace(trial, fit=0.99) for trial in told.trials if trial.origin == LONG]
    shares = [told.strategy.share(told.search, [*short, *long[:number]]) for number in range(3)]
    assert shares == pytest.approx([1 / (2 + 1 + 3), 1 / (1 + 1 + 3), 1 / (1 + 3)])


def seen(trial: Trial, share: float) -> Trial:
    """The same, had it seen all samples so often."""
    whole = int(share)
    history: list[dict[str, Any]] = [{"epoch": epoch} for epoch in range(1, whole + 1)]
    history += [{"epoch": whole + 1, "seen": share - whole}] if share > whole else []
    return replace(trial, epochs=len(history), history=history)


def test_other_spaces_make_nothing_of_networks_that_did_not_see_all_samples() -> None:
    told = Told(planned(**{"budget.minutes": 7.0}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go()
    lenet, resnet = told.trials[:2]
    told.trials = [seen(lenet, 2.5), seen(resnet, 0.9)]
    assert [name for stage, name in told.go() if stage == SHORT] == ["lenet_xd"]
    told.trials = [seen(lenet, 0.5), seen(resnet, 0.9)]  # none is quicker: the best, after a narrow one
    assert [name for stage, name in told.go() if stage == SHORT] == ["resnet20", "resnet20_xd"]
    told.trials = [seen(lenet, 2.5), seen(resnet, 1.0)]
    assert [name for stage, name in told.go() if stage == SHORT] == ["resnet20_xd", "lenet_xd"]


def test_narrow_networks_take_the_places_of_others_where_the_first_one_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbone, "strongest", lambda signature: ["resnet", "inception"])
    search = planned(**{"backbone.name": "resnet", "space.spaces": ["all"], "budget.minutes": 7.0})
    told = Told(search)

    def go(share: float) -> list[tuple[str, str]]:
        told.trials = []
        while (genotype := told.ask()) is not None:
            number, named = len(told.trials), (genotype.label, genotype.space, genotype.choices, genotype.hash)
            known = {"valid": 0.5 + 0.001 * number, "seconds": 60.0, "elapsed": 60.0 * (number + 1)}
            trial = Trial(number, "search", *named, 0, state="done", origin=genotype.origin, **known)
            told.trials.append(seen(trial, share))
        return [(trial.origin, trial.name) for trial in told.trials]

    slow = [(SHORT, "resnet"), (SHORT, "narrow resnet"), (SHORT, "narrow inception")]
    assert go(0.9) == [*slow, (LONG, "narrow inception")]
    monkeypatch.setattr(backbone, "regions", lambda signature: 2)
    assert go(0.9) == [*slow, (LONG, "narrow inception")], "no time for one by regions"
    monkeypatch.setattr(backbone, "regions", lambda signature: 1)
    quick = go(1.1)
    assert quick[:3] == [(SHORT, "resnet"), (SHORT, "narrow resnet"), (SHORT, "inception")]
    assert {trial.space for trial in told.trials} > {"backbone"}
    search = planned(**{"backbone.name": "resnet", "space.spaces": ["xd"], "budget.minutes": 7.0})  # named by the user
    told = Told(search)
    assert (SHORT, "narrow inception with XD-operations") in go(0.9) or (SHORT, "resnet with XD-operations") in go(0.9)


FITTED = Trial(0, "fitted", "linear model", "backbone", {"options": {}}, "fitted", 0, state="done")


@pytest.mark.parametrize(
    ("best", "fitted", "follows"),
    [
        ("resnet", 0.4, [*"xx", "narrow resnet by regions"]),  # last of all
        ("resnet", 0.95, ["narrow resnet by regions", *"xx"]),  # the usual ones miss something
        ("narrow resnet by regions", 0.8, ["narrow resnet by regions", "resnet by regions", *"xx"]),
        ("narrow resnet by regions", 0.4, [*"xx", "narrow resnet by regions"]),
    ],
)
def test_regions_are_tried_early_where_a_fitted_model_is_ahead(
    monkeypatch: pytest.MonkeyPatch, best: str, fitted: float, follows: list[str]
) -> None:
    monkeypatch.setattr(backbone, "strongest", lambda signature: ["resnet", "inception"])
    monkeypatch.setattr(backbone, "regions", lambda signature: 2)
    told = Told(planned(**{"backbone.name": "resnet", "budget.minutes": 7.0}))
    told.trials = [replace(FITTED, valid=fitted)]
    while (genotype := told.ask()) is not None:
        number, named = len(told.trials), (genotype.label, genotype.space, genotype.choices, genotype.hash)
        known = {"valid": 0.9 if genotype.label == best else 0.5, "seconds": 60.0, "elapsed": 60.0 * number}
        told.trials.append(Trial(number, "search", *named, 0, state="done", origin=genotype.origin, epochs=3, **known))
    short = [trial.name for trial in told.trials if trial.origin == SHORT]
    assert short[:3] == ["resnet", "narrow resnet", "inception"]
    assert ["x" if name.endswith("with XD-operations") else name for name in short[3:]] == follows


def test_second_seeds_tell_what_is_chance_if_time_is_left() -> None:
    told = Told(planned(**{"strategy.finalists": 1}), lenet=0.5, resnet20=0.4, resnet20_xd=0.8, lenet_xd=0.9)
    assert told.go(seconds=10.0)[6:] == [(AGAIN, "lenet"), (AGAIN, "lenet_xd")]


def test_little_time_is_for_few_networks() -> None:
    valid = {"lenet": 0.5, "resnet20": 0.7, "resnet20_xd": 0.8, "lenet_xd": 0.6}
    assert Told(planned(**{"budget.minutes": 0.1}), **valid).go(1.0) == [(LONG, "lenet")]  # one: at length at once
    asked = Told(planned(**{"budget.minutes": 0.4}), **valid).go(4.0)
    assert asked == [(SHORT, "lenet"), (SHORT, "resnet20"), (LONG, "resnet20")]
    asked = Told(planned(**{"budget.minutes": 0.6}), **valid).go(6.0)
    assert [name for stage, name in asked if stage == SHORT] == ["lenet", "resnet20", "resnet20_xd"]


def test_spaces_that_were_named_and_have_no_place_are_told_of() -> None:
    def told(**settings: Any) -> list[str]:
        search = planned(**{"space.spaces": ["einspace", "xd"], **settings})
        return make_strategy(search.config).notices(search)

    line = "of space.spaces, {} will not be tried: the run is too short for all; give it more {}"
    assert told(**{"budget.minutes": 0.1}) == [line.format("einspace, xd", "--minutes")]
    assert told(**{"budget.minutes": 0.6}) == [line.format("xd", "--minutes")]
    assert told(**{"budget.trials": 2}) == [line.format("einspace, xd", "--trials")]
    assert told(**{"budget.minutes": 7.0}) == []
    assert told(**{"budget.minutes": 0.1, "space.spaces": ["all"]}) == []


def test_the_summary_says_who_is_ahead() -> None:
    for found, ahead, plain in ((0.8, 0.101, True), (0.9, 0.201, False)):  # of nine validation samples
        told = Told(planned(**{"budget.minutes": 7.0}), lenet=0.5, resnet20=0.7, resnet20_xd=found, lenet_xd=0.6)
        told.go()
        summary = told.strategy.summary(told.search, told.trials)
        assert summary["plain"] is plain
        assert summary["ahead"] == pytest.approx(-ahead if plain else ahead)


def test_spaces_that_time_was_too_short_for_are_in_the_result() -> None:
    told = Told(planned(**{"budget.minutes": 7.0}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go()
    assert "missed" not in told.strategy.summary(told.search, told.trials)
    assert told.strategy.summary(told.search, told.trials[:2])["missed"] == ["xd"]


def test_few_networks_take_part_where_trainings_take_long_besides_their_steps() -> None:
    valid = {"lenet": 0.5, "resnet20": 0.7, "resnet20_xd": 0.9, "lenet_xd": 0.6}
    search = planned(**{"budget.minutes": 1.0})  # time for six short trainings of four seconds
    assert [name for stage, name in Told(search, **valid).go(1.0) if stage == SHORT] == list(valid)
    slow = Told(search, **valid).go(1.0, beside=4.0)  # known after the second one: three are left of six
    assert slow[:3] == [(SHORT, "lenet"), (SHORT, "resnet20"), (SHORT, "resnet20_xd")]
    assert slow[3:5] == [(LONG, "resnet20"), (LONG, "resnet20_xd")]
    slower = Told(search, **valid).go(1.0, beside=20.0)
    assert slower == [(SHORT, "lenet"), (SHORT, "resnet20"), (LONG, "resnet20")]  # those that began count


def test_a_short_training_bears_its_part_of_what_all_take_besides_their_steps() -> None:
    told = Told(planned(**{"budget.minutes": 2.0}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go(5.0, beside=3.0)
    told.trials = told.trials[:2]
    clock = Clock(120.0, told.trials, time.perf_counter())
    limit = clock.limit(told.strategy.share(told.search, told.trials), told.trials)
    # Two more short ones, six long ones, two of them on changed samples, and the final one, which is as long as three:
    # nine trainings, 29 parts.
    assert limit == pytest.approx((0.96 * 120 - 16 - 9 * 3) / 29, rel=0.01)


def test_a_stage_waits_for_its_last_training() -> None:
    told = Told(planned(), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go()
    told.trials = [told.trials[0], replace(told.trials[1], state="running", valid=None)]
    assert told.ask() is None
    told.trials[1] = replace(told.trials[1], state="failed")
    found = told.ask()
    assert found is not None
    assert (found.space, found.choices["backbone"]) == ("xd", "lenet")  # what has failed is no start


@pytest.fixture
def numbers() -> Task:
    """Single numbers, in which a convolution of three points sees one."""
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(60, 3, 1)).astype(np.float32), "y": np.arange(60) % 2}
    return task_from_arrays("numbers", data, Reading())


def on_numbers(task: Task, *spaces: str) -> Search:
    given = {"space.name": "portfolio", "backbone.name": "cnn", "space.spaces": list(spaces)}
    return Search.of(complete(Config().with_values(given), task), task)


def test_spaces_that_can_make_nothing_of_the_data_say_so_if_they_are_named(
    numbers: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backbone, "strongest", lambda signature: ["cnn"])
    with pytest.raises(ConfigError, match=r"space.spaces: the space 'xd' has no network for this data \(nothing to re"):
        on_numbers(numbers, "xd")
    (notice,) = on_numbers(numbers, "xd", "einspace").space.notices(numbers.signature)
    assert notice.startswith("the space 'xd' has no network for this data (nothing to relax")
    nos, _ = on_numbers(numbers, "nos", "xd", "einspace").space.notices(numbers.signature)
    assert nos.endswith("(it offers a portfolio nothing here; --space nos searches it alone)")
    search = on_numbers(numbers)
    assert search.space.notices(numbers.signature) == []
    assert "xd" not in {network.space for network in search.space.offers(numbers.signature, [search.start])}


def test_a_network_that_cannot_be_relaxed_does_not_keep_others_from_it(numbers: Task) -> None:
    search = on_numbers(numbers, "xd")
    plain = search.space.offers(numbers.signature, [])
    assert [network.label for network in plain] == ["cnn", "resnet20"]
    offered = search.space.offers(numbers.signature, plain)
    assert [network.label for network in offered] == ["resnet20 with XD-operations"]


def test_a_wrong_setting_is_not_taken_for_data_that_do_not_suit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> list[Genotype]:
        raise ConfigError("space.depth is -1")

    search = planned()
    monkeypatch.setattr(search.space.others["xd"], "offers", refuse)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"space\.depth is -1"):
        search.space.offers(TASK.signature, [search.start])


def test_spaces_take_turns() -> None:
    search = planned(**{"space.spaces": ["discrete", "einspace", "xd"]})
    offered = search.space.offers(TASK.signature, search.space.offers(TASK.signature, []))
    assert [network.space for network in offered] == ["einspace", "xd", "einspace", "xd", "discrete"]


def test_a_number_of_trials_ends_it() -> None:
    told = Told(planned(**{"budget.trials": 3}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    assert len(told.go()) == 3


def test_shares_leave_time_for_the_final_training() -> None:
    told = Told(planned(), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    left, used = 1.0, []
    while (genotype := told.ask()) is not None:
        used.append(left * told.strategy.share(told.search, told.trials))
        left -= used[-1]
        number = len(told.trials)
        named = (genotype.label, genotype.space, genotype.choices, genotype.hash)
        trial = Trial(number, "search", *named, 0, state="done", origin=genotype.origin, valid=0.5)
        told.trials.append(replace(trial, elapsed=600 * (1 - left), seconds=600 * used[-1]))
    assert used[-1] > 2 * used[0]  # a long one after a short one
    assert left > 0.8 * used[-1]


def test_refused() -> None:
    for settings, says in (
        ({"space.name": "xd", "strategy.name": "portfolio"}, "'portfolio' cannot search the space 'xd': leave it out"),
        ({"space.spaces": ["xdd"]}, "space.spaces: unknown space 'xdd'; did you mean 'xd'"),
        ({"strategy.finalists": 0}, "strategy.finalists is 0, but must be at least 1"),
        ({"strategy.longer": 0.5}, "strategy.longer is 0.5, but must be at least 1"),
        ({"strategy.shortest": 0.0}, "strategy.shortest is 0.0, but must be above 0"),
    ):
        with pytest.raises(ConfigError, match=says):
            complete(Config().with_values({"space.name": "portfolio", **settings}), TASK)


def run_of(folder: Path, **given: Any) -> eclose.Result:
    few = {
        "space.spaces": ["xd"],
        "strategy.shortest": 0.3,
        "strategy.finalists": 1,
        "strategy.seeds": False,
        "strategy.fitted": False,
    }
    settings = {**few, "run.threads": 1, "train.batch": 8, **given.pop("settings", {})}
    given = {"data": arrays(), "backbone": "lenet", "minutes": 0.12, "out": folder, **given}
    return eclose.search(settings=settings, **given)


def test_a_search_without_a_space_is_a_portfolio_kept_within_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of two networks both take part, however busy the machine is.
    monkeypatch.setattr(backbone, "strongest", lambda signature: ["lenet"])
    begun = time.perf_counter()
    result = run_of(tmp_path / "run", settings={"space.spaces": ["chrysalis"]})
    spent = time.perf_counter() - begun
    assert (result.metrics["space"], result.metrics["strategy"]) == ("portfolio", "portfolio")
    assert spent < 3 * 7  # other processes may want the cores as well
    trials = Run.open(result.run).table.all()
    assert {trial.role for trial in trials} == {"search", "final"}
    assert {trial.name for trial in trials} == {"lenet", "lenet with K-operations"}
    assert all(trial.elapsed is not None and trial.allowed is not None for trial in trials)
    assert all((trial.judging or 0.0) > 0 for trial in trials)
    found = next(trial for trial in trials if trial.space == "chrysalis")
    assert (found.name, found.state, found.origin) == ("lenet with K-operations", "done", SHORT)
    network = load_trial_model(Run.open(result.run), found, TASK.signature)
    operations = [module.architecture for module in network.modules() if isinstance(module, XD)]
    assert [own.drawn for own in operations] == [True, True]
    assert not any(torch.equal(own.start[name], now) for own in operations for name, now in own.named_parameters())
    final = trials[-1]
    assert final.role == "final"
    plain = [trial.valid or 0.0 for trial in trials if trial.space == "backbone" and trial.role == "search"]
    assert (final.valid or 0.0) >= max(plain)
    table = [row["name"] for row in result.metrics["baselines"]]
    assert len(table) == len(set(table))
    assert {"lenet", "lenet with K-operations"} <= {result.metrics["name"], *table}
    assert all(row["test"] is not None for row in result.metrics["baselines"])
    assert result.model(torch.zeros(2, 1, 12, 12)).shape == (2, 2)
    assert "portfolio" in (result.run / "report.html").read_text(encoding="utf-8")


def test_an_interrupted_portfolio_goes_on(tmp_path: Path) -> None:
    ended: list[int] = []

    def trip(event: str, fields: dict[str, Any]) -> None:
        if event == "trial_end":
            ended.append(fields["trial"])
            if len(ended) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_of(tmp_path / "run", listeners=[trip], minutes=1, epochs=2)  # it ends long before
    before = Run.open(tmp_path / "run").table.all()
    result = eclose.resume(tmp_path / "run", data=arrays())
    after = Run.open(tmp_path / "run").table.all()
    assert after[: len(before)] == [
        replace(t, test=row.test, note=row.note) for t, row in zip(before, after, strict=False)
    ]
    assert max(trial.elapsed or 0.0 for trial in after) > max(trial.elapsed or 0.0 for trial in before)
    assert result.metrics["trials"] > 3


def test_a_network_of_ones_own_takes_part(tmp_path: Path) -> None:
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(300, 2)
    )
    result = run_of(tmp_path / "run", backbone=network, minutes=1, epochs=1)
    trials = Run.open(result.run).table.all()
    first, second = (trial.genotype["backbone"] for trial in trials[:2])
    assert "python:" in first
    assert trials[0].name == "your Sequential", "what people read"
    assert second in PLAIN


@pytest.mark.parametrize(("left", "skipped"), [(4.0, True), (6.0, False), (None, False)])
def test_a_final_training_much_shorter_than_its_trial_is_not_begun(left: float | None, skipped: bool) -> None:
    chosen = Trial(0, "search", "resnet", "backbone", {}, "0", 0, seconds=10.0)
    clock = Clock(0.0 if left is None else 100.0, [], time.perf_counter())
    runner = SimpleNamespace(trials=lambda: [chosen])
    driver = SimpleNamespace(clock=clock, runner=runner, world=World(), _limit=lambda role: left)
    assert Driver._without_final(driver, chosen) is skipped  # type: ignore[arg-type]
    longer = replace(chosen, seconds=25.0, allowed=10.0)  # of which a GPU took 15 to be ready
    assert Driver._without_final(driver, longer) is skipped  # type: ignore[arg-type]


def test_time_is_left_for_tests_of_the_best() -> None:
    row = Trial(0, "search", "resnet", "backbone", {}, "0", 0)
    best = [replace(row, judging=seconds) for seconds in (1.0, 3.0, 2.0, 50.0)]
    assert time_for_tests(best, TASK) == pytest.approx(2 * 3.0)  # there are as many samples as validate
    assert time_for_tests([replace(best[2], collapsed=True), *best[:2]], TASK) == pytest.approx(2 * 3.0)
    assert time_for_tests([replace(row, judging=None)], TASK) == 0  # of a past version
    assert time_for_tests(best, replace(TASK, test=None)) == 0
    assert time_for_tests([], TASK) == 0


def test_second_seeds_wait_for_the_time_of_tests() -> None:
    told = Told(planned(), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.trials = [replace(trial, judging=250.0) for trial in _trained(told)]
    assert told.ask() is None
    told.trials = [replace(trial, judging=1.0) for trial in told.trials]
    assert told.ask() is not None


def _trained(told: Told) -> list[Trial]:
    """All short and long trainings, after which there is time for more."""
    told.go(seconds=20.0)
    return [trial for trial in told.trials if trial.origin != "again"]


def test_a_final_training_has_the_time_of_three_long_ones_unless_the_linear_model_leads() -> None:
    told = Told(planned(), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go(seconds=20.0)
    short = [trial for trial in told.trials if trial.origin == SHORT]
    first = next(trial for trial in told.trials if trial.origin == LONG)

    def share(trials: list[Trial], linear: float) -> float:
        row = replace(short[0], role="fitted", origin="", valid=linear, elapsed=None)
        return told.strategy.share(told.search, [row, *trials])

    assert share(short, 0.1) == pytest.approx(1 / (2 + 1 + 3))  # two long ones, one on changed samples
    assert share([*short, first], 0.1) == pytest.approx(1 / (1 + 1 + 3))
    assert share(short, 0.9) == pytest.approx(1 / (2 + 1 + 1))
    assert share([*short, first], 0.9) == 1.0  # it leads still: all for the last network
    assert share([*short, replace(first, valid=0.95)], 0.9) == pytest.approx(1 / 3)  # as long as the first one
    overfitted = replace(first, fit=1.0)
    assert share([*short, overfitted], 0.9) == pytest.approx(1 / 3)  # changed samples may help


def test_without_test_samples_no_time_is_kept_for_a_final_training() -> None:
    told = Told(planned(), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go(seconds=20.0)
    short = [trial for trial in told.trials if trial.origin == SHORT]
    untested = replace(told.search, task=replace(told.search.task, test=None))
    assert told.strategy.share(untested, short) == pytest.approx(1 / (2 + 1))


@pytest.mark.parametrize("stage", [SHORT, LONG])
def test_networks_that_join_a_stage_later_are_trained_side_by_side(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    monkeypatch.setattr(race, "_CHANGES", (1, 1))
    monkeypatch.setattr(Race, "overfits", lambda *_: True)
    told = Told(planned(**{"budget.minutes": 7.0}), lenet=0.5, resnet20=0.7, resnet20_xd=0.8, lenet_xd=0.6)
    told.go()
    ranked = [number for number, trial in enumerate(told.trials) if trial.origin == stage]
    first, second = ranked[2:4]  # after plain networks; after those that samples as they are were enough for
    names = [told.trials[number].name for number in (first, second)]
    told.trials = [*told.trials[:first], replace(told.trials[first], state="running", valid=None, elapsed=None)]
    asked = told.ask()
    assert asked is not None
    assert (asked.origin, asked.label) == (stage, names[1])
    running = replace(told.trials[-1], number=second, name=asked.label, space=asked.space)
    told.trials.append(running)
    assert told.ask() is None  # the next stage waits for both


@pytest.mark.parametrize("space", ["xd", "dnarch", "chrysalis", "discrete"])
def test_what_was_found_is_trained_on(space: str) -> None:
    search = planned(**{"space.spaces": [space]})
    strategy, around = make_strategy(search.config), Surroundings(0, 0, torch.device("cpu"), World(), Events())
    asked = search.space.offers(TASK.signature, [search.start])[0]
    x, y = TASK.train.take(torch.arange(4))
    for role in ("search", "final"):
        prepared = strategy.prepare(search, asked, around, role)
        before = [parameter.detach().clone() for parameter in prepared.model.parameters()]
        prepared.step.set_rate(1.0, 0.0)
        assert prepared.step(x, y.long(), 4) > 0
        assert any(not torch.equal(*pair) for pair in zip(before, prepared.model.parameters(), strict=True))
        asked, model = strategy.found(search, asked, prepared.model)
        assert model is not None
        assert model(x).shape == (4, 2)


def test_when_it_is_late_only_the_best_are_tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbone, "strongest", lambda signature: ["lenet"])  # both take part on a busy machine, too
    monkeypatch.setattr(Clock, "late", lambda clock: True)
    result = run_of(tmp_path / "run", minutes=0.08, settings={"space.spaces": ["chrysalis"]})
    trained = [row for row in result.metrics["baselines"] if row["kind"] not in ("trivial", "fitted")]
    assert result.metrics["test"] is not None
    assert [row["test"] is not None for row in trained] == [True, *[False] * len(trained[1:])]
    page = (result.run / "report.html").read_text(encoding="utf-8")
    assert trained[-1]["name"] in page


def test_minutes_of_other_spaces(tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": arrays(), "minutes": 0.05, "settings": {"run.threads": 1, "train.batch": 8}}
    plain = eclose.search(space="backbone", backbone="lenet", baselines=["resnet20"], out=tmp_path / "plain", **given)
    found, baseline = Run.open(plain.run).table.all()
    assert 0.5 < (found.seconds or 0.0) < 3
    assert (found.history[-1]["rate"] < 0.1) or found.epochs == Run.open(plain.run).config.train.epochs
    assert baseline.allowed is not None
    drawn = eclose.search(space="einspace", strategy="random", out=tmp_path / "drawn", **given)
    trials = Run.open(drawn.run).table.all()
    assert len(trials) < 100
    assert trials[-2].role == "final" or "all of the time" in str([trial.note for trial in trials])
    assert (trials[-1].role, trials[-1].name) == ("baseline", "resnet (start)")


def test_plain_networks_have_their_own_words_when_they_are_explained() -> None:
    search = planned(**{"backbone.name": "resnet"})
    narrow = replace(search.start, description="narrow resnet")
    relaxed = search.space.offers(TASK.signature, [narrow])[0]
    for genotype, says in (
        (narrow, "It is narrow resnet: resnet (width "),
        (relaxed, "It is narrow resnet with XD-operations in place of "),
    ):
        own = search.space.space_of(genotype)  # type: ignore[attr-defined]
        (section, *_) = own.explain(genotype, own.build(genotype, TASK.signature))
        assert section.sentences[0].startswith(says)


def test_changed_samples_last_until_the_final_training_and_a_retraining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backbone, "strongest", lambda signature: ["lenet"])
    monkeypatch.setattr(race, "_CHANGES", (1,))
    monkeypatch.setattr(Race, "overfits", lambda *_: True)
    order = Portfolio.standing
    monkeypatch.setattr(  # it wins, whatever its figures
        Portfolio,
        "standing",
        lambda *given: sorted(order(*given), key=lambda trial: " on patched" not in trial.name),
    )
    result = run_of(tmp_path / "run", settings={"space.spaces": ["xd"], "strategy.fitted": False}, minutes=0.2)
    run = Run.open(result.run)
    *searched, final = run.table.all()
    changed = searched[-1]
    assert (changed.origin, final.role) == (LONG, "final")
    assert changed.name == final.name == result.metrics["name"]
    assert changed.name.endswith(" on patched samples")
    assert {trial.name for trial in searched} > {changed.name.removesuffix(" on patched samples"), changed.name}
    assert all((trial.fit is not None) == (trial.origin == LONG) for trial in searched)
    assert result.genotype.augment == {"patch": {}}
    assert result.metrics["explanation"][-1]["title"] == "Its samples"
    assert "on patched samples" in (result.run / "report.html").read_text(encoding="utf-8")
    network = changed.name.removesuffix(" on patched samples")
    for settings, names, name in (({}, ("patch",), changed.name), ({"augment.names": ["flip"]}, ("flip",), network)):
        out = tmp_path / f"anew {names[0]}"
        anew = eclose.retrain(result.run, data=arrays(), epochs=1, out=out, settings=settings, progress=False)
        assert Run.open(anew.run).config.augment.names == names
        assert (anew.genotype.augment, anew.metrics["name"]) == ({}, name)
