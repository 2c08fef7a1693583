"""The registered space: genotypes that are data, equal where networks are, within limits."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
import torch

from eclose.backbones import strongest
from eclose.config import Config
from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.spaces import Genotype, spaces
from eclose.spaces.einspace import SEEDS, Settings, cost_of, from_json, parse, to_json
from eclose.spaces.einspace.grammar import count
from eclose.spaces.einspace.normal_form import digest
from eclose.spaces.einspace.space import ROOM, EinspaceSpace
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
    costs: dict[int, tuple[float, ...]] = {}
    for size in (8, 32):
        signature = Signature("classification", 3, (size, size), 10)
        limits = space().limits(signature)
        costs[size] = limits.parameters, limits.flops, limits.activations
        seeds = [cost_of(SEEDS[name](signature), signature) for name in ("resnet", "inception")]
        assert costs[size] == tuple(ROOM * max(values) for values in zip(*seeds, strict=True))
    assert all(large > small for small, large in zip(*costs.values(), strict=True))
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


def names(genotypes: list[Genotype]) -> list[str]:
    return [genotype.choices["name"] for genotype in genotypes]


def test_seeds_are_fitted_to_the_input_unless_they_are_named() -> None:
    assert names(space().seeds(DIGITS)) == ["resnet", "inception", "small_mixer", "small_vit"]
    assert names(space().seeds(SIGNATURES[2])) == ["resnet", "inception"]  # patches give no answer at every point
    assert names(space(paper=True).seeds(DIGITS)) == ["resnet18", "wrn16_4", "vit", "mixer"]
    small = space(flops=12e6)
    assert names(small.seeds(DIGITS)) == ["inception", "small_vit"]  # what is within the limits
    assert small.start(DIGITS) == small.seeds(DIGITS)[0]
    none = space(flops=1e3)
    assert none.seeds(DIGITS) == []
    assert none.start(DIGITS).choices["name"] == "resnet"
    assert space().effective(DIGITS)["seeds"] == ("resnet", "inception", "small_mixer", "small_vit")


@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_children_of_fitted_seeds_may_be_larger(signature: Signature) -> None:
    einspace = space()
    for seed in einspace.seeds(signature):
        own = cost_of(from_json(seed.choices["tree"]), signature)
        children = [einspace.mutate(seed, signature, generator_for(number)) for number in range(30)]
        assert all(children)
        costs = [cost_of(from_json(child.choices["tree"]), signature) for child in children if child]
        assert max(cost.flops for cost in costs) > own.flops
        assert max(cost.parameters for cost in costs) > own.parameters


@pytest.mark.parametrize("signature", SIGNATURES, ids=str)
def test_what_is_offered_to_a_portfolio(signature: Signature) -> None:
    """A network that is not among the plain ones, and a child of that which is; both as light as these."""
    assert space().offers(signature, []) == []
    for plain in ("resnet", "inception"):
        known = [Genotype("backbone", {"backbone": name, "options": {}}) for name in ("unet", plain)]
        other, child = space().offers(signature, known)
        new = other.choices["name"]
        assert new not in (plain, *strongest(signature))  # whether these were quick enough to be known or not
        assert child.choices["kin"] == f"child of {plain}"
        assert [each.choices for each in space().offers(signature, known)] == [other.choices, child.choices]
        costs = [cost_of(SEEDS[name](signature), signature) for name in (plain, new)]
        for offer in (other, child):
            cost = cost_of(from_json(offer.choices["tree"]), signature)
            assert cost.flops <= max(each.flops for each in costs)
            network = space().build(offer, signature)
            x = torch.zeros(signature.input_shape(2), dtype=torch.long if signature.tokens else torch.float32)
            assert network(x).shape == signature.output_shape(2)
