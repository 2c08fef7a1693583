"""Learned probabilities: against counting by hand and closed forms, back from samples, and always consistent."""

import random
from collections import Counter
from dataclasses import replace
from math import inf

import pytest

from eclose.spaces.einspace import Settings, Tree, consistency, mutate, parse, sample
from eclose.spaces.einspace.grammar import Op, Route, Sequential, children
from eclose.spaces.einspace.sampling.learning import RADIUS, SMOOTHING, evidence, learned
from eclose.spaces.einspace.sampling.settings import MODULES, STOP, Preferences
from eclose.spaces.einspace.terminals.options import computations
from eclose.spaces.einspace.terminals.state import State, input_state
from tests.spaces.einspace.inputs import IMAGES, INPUTS, samples

COMPUTATIONS = computations()

STATE = input_state(IMAGES)
OPEN = Settings(0.5, inf, inf, inf, inf)


def nodes(tree: Tree) -> list[Tree]:
    return [tree, *(node for child in children(tree) for node in nodes(child))]


def test_evidence_by_hand() -> None:
    """A convolution and a sum: 3 x 32 x 32 (Im) has 13 options for R1, its windows (Col) 3 for R2."""
    tree = parse("seq(route(im2col(3,1,1), linear(64), col2im), branch(clone(4), relu, add))")
    found = evidence(tree, STATE, OPEN)
    assert found["M", "sequential"] == pytest.approx((1, 1 / 3 + 4 * 0.5 / 3))  # S, and four modules below it
    assert found["M", "route"] == pytest.approx((1, 1 / 3 + 4 * 0.5 / 3))
    assert found["M", "branch"] == pytest.approx((1, 1 / 3 + 4 * 0.5 / 3))
    assert found["M", STOP] == pytest.approx((2, 4 * 0.5))
    assert found["R1", Op("im2col", (3, 1, 1))] == pytest.approx((1, 1 / 13))
    assert found["R1", Op("im2col", (16, 16, 0))] == pytest.approx((0, 1 / 13))
    assert found["R2", Op("col2im")] == pytest.approx((1, 1 / 3))
    assert found["R2", Op("permute", (2, 1))] == pytest.approx((0, 1 / 3))
    assert found["C", Op("relu")] == pytest.approx((1, 2 / 13))
    assert found["C", Op("norm")] == pytest.approx((0, 2 / 13))
    assert found["B", Op("clone", (4,))] == pytest.approx((1, 1 / 12))  # 64 x 32 x 32: every split is valid
    assert found["A", Op("add")] == pytest.approx((1, 1 / 4))
    for symbol, total in {"M": 5, "B": 1, "A": 1, "R1": 1, "R2": 1, "C": 2}.items():
        both = [pair for (of, _), pair in found.items() if of == symbol]
        assert [sum(column) for column in zip(*both, strict=True)] == pytest.approx([total, total])


def test_sizes_that_are_never_drawn_teach_nothing() -> None:
    found = evidence(parse("seq(linear(196), relu)"), STATE, OPEN)
    assert ("C", Op("linear", (196,))) not in found
    assert sum(taken for (symbol, _), (taken, _) in found.items() if symbol == "C") == 1


def test_a_dirichlet_estimate_where_everything_fits() -> None:
    """Of C on an image all options fit, and nothing that follows a last operation throws it away."""
    trees = [parse(f"seq({name}, relu)") for name in ("norm", "norm", "relu", "softmax")]
    found = learned(trees, STATE, replace(OPEN, stop=1.0), strength=1.0)
    counts = Counter({Op("relu"): 5, Op("norm"): 2, Op("softmax"): 1})
    assert found.preferences is not None
    weights = [found.preferences.weight("C", op) for op in COMPUTATIONS]
    for op, weight in zip(COMPUTATIONS, weights, strict=True):
        wanted = (counts[op] + SMOOTHING) / (8 + SMOOTHING * len(COMPUTATIONS))
        assert weight / sum(weights) == pytest.approx(wanted, rel=0.15)  # up to chance in what is usual


def test_strength_lies_between_the_prior_and_the_estimate() -> None:
    trees = [parse("seq(norm, route(im2col(3,1,1), relu, col2im))")] * 5
    none, half, whole = (learned(trees, STATE, OPEN, strength) for strength in (0.0, 0.5, 1.0))
    assert none.stop == pytest.approx(OPEN.stop)
    for settings in (none, half, whole):
        assert settings.preferences is not None
    for choice, weight in whole.preferences.weights.items():
        assert none.preferences.weights[choice] == 1
        assert half.preferences.weights[choice] == pytest.approx((1 + weight) / 2)


@pytest.mark.parametrize("trees", [[], ["seq(norm, relu)"]], ids=["nothing", "weightless"])
def test_without_evidence_the_same_trees_are_drawn(trees: list[str]) -> None:
    settings = learned(map(parse, trees), STATE, Settings(), strength=0.0)
    assert settings.preferences is not None
    assert samples(IMAGES, 100, settings) == samples(IMAGES, 100, Settings())


def test_networks_drawn_from_the_prior_teach_nothing() -> None:
    """Although branches that nothing merges are missing among them."""
    settings = Settings(nodes=200)
    found = learned(samples(IMAGES, 1500, settings, seed=5), STATE, settings, strength=1.0)
    assert found.preferences is not None
    for production in (*MODULES, STOP):
        assert found.preferences.weight("M", production) == pytest.approx(1, abs=0.12)
    assert found.stop == pytest.approx(settings.stop, abs=0.03)
    for op in COMPUTATIONS:
        assert found.preferences.weight("C", op) == pytest.approx(1, abs=0.35)


def test_probabilities_are_found_again_from_samples() -> None:
    weights = {("M", "route"): 3.0, ("C", Op("relu")): 6.0, ("R1", Op("im2col", (3, 1, 1))): 4.0, ("A", Op("add")): 0.2}
    known = replace(Settings(0.6, nodes=200), preferences=Preferences(weights))
    found = learned(samples(IMAGES, 2000, known, seed=1), STATE, Settings(0.6, nodes=200), strength=1.0)
    assert found.preferences is not None
    for (symbol, option), weight in weights.items():
        others = [w for (s, o), w in found.preferences.weights.items() if s == symbol and (s, o) not in weights]
        relative = found.preferences.weight(symbol, option) / (sum(others) / len(others))
        assert relative == pytest.approx(weight, rel=0.3), (symbol, option)


def test_drawing_follows_the_weights() -> None:
    """Chi-square: every inner module is an operation, and routing modules are three times as likely as others."""
    weights = {("M", "route"): 3.0, ("C", Op("norm")): 5.0, ("C", Op("linear", (16,))): 0.5}
    settings = replace(OPEN, stop=1.0, preferences=Preferences(weights))
    trees = samples(IMAGES, 6000, settings)
    found = Counter(tree.inner for tree in trees if isinstance(tree, Route))
    total = sum(weights.get(("C", op), 1.0) for op in COMPUTATIONS)
    expected = {op: found.total() * weights.get(("C", op), 1.0) / total for op in COMPUTATIONS}
    assert sum((found[op] - times) ** 2 / times for op, times in expected.items()) < 32.9  # once in a thousand
    ratio = found.total() / sum(isinstance(tree, Sequential) for tree in trees)
    assert ratio == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_learned_samples_are_valid_and_within_the_limits(signature) -> None:
    settings = Settings(0.4, 60, 1e5, 1e7, 1e5)
    state = input_state(signature)
    guided = learned(samples(signature, 20, settings), state, settings, strength=1.0)
    rng = random.Random(0)
    for tree in samples(signature, 60, guided):
        assert evidence(tree, state, settings)  # surveys it
        mutate(tree, signature, rng, guided)


@pytest.mark.parametrize("state", [STATE, State("im", (6, 10, 14)), State("col", (12, 16))], ids=str)
def test_derivations_end_whatever_was_learned(state: State) -> None:
    """Trees of sequences and pairs of branches only, which would make more modules than they end."""
    wild = parse("seq(" * 30 + "relu" + ", branch(clone(2), seq(relu, norm), seq(norm, relu), add))" * 30)
    for stop in (0.37, 0.34, 0.6):
        settings = Settings(stop)
        guided = learned([wild] * 20, state, settings, strength=1.0)
        assert guided.preferences is not None
        found = consistency(guided.stop, state, False, guided.preferences)
        assert found.radius <= max(RADIUS, consistency(stop, state).radius) + 1e-9
        assert guided.preferences.weight("M", "sequential") > 1.2 * guided.preferences.weight("M", "route")


def test_consistency_under_preferences() -> None:
    """Literally: of weights 1 to 3 for M M, R1 M R2 and B M A, and splits by two only half as likely."""
    halves = [Op("clone", (2,)), *(Op("group", (dim, 2)) for dim in (1, 2, 3))]
    weights = {("M", name): weight for name, weight in zip(MODULES, (1.0, 2.0, 3.0), strict=True)}
    preferences = Preferences({**weights, **{("B", op): 0.5 for op in halves}})
    inner = (4 * 0.5 * 2 + 8 * 1) / (4 * 0.5 + 8)
    found = consistency(0.5, preferences=preferences)
    assert found.radius == pytest.approx(0.5 * (1 * 2 + 2 * 1 + 3 * inner) / 6)
    module = (0.5 + 0.5 * (2 * 2 + 3 * 2) / 6) / (1 - found.radius)
    assert found.length == pytest.approx((2 + 2 + 3 * inner) / 6 * module + (2 * 2 + 3 * 2) / 6)


def test_mutated_operations_follow_the_weights() -> None:
    """Of children that differ from their parent in R1 alone, most take the preferred option, not a twelfth of them."""
    tree, turned = parse("route(identity, relu, identity)"), Op("permute", (1, 3, 2))
    settings = replace(Settings(stop=1.0), preferences=Preferences({("R1", turned): 100.0}))
    drawn = [mutate(tree, IMAGES, random.Random(seed), settings) for seed in range(300)]
    before = [child.before for child in drawn if isinstance(child, Route) and child[1:] == tree[1:]]
    assert len(before) > 40
    assert before.count(turned) > 0.75 * len(before)


def test_the_same_seed_draws_the_same() -> None:
    settings = learned([sample(IMAGES, random.Random(3))], STATE, Settings(), strength=0.8)
    again = learned([sample(IMAGES, random.Random(3))], STATE, Settings(), strength=0.8)
    assert samples(IMAGES, 30, settings) == samples(IMAGES, 30, again)
    assert samples(IMAGES, 30, settings) != samples(IMAGES, 30, Settings())
