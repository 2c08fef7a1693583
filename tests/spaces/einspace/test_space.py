"""The registered space: genotypes that are data, equal where networks are, within limits."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import Genotype, spaces
from eclose.spaces.einspace import Settings, cost_of, from_json, parse, to_json
from eclose.spaces.einspace.grammar import count
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.space import ACTIVATIONS, FLOPS, EinspaceSpace
from eclose.train import generator_for

DIGITS = Signature("classification", 1, (8, 8), 10)
SIGNATURES = [
    DIGITS,
    Signature("regression", 3, (16,), 2),
    Signature("dense", 2, (5, 7), 1),
    Signature("classification", 1, (12,), 3, vocabulary=9),
]


def space(**options: Any) -> EinspaceSpace:
    made: EinspaceSpace = spaces["einspace"].make(Config(), **spaces["einspace"].complete(options, "space"))
    return made


def written(text: str) -> Genotype:
    tree = parse(text)
    return Genotype("einspace", {"tree": to_json(tree), "digest": digest(tree)})


@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_what_is_drawn_can_be_read_as_text(signature: Signature) -> None:
    einspace = space()
    genotype = einspace.sample(signature, generator_for(0))
    for number in range(12):
        assert to_json(parse(einspace.text(genotype))) == genotype.choices["tree"]
        genotype = einspace.mutate(genotype, signature, generator_for(number)) or genotype


def test_derivations_of_the_same_network_are_equal_genotypes() -> None:
    nested = written("seq(seq(norm, relu), linear(16))")
    other = written("seq(norm, seq(identity, seq(relu, linear(16))))")
    assert nested.choices["tree"] != other.choices["tree"]
    assert nested == other
    assert nested != written("seq(relu, seq(norm, linear(16)))")


def test_children() -> None:
    einspace = space()
    first, second = (einspace.sample(DIGITS, generator_for(seed)) for seed in (10, 11))
    child = einspace.mutate(first, DIGITS, generator_for(0))
    assert child is not None
    assert child != first
    crossed = [einspace.crossover(first, second, DIGITS, generator_for(seed)) for seed in range(5)]
    assert all(made is None or made not in (first, second) for made in crossed)
    alone = written("seq(identity, identity)")
    assert einspace.crossover(alone, alone, DIGITS, generator_for(0)) is None


def test_limits() -> None:
    small = space(nodes=30, parameters=5000.0, flops=1e5, activations=4000.0)
    for seed in range(50):
        tree = from_json(small.sample(DIGITS, generator_for(seed)).choices["tree"])
        cost = cost_of(tree, DIGITS)
        assert count(tree).nodes <= 30
        assert cost.parameters <= 5000
        assert cost.flops <= 1e5
        assert cost.activations <= 4000


def test_limits_follow_from_the_size_of_the_input() -> None:
    limits = space().limits(Signature("classification", 3, (5, 7), 10))
    assert (limits.flops, limits.activations) == (105 * FLOPS, 105 * ACTIVATIONS)
    assert space(flops=7.0).limits(DIGITS).flops == 7
    paper = space(paper=True).limits(DIGITS)
    assert paper == Settings.paper()
    assert paper.flops == inf


def test_networks_have_parameters() -> None:
    """Where only the head can learn there is nothing to compare; the paper draws such networks, too."""

    def parameters(genotype: Genotype | None) -> int:
        return cost_of(from_json(genotype.choices["tree"]), DIGITS).parameters if genotype else 1

    drawn = [space().sample(DIGITS, generator_for(seed)) for seed in range(100)]
    assert all(parameters(genotype) for genotype in drawn)
    norms, relus = written("seq(norm, relu)"), written("seq(relu, softmax)")
    children = [space().mutate(norms, DIGITS, generator_for(seed)) for seed in range(100)]
    crossed = [space().crossover(norms, relus, DIGITS, generator_for(seed)) for seed in range(30)]
    assert all(parameters(genotype) for genotype in children + crossed)
    papers = [space(paper=True).sample(DIGITS, generator_for(seed)) for seed in range(30)]
    assert not all(parameters(genotype) for genotype in papers)


def test_limits_that_no_network_meets() -> None:
    with pytest.raises(ConfigError, match=r"none of 100 networks drawn within the limits has a parameter: raise space"):
        space(parameters=1.0).sample(DIGITS, generator_for(0))


def test_a_genotype_without_a_tree_is_refused() -> None:
    with pytest.raises(ConfigError, match="'None' is no module"):
        space().build(Genotype("einspace", {}), DIGITS)


def test_extras() -> None:
    tokens = SIGNATURES[-1]
    assert space().settings.extras == ()
    einspace = space(extras=["recurrent", "statespace"], paper=True)
    assert einspace.limits(tokens) == replace(Settings.paper(), extras=("recurrent", "statespace"))
    drawn = [space(extras=("recurrent",)).sample(tokens, generator_for(seed)) for seed in range(40)]
    assert any("gru" in str(genotype.choices) for genotype in drawn)


def test_seeds() -> None:
    einspace = space(seeds=("vit", "resnet18"))
    vit, resnet = einspace.seeds(DIGITS)
    assert einspace.start(DIGITS) == vit
    assert sum(p.numel() for p in einspace.build(resnet, DIGITS).parameters()) == pytest.approx(11.2e6, rel=0.01)
