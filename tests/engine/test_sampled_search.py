"""What random search and evolution ask for, as functions of the trial table: no trainings."""

import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pytest

from eclose.config import Config
from eclose.engine import Search, complete, strategies
from eclose.engine.evolution import Evolution
from eclose.engine.sampled_search import share_of_search
from eclose.errors import ConfigError
from eclose.runs import Trial
from eclose.spaces import Genotype, spaces
from eclose.spaces.einspace import cost_of, from_json
from eclose.spaces.einspace.grammar import Op, children
from eclose.tasks import Reading, Task, task_from_arrays
from eclose.train import generator_for
from tests.engine import widths
from tests.engine.starts import check_start


def digits_like() -> Task:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(40, 1, 8, 8)), "y": np.arange(40) % 4}
    return task_from_arrays("toy", arrays, Reading(axes=2))


TASK = digits_like()
BOTH = pytest.mark.parametrize("name", ["random", "evolution"])


class Asks(Protocol):
    def ask(self, search: Search, trials: list[Trial], generator: Any) -> Genotype | None: ...


def surroundings(name: str, trials: int, space: str = "einspace", **settings: Any) -> tuple[Search, Asks]:
    given = {"space.name": space, "strategy.name": name, "budget.trials": trials}
    changes = {key.replace("__", "."): value for key, value in settings.items()}
    config = complete(Config().with_values({**given, **changes}), TASK)
    made = spaces[space].make(config, **config.space.options)
    search = Search(made, TASK, config, made.start(TASK.signature))
    return search, strategies[name].make(**config.strategy.options)


def trial(number: int, genotype: Genotype, valid: float | None) -> Trial:
    state = "running" if valid is None else "done"
    named = (genotype.space, genotype.choices, genotype.hash)
    return Trial(number, "search", "toy", *named, number, state, valid=valid, parameters=1, flops=1)


def evaluated(search: Search, strategy: Asks, fitness: Callable[[Genotype], float], seed: int) -> list[Trial]:
    trials: list[Trial] = []
    while genotype := strategy.ask(search, trials, generator_for(seed, "ask", len(trials))):
        trials.append(trial(len(trials), genotype, fitness(genotype)))
    return trials


def occurrences(genotype: Genotype, *names: str) -> list[int]:
    """How often operations stand in a derivation."""
    counts = dict.fromkeys(names, 0)
    nodes = [from_json(genotype.choices["tree"])]
    while nodes:
        node = nodes.pop()
        nodes.extend(children(node))
        if isinstance(node, Op) and node.name in counts:
            counts[node.name] += 1
    return list(counts.values())


def convolutions(genotype: Genotype) -> float:
    """Many windows, norms and relus, in equal parts."""
    counts = occurrences(genotype, "im2col", "norm", "relu")
    return sum(counts) + 3 * min(counts)


@BOTH
def test_it_asks_as_often_as_it_may_and_never_twice_for_the_same(name: str) -> None:
    search, strategy = surroundings(name, 40)
    trials = evaluated(search, strategy, convolutions, seed=0)
    assert [t.number for t in trials] == list(range(40))
    assert len({t.hash for t in trials}) == 40
    assert len({t.genotype["digest"] for t in trials}) == 40


@BOTH
def test_it_does_not_wait_for_trials_under_way(name: str) -> None:
    search, strategy = surroundings(name, 30)
    trials = evaluated(search, strategy, convolutions, seed=2)
    waiting = [replace(t, state="running", valid=None) if t.number > 6 else t for t in trials[:20]]
    for rows in (waiting, [replace(t, state="running", valid=None) for t in waiting]):
        asked = strategy.ask(search, rows, generator_for(2, "ask", 20))
        assert asked is not None
        assert asked.hash not in {t.hash for t in rows}


def test_one_network_does_not_take_the_time_of_all() -> None:
    search, _ = surroundings("evolution", 100, budget__minutes=1.0)

    def share(elapsed: float) -> float:
        return share_of_search(search, [replace(trial(0, search.start, 0.5), elapsed=elapsed)])

    assert share_of_search(search, []) == pytest.approx(0.7 / 8)
    assert share(30.0) == pytest.approx(2 * 0.7 / 8)  # of the half that is left
    assert share(41.0) == pytest.approx((42 - 41) / 19)  # what is left of the search
    assert share(43.0) == share(61.0) == 0


def test_evolution_beats_random_search() -> None:
    best: dict[str, list[float]] = {"random": [], "evolution": []}
    for seed in range(5):
        for name, values in best.items():
            search, strategy = surroundings(name, 200, space__nodes=120)
            values.append(max(t.valid or 0.0 for t in evaluated(search, strategy, convolutions, seed)))
    assert all(a > b for a, b in zip(best["evolution"], best["random"], strict=True)), best


def test_a_second_objective_moves_the_search_to_smaller_networks() -> None:
    def later_sizes(objectives: list[str], seed: int) -> float:
        """Of networks that are the better, the more linear layers they have."""
        search, strategy = surroundings("evolution", 100, strategy__objectives=objectives, space__nodes=100)
        trials: list[Trial] = []
        while genotype := strategy.ask(search, trials, generator_for(seed, "ask", len(trials))):
            size = cost_of(from_json(genotype.choices["tree"]), TASK.signature).parameters
            trials.append(replace(trial(len(trials), genotype, *occurrences(genotype, "linear")), parameters=size))
        return statistics.median(t.parameters or 0 for t in trials[50:])

    for seed in range(3):
        assert later_sizes(["error", "parameters"], seed) < 0.5 * later_sizes(["error"], seed)


def test_a_parent_is_never_a_trial_that_failed_or_has_left() -> None:
    search, strategy = surroundings("evolution", 60, space="widths", space__widest=1000, strategy__population=4)
    good = [trial(n, widths.genotype(500 + n), 0.1 + n / 100) for n in range(4)]
    gone = [trial(n, widths.genotype(10 + n), 0.99) for n in range(4)]
    trials = [replace(t, number=n) for n, t in enumerate([*gone, *good])]
    trials[5] = replace(trials[5], state="failed", valid=None)
    for seed in range(30):
        asked = strategy.ask(search, trials, generator_for(seed, "ask", 8))
        assert asked is not None
        assert 490 < asked.choices["width"] < 510


def test_every_network_says_where_it_comes_from() -> None:
    options = {"strategy__crossover": 0.5, "strategy__population": 4, "strategy__start": "seed"}
    search, strategy = surroundings("evolution", 40, space="widths", space__widest=1000, **options)
    trials: list[Trial] = []
    origins: list[str] = []
    while genotype := strategy.ask(search, trials, generator_for(0, "ask", len(trials))):
        parents = [trials[number].genotype["width"] for number in genotype.parents]
        origins.append(genotype.origin)
        if genotype.origin == "mutated":
            assert abs(genotype.choices["width"] - parents[0]) <= 3
        elif genotype.origin == "crossed":
            assert genotype.choices["width"] == sum(parents) // 2
        trials.append(trial(len(trials), genotype, 0.5))
    assert origins[0] == "seed"
    assert set(origins[1:]) == {"mutated", "crossed"}
    search, strategy = surroundings("random", 3)
    assert {strategy.ask(search, [], generator_for(n)).origin for n in range(3)} == {"drawn"}


def test_names_can_be_said_and_tell_networks_apart() -> None:
    search, strategy = surroundings("evolution", 8)
    trials = evaluated(search, strategy, convolutions, seed=0)
    asked = [strategy.ask(search, trials[:n], generator_for(0, "ask", n)) for n in range(8)]
    names = [genotype.label for genotype in asked if genotype]
    assert names[:4] == ["resnet", "inception", "small_mixer", "small_vit"]
    for t, name in zip(trials[4:], names[4:], strict=True):
        root = t.genotype["descent"]["root"]
        assert root in names[:4]
        assert name in (f"child of {root} {t.hash[:4]}", f"descendant of {root} {t.hash[:4]}")
    assert len(set(names)) == 8
    assert widths.genotype(3).label == f"widths {widths.genotype(3).hash[:4]}"


def test_children_of_two_parents() -> None:
    options = {"strategy__crossover": 1.0, "strategy__population": 2, "strategy__tournament": 1}
    search, strategy = surroundings("evolution", 60, space="widths", space__widest=1000, **options)
    trials = [trial(0, widths.genotype(100), 0.5), trial(1, widths.genotype(200), 0.5)]
    asked = strategy.ask(search, trials, generator_for(0, "ask", 2))
    assert asked == widths.genotype(150)


@pytest.mark.parametrize(("start", "names"), [("seed", [1]), ("mix", [1, 30])])
def test_seeds_come_first_and_once_then_their_children(start: str, names: list[int]) -> None:
    search, strategy = surroundings("evolution", 12, space="widths", strategy__start=start)
    trials = evaluated(search, strategy, lambda genotype: 0.5, seed=0)
    found = [t.genotype["width"] for t in trials]
    assert found[: len(names)] == names
    assert abs(found[len(names)] - 1) <= 3 or abs(found[len(names)] - 30) <= 3
    assert len(set(found)) == len(found)


def test_every_seed_may_be_a_parent_from_the_beginning() -> None:
    """However few the trials are: the best of the seeds does not leave before it could have a child."""
    search, strategy = surroundings("evolution", 8)
    seeds = search.space.seeds(TASK.signature)
    for best in range(len(seeds)):
        trials = [trial(n, seed, 0.9 if n == best else 0.1) for n, seed in enumerate(seeds)]
        parents = [strategy.ask(search, trials, generator_for(seed)).parents for seed in range(20)]
        assert parents.count((best,)) > 10


@BOTH
def test_a_space_that_has_no_more_networks_ends_the_search(name: str) -> None:
    search, strategy = surroundings(name, 50, space="widths", space__widest=6)
    trials = evaluated(search, strategy, lambda genotype: 0.5, seed=0)
    assert sorted(t.genotype["width"] for t in trials) == [1, 2, 3, 4, 5, 6]


def test_what_follows_from_other_settings_is_written_out() -> None:
    search, _ = surroundings("evolution", 40, train__epochs=7)
    options = search.config.strategy.options
    assert (options["population"], options["tournament"]) == (10, 4)
    assert options["start"] == "mix"
    limits = search.space.limits(TASK.signature)
    for name in ("parameters", "flops", "activations"):
        assert search.config.space.options[name] == getattr(limits, name) > 0
    assert list(search.config.space.options["seeds"]) == ["resnet", "inception", "small_mixer", "small_vit"]
    again = complete(search.config, TASK)
    assert again == search.config
    paper, _ = surroundings("evolution", 40, strategy__paper=True, strategy__crossover=0.5, space__paper=True)
    options = paper.config.strategy.options
    assert [options[name] for name in ("population", "tournament", "crossover", "halving")] == [100, 10, 0.0, 0]
    assert options["start"] == "scratch"
    assert paper.config.space.options["flops"] == math.inf
    assert surroundings("random", 9)[0].config.final.networks == 1


def test_sizes() -> None:
    assert Evolution().sizes(40) == (10, 4)
    assert Evolution().sizes(1000) == (100, 10)
    assert Evolution().sizes(3) == (8, 4)  # the known networks and some children
    assert [Evolution(start="scratch").sizes(trials) for trials in (3, 40)] == [(2, 2), (10, 3)]
    assert Evolution(population=30, tournament=7).sizes(40) == (30, 7)
    paper = Evolution(paper=True, crossover=0.5)
    assert paper.sizes(40) == (100, 10)
    assert paper.crossover == 0
    assert paper.selection.halving == 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"strategy__start": "sed"}, "strategy.start is 'sed'; did you mean 'seed'?"),
        ({"strategy__crossover": 1.5}, "strategy.crossover is 1.5, but must be a probability"),
        ({"strategy__population": -1}, "strategy.population is -1, but must be at least 0"),
        ({"strategy__objectives": ["size"]}, "unknown objective 'size'"),
        ({"strategy__halving": 1}, "strategy.halving is 1"),
        ({"strategy__prefilter": -2}, "strategy.prefilter is -2, but must be at least 0"),
        ({"strategy__learn": 1.5}, "strategy.learn is 1.5, but must lie between 0"),
        ({"space__seeds": ["resnet19"]}, "unknown seed 'resnet19'; did you mean 'resnet18'?"),
        ({"space__nodes": 2}, "nodes is 2, but the smallest network has 5"),
        ({"backbone__name": "lenet"}, "the space 'einspace' makes whole networks: leave out --backbone lenet"),
    ],
)
def test_mistakes(settings: dict[str, Any], says: str) -> None:
    changes = {key.replace("__", "."): value for key, value in settings.items()}
    given = {"space.name": "einspace", "strategy.name": "evolution", **changes}
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
        check_start(complete(Config().with_values(given), TASK), TASK)


def test_learning_finds_what_good_networks_are_made_of() -> None:
    """Of networks drawn late, those of a search that learns are better."""
    late: dict[float, list[float]] = {0.0: [], 1.0: []}
    for seed in range(3):
        for learn, values in late.items():
            search, strategy = surroundings("random", 120, strategy__learn=learn, space__nodes=60)
            trials = evaluated(search, strategy, convolutions, seed)
            values.append(statistics.mean(t.valid or 0.0 for t in trials[60:]))
    assert all(b > 1.3 * a for a, b in zip(*late.values(), strict=True)), late


def test_a_space_that_cannot_learn() -> None:
    given = {"space.name": "widths", "strategy.name": "random", "strategy.learn": 0.5}
    with pytest.raises(ConfigError, match="strategy.learn: the space 'widths' has nothing to learn; leave it out"):
        check_start(complete(Config().with_values(given), TASK), TASK)
