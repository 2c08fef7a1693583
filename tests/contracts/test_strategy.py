"""What every strategy promises. A new strategy has a class here: its name, a space to search, one that it refuses."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from eclose.engine import Search, complete, make_strategy, strategies
from eclose.engine.strategy import Prepared, Strategy
from eclose.errors import ConfigError, Interrupted
from eclose.runs import Trial
from eclose.spaces import ContinuousSpace, Genotype, assemble, space_class, spaces
from eclose.spaces.architecture import named_architecture
from eclose.train import Training, generator_for
from tests.contracts.cases import AROUND, CONTINUOUS, Case, images, inputs, own_members, under_contract
from tests.contracts.test_step import StepContract, same, weights


def evaluated(genotype: Genotype, number: int) -> Trial:
    """The row of a training that never was: its value follows from the network."""
    told = {"origin": genotype.origin, "parents": list(genotype.parents), "seconds": 1.0, "elapsed": number + 1.0}
    named = ("search", genotype.label, genotype.space, genotype.choices, genotype.hash, number)
    return Trial(number, *named, state="done", valid=int(genotype.hash, 16) % 97 / 97, parameters=1, flops=1, **told)


class StrategyContract(StepContract):
    """A way through a space that keeps no state of its own; its step is under the contract of steps."""

    name: str  # in the registry
    space: str
    case: Case
    trials = 2
    minutes = 5.0
    refused: tuple[str, str] | None  # a space that does not fit, and how that is said; None: every space fits

    def searching(self) -> tuple[Search, Strategy]:
        """Everything made anew, as in another process."""
        settings = {**self.case.settings, "budget.trials": self.trials, "budget.minutes": self.minutes}
        search = Case(self.case.data, settings).search(space=self.space, strategy=self.name)
        return search, make_strategy(search.config)

    def prepare(self) -> Prepared:
        search, strategy = self.searching()
        genotype = strategy.ask(search, [], generator_for(0, "ask", 0))
        assert genotype is not None
        torch.manual_seed(self.around.seed)
        return strategy.prepare(search, genotype, self.around, "search")

    def rows(self) -> list[Trial]:
        """The table of a search without trainings."""
        search, strategy = self.searching()
        rows: list[Trial] = []
        while genotype := strategy.ask(search, rows, generator_for(0, "ask", len(rows))):
            rows.append(evaluated(genotype, len(rows)))
        return rows

    def test_it_asks_as_often_as_it_may(self) -> None:
        assert len(self.rows()) == self.trials

    def test_what_it_asks_for_follows_from_the_table_alone(self) -> None:
        table = self.rows()
        search, strategy = self.searching()
        for count in reversed(range(self.trials + 1)):  # whoever counts calls is found out
            before, start = copy.deepcopy(table[:count]), search.start.hash
            generators = [generator_for(0, "ask", count) for _ in range(2)]
            asked = strategy.ask(search, table[:count], generators[0])
            assert (search.start.hash, table[:count]) == (start, before)
            elsewhere, other = self.searching()
            again = other.ask(elsewhere, table[:count], generators[1])
            assert torch.equal(generators[0].get_state(), generators[1].get_state())
            if asked is None or count == self.trials:
                assert (asked, again, count) == (None, None, self.trials)
            else:
                assert again is not None
                assert asked.hash == again.hash == table[count].hash
                assert (asked.origin, list(asked.parents)) == (table[count].origin, table[count].parents)

    def test_the_next_training_has_a_share_of_the_time(self) -> None:
        table = self.rows()
        search, strategy = self.searching()
        shares = [strategy.share(search, table[:count]) for count in range(self.trials)]
        assert all(0 < share <= 1 for share in shares)
        again = [strategy.share(search, table[:count]) for count in range(self.trials)]
        assert again == shares

    def test_what_it_finds_can_be_built_and_trained_once_more(self) -> None:
        search, strategy = self.searching()
        training = self.training()
        asked = strategy.ask(search, [], generator_for(0, "ask", 0))
        assert asked is not None
        training.run()
        genotype, model = strategy.found(search, asked, training.model)
        signature = search.task.signature
        if model is not None:
            built = assemble(search.space_of(genotype).build(genotype, signature), signature, search.task.scale)
            built.load_state_dict(model.state_dict())
            x = inputs(signature)
            torch.testing.assert_close(built.eval()(x), model.eval()(x))
        final = strategy.prepare(search, genotype, self.around, "final")
        Training(final.model, final.task, final.step, final.config, self.around).run()
        assert final.model(inputs(signature)).shape == signature.output_shape(3)

    def test_a_space_that_does_not_fit_is_refused_in_one_line(self) -> None:
        if self.refused is None:
            return
        space, says = self.refused
        with pytest.raises(ConfigError, match=says) as error:
            Case(self.case.data, {}).search(space=space, strategy=self.name)
        assert "\n" not in str(error.value)

    def test_options_are_complete(self) -> None:
        search, strategy = self.searching()
        assert complete(search.config, search.task) == search.config
        assert strategy.effective(search.config).items() <= search.config.strategy.options.items()


LENET: dict[str, Any] = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}
GRAMMAR: dict[str, Any] = {"space.nodes": 30, "space.flops": 1e6, "space.seeds": ["mixer"]}


class TestTrain(StrategyContract):
    name = "train"
    space = "backbone"
    case = Case(images, LENET)
    refused = None


class TestSupernet(StrategyContract):
    name = "supernet"
    space = "discrete"
    case = Case(images, {**LENET, "strategy.warmup_epochs": 1.0})
    refused = (
        "backbone",
        "'supernet' moves an architecture, and the space 'backbone' has none: choose one that has, such as --space xd",
    )


class TestSupernetThatRestarts(TestSupernet):
    """In the middle of the training, where the contract of steps interrupts it, too."""

    case = Case(images, {**LENET, "strategy.restarts": 2, "train.ema": 0.1})
    minutes = 0.0


class TestBilevel(StrategyContract):
    name = "bilevel"
    space = "discrete"
    case = Case(images, {**LENET, "strategy.warmup_epochs": 1.0})
    refused = (
        "backbone",
        "'bilevel' moves an architecture, and the space 'backbone' has none: choose one that has, such as --space xd",
    )


class TestBilevelOfSecondOrder(TestBilevel):
    space = "xd"
    case = Case(images, {**LENET, "strategy.order": 2})


WAYS: dict[str, dict[str, Any]] = {
    "supernet": {"strategy.name": "supernet"},
    "restarts": {"strategy.name": "supernet", "strategy.restarts": 2},
    "first order": {"strategy.name": "bilevel"},
    "second order": {"strategy.name": "bilevel", "strategy.order": 2},
}


def test_every_continuous_space_is_searched_below() -> None:
    assert {name for name in own_members(spaces) if ContinuousSpace in space_class(name).__mro__} == set(CONTINUOUS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("space", CONTINUOUS)
class TestEveryWayThroughEveryContinuousSpace:
    """They are interrupted in the second epoch, where restarts are over."""

    def training(self, space: str, way: str, **around: Any) -> tuple[Search, Training]:
        case = CONTINUOUS[space]
        search = Case(case.data, {**case.settings, **WAYS[way]}).search(space=space)
        torch.manual_seed(AROUND.seed)
        ready = make_strategy(search.config).prepare(search, search.start, AROUND, "search")
        config = replace(ready.config, train=replace(ready.config.train, keep="last"))
        return search, Training(ready.model, ready.task, ready.step, config, replace(AROUND, **around), ready.phases)

    def test_it_moves_all_goes_on_after_a_kill_and_finds_a_network(self, space: str, way: str, tmp_path: Path) -> None:
        search, whole = self.training(space, way)
        before = {name: parameter.detach().clone() for name, parameter in whole.model.named_parameters()}
        whole.run()
        after = dict(whole.model.named_parameters())
        own = named_architecture(whole.model)
        moved = {name for name in after if not torch.equal(before[name], after[name])}
        assert moved & own.keys(), "some may be held at the end of their range"
        assert moved - own.keys()
        path, calls = tmp_path / "checkpoint.safetensors", iter(range(1, 100))
        with pytest.raises(Interrupted):
            self.training(space, way, checkpoint=path, stop=lambda: next(calls) == whole.steps + 1)[1].run()
        _, resumed = self.training(space, way, checkpoint=path)
        resumed.run()
        assert same(weights(resumed.model), weights(whole.model))
        genotype, model = make_strategy(search.config).found(search, search.start, whole.model)
        signature = search.task.signature
        built = assemble(search.space.build(genotype, signature), signature, search.task.scale).eval()
        if model is not None:
            built.load_state_dict(model.state_dict())
            torch.testing.assert_close(built(inputs(signature)), model.eval()(inputs(signature)))
        assert built(inputs(signature)).shape == signature.output_shape(3)


class TestRandom(StrategyContract):
    name = "random"
    space = "einspace"
    case = Case(images, GRAMMAR)
    trials = 8
    refused = (
        "xd",
        "'random' draws networks, which the space 'xd' cannot: choose a space that can, such as --space einspace",
    )


class TestRandomThatLearns(TestRandom):
    case = Case(images, {**GRAMMAR, "strategy.learn": 0.6})


class TestEvolution(StrategyContract):
    name = "evolution"
    space = "einspace"
    case = Case(images, {**GRAMMAR, "strategy.crossover": 0.5, "strategy.population": 3})
    trials = 12
    refused = ("backbone", "'evolution' draws networks, which the space 'backbone' cannot: choose a space that can")


class TestEvolutionThatLearns(TestEvolution):
    case = Case(images, {**GRAMMAR, "strategy.learn": 0.6, "strategy.population": 3})


class TestPortfolio(StrategyContract):
    name = "portfolio"
    space = "portfolio"
    case = Case(images, {**LENET, "space.spaces": ["xd"]})
    trials = 6
    refused = ("xd", "the strategy 'portfolio' cannot search the space 'xd': leave it out")


def test_every_strategy_is_under_contract() -> None:
    assert under_contract(StrategyContract) >= own_members(strategies)
