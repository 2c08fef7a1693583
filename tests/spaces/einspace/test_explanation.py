"""What was found is told in sentences, a table and a graph that agree with the network."""

import json
from collections import Counter
from typing import Any

import pytest
from torch import nn

from eclose.config import Config
from eclose.signature import Signature
from eclose.spaces import Genotype, spaces
from eclose.spaces.einspace import SEEDS, digest, from_json, parse, to_json
from eclose.spaces.einspace.descent import Descent, operations
from eclose.spaces.einspace.diagram import graph
from eclose.spaces.einspace.normal_form import chain
from eclose.spaces.einspace.space import EinspaceSpace
from eclose.spaces.explanation import Drawing
from eclose.train import generator_for
from tests.spaces.einspace.inputs import INPUTS, samples

IMAGES = Signature("classification", 3, (16, 16), 10)
BLOCK = "branch(clone(2), seq(route(im2col(3,1,1), linear(3), col2im), seq(norm, relu)), identity, add)"


def space(**options: Any) -> EinspaceSpace:
    made: EinspaceSpace = spaces["einspace"].make(Config(), **spaces["einspace"].complete(options, "space"))
    return made


def written(text: str) -> Genotype:
    tree = parse(text)
    return Genotype("einspace", {"tree": to_json(tree), "digest": digest(tree)})


def test_a_network_without_a_past() -> None:
    genotype = written(f"seq({BLOCK}, branch(clone(4), linear(8), concat(3)))")
    network = space().build(genotype, IMAGES)
    (section,) = space().explain(genotype, network)
    parameters = sum(p.numel() for p in network.parameters())
    assert section.sentences == (
        f"The network has 9 steps, 6 of them on its longest path, and {parameters:,} parameters.",
        "Its derivation has 6 modules (3 one after the other, 2 branches, 1 routed), nested 4 deep.",
    )
    assert section.table is not None
    assert dict(section.table.rows) == {
        "linear layer": 4,
        "branches, then concatenation": 1,
        "branches, then sum": 1,
        "convolution": 1,
        "leaky ReLU": 1,
        "norm": 1,
    }
    assert section.table.rows[0] == ("linear layer", 4), "the most frequent first"
    assert json.loads(json.dumps(section.as_dict()))["drawing"]["nodes"][0]["label"] == "input"


def test_a_seed_and_its_descendants() -> None:
    einspace = space(seeds=("resnet18",))
    seed = einspace.start(IMAGES)
    told = einspace.explain(seed, nn.Identity())[1].sentences
    assert told == ("It is resnet18, a known network that the search began with.",)
    child = einspace.mutate(seed, IMAGES, generator_for(3))
    assert child is not None
    grandchild = einspace.mutate(child, IMAGES, generator_for(4))
    assert grandchild is not None
    for genotype, kin, generations in ((child, "child", "1 generation"), (grandchild, "descendant", "2 generations")):
        before, _, change = genotype.description.partition(": ")
        assert before == genotype.choices["kin"] == f"{kin} of resnet18"
        found, origin = einspace.explain(genotype, nn.Identity())
        first, last = origin.sentences
        assert first.startswith(f"It descends from resnet18 in {generations}. ")
        assert last == f"The last change: {change}."
        seeds, own = (operations(chain(from_json(g.choices["tree"]))) for g in (seed, genotype))
        common = sum((Counter(seeds) & Counter(own)).values())
        line = Descent.of_choice(genotype.choices["descent"])
        assert line is not None
        assert line.of == len(seeds)
        assert 0.8 * common <= line.shared <= common, "in their order, so not always all"
        assert f"{line.shared} of the {len(seeds)} operations" in first
        assert found.drawing is not None
        assert found.drawing.marks == {"new": "not in resnet18"}


def test_new_steps_are_marked() -> None:
    tree = parse(f"seq({BLOCK}, softmax)")
    own = operations(chain(tree))
    assert own == ["clone(2)", "im2col(3,1,1)", "linear(3)", "col2im", "norm", "relu", "add", "softmax"]
    drawing = graph(tree, ((0, len(own) - 1),), "resnet18")
    assert drawing is not None
    assert [node.label for node in drawing.nodes if node.mark] == ["softmax"]
    bare = graph(tree)
    assert bare is not None
    assert not any(node.mark for node in bare.nodes)


def test_crossed_networks_name_both_lines() -> None:
    einspace = space(seeds=("resnet18", "wrn16_4"))
    first, second = einspace.seeds(IMAGES)
    child = einspace.crossover(first, second, IMAGES, generator_for(0))
    assert child is not None
    assert child.description.startswith("child of resnet18 and wrn16_4: ")
    drawn = einspace.sample(IMAGES, generator_for(0))
    of_drawn = einspace.mutate(drawn, IMAGES, generator_for(1))
    assert of_drawn is not None
    assert of_drawn.description.startswith(f"child of network {drawn.hash[:4]}: ")
    assert "kin" not in of_drawn.choices, "a network without a name gives none to its children"
    origin = einspace.explain(of_drawn, nn.Identity())[1].sentences
    assert origin[0] == f"It descends from network {drawn.hash[:4]} in 1 generation."


def test_words_do_not_change_the_network() -> None:
    einspace = space(seeds=("vit",))
    child = einspace.mutate(einspace.start(IMAGES), IMAGES, generator_for(0))
    assert child is not None
    bare = Genotype("einspace", {name: child.choices[name] for name in ("tree", "digest")})
    assert bare.hash == child.hash


@pytest.mark.parametrize(
    "descent",
    [
        3,
        "resnet18",
        {},
        {"root": 3},
        {"root": "vit", "generation": 1, "of": 3, "kept": [[0], "a", [1, "b"], [0, 10**15]]},
    ],
)
def test_a_descent_from_elsewhere_is_data(descent: object) -> None:
    genotype = written(BLOCK)
    genotype.choices["descent"] = descent
    sections = space().explain(genotype, nn.Identity())
    assert sections[0].drawing is not None
    assert space().mutate(genotype, IMAGES, generator_for(0)) is not None


def check(drawing: Drawing) -> None:
    """Edges lead to later layers, all comes from the input and leads to the output, and no two nodes share a place."""
    nodes = {node.id: node for node in drawing.nodes}
    assert len({(node.layer, node.lane) for node in drawing.nodes}) == len(nodes)
    sources, targets = Counter(e.source for e in drawing.edges), Counter(e.target for e in drawing.edges)
    for edge in drawing.edges:
        assert nodes[edge.source].layer < nodes[edge.target].layer
    assert [node.label for node in drawing.nodes if not targets[node.id]] == ["input"]
    assert [node.label for node in drawing.nodes if not sources[node.id]] == ["output"]


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_graphs_of_all_kinds_of_networks(signature: Signature) -> None:
    for tree in [*samples(signature, 60), *(seed(signature) for seed in SEEDS.values())]:
        check(graph(tree))


def test_the_graph_of_a_block() -> None:
    drawing = graph(parse(BLOCK))
    assert [(node.label, node.detail, node.kind, node.layer, node.lane) for node in drawing.nodes] == [
        ("input", "", "end", 0, 0),
        ("copies", "2", "fork", 1, 0),
        ("convolution", "kernel 3, width 3", "weights", 2, 0),
        ("norm", "", "norm", 3, 0),
        ("leaky ReLU", "", "function", 4, 0),
        ("sum", "", "fork", 5, 0),
        ("output", "", "end", 6, 0),
    ]
    assert [(edge.source, edge.target) for edge in drawing.edges if edge.kind == "shortcut"] == [("n1", "n5")]
    repeated = graph(parse("branch(clone(4), branch(clone(2), norm, relu, add), add)"))
    assert [edge.label for edge in repeated.edges if edge.kind == "repeated"] == ["", "×4"]
    assert {node.lane for node in repeated.nodes} == {0, 1}


def test_parameters_are_those_of_the_network_handed_in() -> None:
    (section, *_) = space().explain(written(BLOCK), nn.Linear(3, 4))
    assert "16 parameters." in section.sentences[0]


def test_what_is_too_large_for_a_drawing_has_none() -> None:
    text = "norm"
    for _ in range(9):
        text = f"seq({text}, {text})"
    genotype = written(text)
    (section,) = space(nodes=2000).explain(genotype, nn.Identity())
    assert section.drawing is None
    assert section.sentences[0].startswith("The network has 512 steps")


def test_drawn_networks_say_what_they_are() -> None:
    genotype = space().sample(IMAGES, generator_for(0))
    origin, _, words = genotype.description.partition(": ")
    assert origin == "drawn"
    (section, *_) = space().explain(genotype, nn.Identity())
    steps = words.split(":")[0]
    assert section.sentences[0].startswith(f"The network has {steps}, ")
    assert section.table is not None
    assert str(section.table.rows[0][0]) in words or section.table.rows[0][1] == 1
