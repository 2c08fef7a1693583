"""The space ``nos``: what it refuses, its relaxations, budgets, random cells, and plain DARTS."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import eclose
from eclose.config import Config
from eclose.engine import make_strategy
from eclose.engine.plan import without_replaced
from eclose.engine.transfer import for_retraining
from eclose.errors import ConfigError
from eclose.runs import Run
from eclose.signature import Signature
from eclose.spaces import Genotype, backbone_genotype, make_space
from eclose.spaces.architecture import architecture_size
from eclose.spaces.nos.block import BlockChoice
from eclose.spaces.nos.cell_cost import Budget, cost_of_rest
from eclose.spaces.nos.cells import from_json, published_cells, to_json
from eclose.spaces.nos.early_stop import SkipLimit
from eclose.spaces.nos.expected_cost import ExpectedCost
from eclose.spaces.nos.layout import KINDS, lay_out
from eclose.spaces.nos.operations import FEATURES, OPERATIONS, SKIP
from eclose.spaces.nos.space import NosSpace
from eclose.spaces.nos.supernet import Supernet
from eclose.train import generator_for, measure_cost
from eclose.train.average import Average
from eclose.train.module_hooks import Verbs
from tests.contracts.cases import AROUND, Case, fields, images, rows, signals

IMAGES = Signature("classification", 3, (12, 12), 4)
SMALL = {"blocks": 2, "search_cells": 3, "search_width": 4, "cells": 3, "width": 4}
SETTINGS = {f"space.{name}": value for name, value in SMALL.items()}
UNSEARCHED = {name: value for name, value in SETTINGS.items() if "search" not in name}


def space_of(**options: Any) -> NosSpace:
    changes = {f"space.{name}": value for name, value in {**SMALL, **options}.items()}
    space = make_space(Config().with_values({"space.name": "nos", "train.epochs": 10, **changes}))
    assert isinstance(space, NosSpace)
    return space


def supernet_of(**options: Any) -> Supernet:
    torch.manual_seed(0)
    space = space_of(**options)
    supernet = space.supernet(space.start(IMAGES), IMAGES)
    assert isinstance(supernet, Supernet)
    return supernet


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"operations": "feature"}, "space.operations is 'feature'; did you mean 'features'?"),
        ({"operations": "skip,sep_conv3"}, "space.operations is 'skip,sep_conv3'; did you mean 'sep_conv_3'?"),
        ({"operations": "dynamic_conv_3"}, "'dynamic_conv_3', but one of them must give features, such as skip"),
        ({"cells": 2}, "space.cells is 2, but must be at least 3"),
        ({"width": 0}, "space.width is 0, but must be at least 1"),
        ({"width": 10**9}, "space.width is 1000000000, but must be at most 10000"),
        ({"search_cells": 2}, "space.search_cells is 2, but must be at least 3"),
        ({"blocks": 300}, "space.blocks is 300, but must be at most 32"),
        ({"partial": 0}, "space.partial is 0, but must be at least 1"),
        ({"partial": 3}, "space.partial is 3, but must divide space.search_width, 4"),
        ({"drop_path": 1.0}, "space.drop_path is 1.0, but must be at least 0 and below 1"),
        ({"skips": -1}, "space.skips is -1, but must be at least 0 and finite"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        space_of(**options)


def test_draws_cool_with_the_epochs_alone() -> None:
    values = {"space.name": "nos", "space.gumbel": True, "budget.training_seconds": 5.0}
    with pytest.raises(ConfigError, match="space.gumbel cools over the epochs, not a time: give --epochs"):
        make_space(Config().with_values(values)).start(Signature("classification", 1, (8, 8), 2))


def test_one_channel_behind_a_stem_that_shortens() -> None:
    signature, space = Signature("classification", 1, (1100,), 2), space_of(width=1, search_width=1)
    for network in (space.build(space.start(signature), signature), space.supernet(space.start(signature), signature)):
        assert network(torch.randn(2, 1, 1100)).shape == (2, 2)


def test_a_network_that_cannot_be_built_is_refused_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of()
    monkeypatch.setitem(space.sizes, "width", 1)
    monkeypatch.setattr("eclose.ops.separable.layer", lambda *_: [][0])
    words = "no network of space.cells=3 and space.width=1 can be made for these inputs (IndexError: list index out of"
    with pytest.raises(ConfigError, match=re.escape(words)):
        space.start(IMAGES)


def test_cells_are_plain_data() -> None:
    cells = from_json(space_of().sample(IMAGES, generator_for(0)).choices)
    assert from_json(json.loads(json.dumps(to_json(cells)))) == cells


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("inputs", [[0, "skip"], [5, "skip"]], "block 0 reads"),
        ("inputs", [[0, "skip"], [0, "skip"]], "block 0 reads"),
        ("inputs", [[0, "channel_attention"], [1, "dynamic_conv_3"]], "no operation that gives features"),
        ("inputs", "skip", "no cells of the space 'nos'"),
        ("inputs", [[float("inf"), "skip"], [1, "skip"]], "a block reads inf, which is no whole number.*restore"),
        ("inputs", [[0.7, "skip"], [1, "skip"]], "a block reads 0.7, which is no whole number.*restore"),
        ("inputs", [["0", "skip"], [1, "skip"]], "a block reads '0', which is no whole number.*restore"),
        ("inputs", [[False, "skip"], [1, "skip"]], "a block reads False, which is no whole number.*restore"),
        ("then", "os.system", "unknown operation 'os.system'"),
    ],
)
def test_cells_from_elsewhere_are_looked_at(place: str, value: Any, words: str) -> None:
    data = to_json(from_json(space_of().start(IMAGES).choices))
    data["normal"][0][place] = value
    with pytest.raises(ConfigError, match=words):
        from_json(data)


@pytest.mark.parametrize("blocks", [0, 1, 33])
def test_cells_have_equally_many_blocks(blocks: int) -> None:
    data = to_json(from_json(space_of().start(IMAGES).choices))
    data["reduction"] = data["reduction"][:1] * blocks
    with pytest.raises(ConfigError, match="must have equally many blocks, 1 to 32: restore genotype.json"):
        from_json(data)


def test_cells_that_somebody_edited_are_another_network() -> None:
    space = space_of()
    found, _ = space.derive(space.start(IMAGES), supernet_of())
    edited = json.loads(json.dumps(found.choices))
    edited["normal"][0]["then"] = "skip" if edited["normal"][0]["then"] != "skip" else "sep_conv_3"
    carried = space.carry_over(Genotype("nos", edited), IMAGES, IMAGES)
    assert space.carry_over(found, IMAGES, IMAGES) == found != carried
    del edited["digest"]
    assert space.carry_over(Genotype("nos", edited), IMAGES, IMAGES) == carried


@pytest.mark.parametrize(
    ("size", "value"),
    [
        ("cells", 10**9),
        ("cells", 2),
        ("cells", True),
        ("width", "wide"),
        ("width", 0),
        ("drop_path", None),
        ("drop_path", 1),
    ],
)
def test_sizes_from_elsewhere_are_looked_at(size: str, value: Any) -> None:
    space = space_of()
    start = space.start(IMAGES)
    with pytest.raises(
        ConfigError, match=f"'{size}' of a network of the space 'nos' is {value!r}: restore genotype.json"
    ):
        space.build(Genotype("nos", {**start.choices, size: value}), IMAGES)


def test_how_strong_others_were_makes_no_other_network() -> None:
    space, supernet = space_of(), supernet_of()
    first, network = space.derive(space.start(IMAGES), supernet)
    assert network is None
    assert len(first.choices["shares"]["normal"]) == 5 + 2
    assert all(abs(sum(row) - 1) < 1e-2 for row in first.choices["shares"]["reduction"])
    with torch.no_grad():
        for parameter in supernet.architecture.parameters():
            parameter.mul_(2)
    second, _ = space.derive(space.start(IMAGES), supernet)
    assert second.choices["shares"] != first.choices["shares"]
    assert second == first


def test_plain_darts_has_features_and_one_tier() -> None:
    supernet, space = supernet_of(operations="features"), space_of(operations="features")
    assert supernet.architectures["normal"].operations.shape == (5, 7)
    found, _ = space.derive(space.start(IMAGES), supernet)
    cells = from_json(found.choices)
    assert {name for cell in cells.values() for block in cell for _, name in block.first} <= set(FEATURES)
    assert {block.second for cell in cells.values() for block in cell} == {None}
    assert " > " not in space.text(found)
    assert space_of().text(space_of().start(IMAGES)).startswith("normal: 0 sep_conv_3 + 1 sep_conv_3 > skip; ")


def test_the_relaxation_is_that_of_the_paper() -> None:
    whole = space_of(blocks=4)
    supernet = whole.supernet(whole.start(IMAGES), IMAGES)
    assert {kind: tuple(own.operations.shape) for kind, own in supernet.architectures.items()} == dict.fromkeys(
        KINDS, (18, 11)
    )


def test_edges_have_weights_too() -> None:
    architecture = supernet_of(edge_norm=True).architectures["normal"]
    with torch.no_grad():
        architecture.between.copy_(torch.tensor([2.0, 0.0, 0.0, 0.0, 3.0]))
    first, second = architecture()
    torch.testing.assert_close(first.edges, torch.tensor([2.0, 0.0]).softmax(0))
    torch.testing.assert_close(first.first.sum(1), first.edges)
    torch.testing.assert_close(second.edges.sum(), torch.tensor(1.0))
    assert {source for source, _ in architecture.derived()[1].first} > {2}, "the strong edge stays"


def test_draws_agree_with_the_architecture() -> None:
    architecture = supernet_of(gumbel=True).architectures["normal"]
    with torch.no_grad():
        architecture.operations.normal_()
    architecture.before_step(10.0)  # the last epoch: draws are nearly one operation each
    assert float(architecture.temperature) == pytest.approx(0.1)
    torch.manual_seed(0)
    draws = torch.stack([architecture()[1].first for _ in range(3000)])
    torch.testing.assert_close(draws.sum(2), torch.ones(3000, 3))
    often = torch.nn.functional.one_hot(draws.argmax(2), 11).float().mean(0)
    torch.testing.assert_close(often, architecture.weights()[2:5], atol=0.04, rtol=0)
    assert draws.amax(2).mean() > 0.9
    architecture.eval()
    torch.testing.assert_close(architecture()[1].first, architecture.weights()[2:5])
    assert architecture.train().derived() == architecture.eval().derived()


@pytest.mark.parametrize(
    "options", [{}, {"partial": 2, "edge_norm": True, "none": True}, {"operations": "features"}, {"none": True}]
)
def test_half_precision_gives_about_the_same(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    supernet, x = supernet_of(**options), torch.randn(8, 3, 12, 12)
    plain = supernet(x)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = supernet(x)
    rounded.float().sum().backward()
    assert all(parameter.grad is not None for parameter in supernet.parameters())
    assert (rounded.float() - plain).norm() < 0.1 * plain.norm()


def test_none_is_drawn_as_often_as_its_share() -> None:
    architecture = supernet_of(gumbel=True, none=True).architectures["normal"]
    with torch.no_grad():
        architecture.operations.normal_()
    architecture.before_step(10.0)
    torch.manual_seed(0)
    drawn = 1 - torch.stack([architecture()[1].first.sum(1) for _ in range(3000)])
    share = architecture.operations[2:5].softmax(1)[:, -1]
    torch.testing.assert_close((drawn > 0.5).float().mean(0), share, atol=0.04, rtol=0)


@pytest.mark.parametrize("none", [False, True])
def test_an_architecture_of_skips_stops(none: bool) -> None:
    """A skip counts where it would stay, also where ``none`` has a larger share."""
    supernet = supernet_of(skips=1, none=none)
    limit, normal = supernet.get_submodule("skip_limit"), supernet.architectures["normal"]
    assert isinstance(limit, SkipLimit)
    verbs, column = Verbs(supernet), normal.choices.names.index(SKIP)
    with torch.no_grad():
        normal.operations[:, 0] += 1.0
        normal.operations[:, len(normal.choices.names) :] += 9.0
    verbs.before_step(1.0)
    good = normal.operations.detach().clone()
    with torch.no_grad():
        normal.operations[:, column] += 3.0
    verbs.after_step()
    verbs.before_step(1.5)
    assert not torch.equal(normal.operations, good), "it looks after whole epochs"
    verbs.before_step(2.0)
    assert torch.equal(normal.operations, good)
    with torch.no_grad():
        normal.operations[:, column] += 3.0
    verbs.after_step()
    verbs.before_step(3.0)
    assert torch.equal(normal.operations, good), "and stays"
    remembered = {f"skip_limit.{name}" for name in ("kept", "stopped", "looked", "few")}
    assert remembered <= supernet.state_dict().keys(), "a resumed run knows"
    found, _ = space_of(skips=1).derive(space_of().start(IMAGES), supernet)
    assert found.description == "cells that were searched, stopped after epoch 2 with more than 1 skip"


def test_skips_count_after_the_last_epoch_too() -> None:
    supernet, space = supernet_of(skips=1), space_of(skips=1)
    normal = supernet.architectures["normal"]
    with torch.no_grad():
        normal.operations[:, 0] += 1.0
    Verbs(supernet).before_step(6.0)  # of ten: a training may end before
    wanted = normal.derived()
    with torch.no_grad():
        normal.operations[:, normal.choices.names.index(SKIP)] += 3.0
    found, _ = space.derive(space.start(IMAGES), supernet)
    assert from_json(found.choices)["normal"] == tuple(wanted)
    assert found.description.endswith("stopped after epoch 7 with more than 1 skip")


def test_skips_of_the_start_stop_nothing() -> None:
    """They are noise: only cells that kept the limit before may have too many."""
    supernet, space = supernet_of(skips=1), space_of(skips=1)
    normal, verbs = supernet.architectures["normal"], Verbs(supernet)
    column = normal.choices.names.index(SKIP)
    with torch.no_grad():
        normal.operations[:, column] += 1.0
    for epochs in (1.0, 2.0):
        verbs.before_step(epochs)
    found, _ = space.derive(space.start(IMAGES), supernet)
    assert found.description == "cells that were searched, with more than 1 skip after every epoch"
    with torch.no_grad():
        normal.operations[:, 0] += 2.0
    wanted = tuple(normal.derived())
    verbs.before_step(4.0)
    with torch.no_grad():
        normal.operations[:, column] += 3.0
    verbs.before_step(5.0)
    found, _ = space.derive(space.start(IMAGES), supernet)
    assert from_json(found.choices)["normal"] == wanted
    assert found.description.endswith("stopped after epoch 5 with more than 1 skip")


def test_averaged_weights_have_no_more_skips() -> None:
    """Their architecture is the mean of others than the one that was kept."""
    supernet, space = supernet_of(skips=1), space_of(skips=1)
    normal, verbs = supernet.architectures["normal"], Verbs(supernet)
    with torch.no_grad():
        normal.operations[:, 0] += 1.0
    verbs.before_step(1.0)
    wanted = tuple(normal.derived())
    with torch.no_grad():
        normal.operations[:, normal.choices.names.index(SKIP)] += 3.0
    averaged = Average(supernet, 0.1)
    verbs.before_step(2.0)
    averaged.install()
    found, _ = space.derive(space.start(IMAGES), supernet)
    assert from_json(found.choices)["normal"] == wanted


def test_skips_count_in_the_cells_that_keep_a_limit() -> None:
    """Skips are free: where prices decide, there are more of them than shares alone say."""
    limit = cost_of_rest(IMAGES, lay_out(IMAGES, 3, 4, 2), 2).parameters + 50
    supernet, space = supernet_of(skips=1, parameters=limit), space_of(skips=1, parameters=limit)
    normal, verbs, names = supernet.architectures["normal"], Verbs(supernet), space.choices.names
    for epochs, cheap in ((1.0, "max_pool_3"), (2.0, SKIP)):
        with torch.no_grad():
            for own in supernet.architectures.values():
                own.operations.zero_()
                own.operations[:, names.index("sep_conv_3")] = 1.0
                own.operations[:, names.index(cheap)] = 0.5
        assert not any(name == SKIP for block in normal.derived() for _, name in block.first)
        verbs.before_step(epochs)
    found, _ = space.derive(space.start(IMAGES), supernet)
    assert found.description.endswith("stopped after epoch 2 with more than 1 skip")
    assert [name for block in from_json(found.choices)["normal"] for _, name in block.first].count(SKIP) <= 1


def test_a_limit_that_only_skips_keep() -> None:
    options = {"operations": "sep_conv_3,skip", "skips": 2}
    layout, conv = lay_out(IMAGES, 3, 4, 2), "sep_conv_3"
    blocks = [
        BlockChoice(pair, None) for pair in (((0, SKIP), (1, SKIP)), ((0, conv), (1, conv)), ((0, SKIP), (2, SKIP)))
    ]
    cells = {"normal": blocks[:2], "reduction": [blocks[0], blocks[2]]}  # a skip from within shortens nothing
    enough = Budget(IMAGES, layout, 2, ()).cost(cells).parameters
    assert space_of(parameters=enough, **options).start(IMAGES).description == "the cheapest cells"
    words = f"space.parameters is {enough - 1}, but no cells of space.skips=2 keep it: raise one of them, or lower"
    with pytest.raises(ConfigError, match=words):
        space_of(parameters=enough - 1, **options).start(IMAGES)


@pytest.mark.parametrize("signature", [IMAGES, Signature("dense", 2, (20,), 1)])
def test_the_cost_of_cells_is_known_without_building(signature: Signature) -> None:
    space = space_of()  # with a tower, which counts for nothing
    for seed in range(4):
        genotype = space.sample(signature, generator_for(seed))
        cells = from_json(genotype.choices)
        pairs = [block.first for cell in cells.values() for block in cell]
        twice = any(all(name.startswith("dynamic") for _, name in pair) for pair in pairs)
        known = Budget(signature, lay_out(signature, 3, 4, 2), 2, ()).cost(cells)
        measured = measure_cost(space.build(genotype, signature), signature, torch.device("cpu"))
        assert known.parameters == measured.parameters
        assert known.flops == measured.flops or (twice and known.flops > measured.flops)


def test_the_expected_cost_is_the_mean_over_the_choices() -> None:
    """With equal weights: the mean cost of cells whose edges and operations are any."""
    supernet = supernet_of(flops=1e6, parameters=1e4, cost_weight=2.0)
    cost, layout = supernet.get_submodule("cost"), lay_out(IMAGES, 3, 4, 2)
    assert isinstance(cost, ExpectedCost)
    with torch.no_grad():
        for architecture in supernet.architectures.values():
            architecture.operations.zero_()
            architecture.operations[:, FEATURES.index("sep_conv_5")] = 50.0  # one operation has all the weight
    cells = {kind: architecture.derived() for kind, architecture in supernet.architectures.items()}
    wanted = Budget(IMAGES, layout, 2, ()).cost(cells)
    # Edges of both inputs cost the same; that of an inner node in a reduction cell reads fewer points, as it writes.
    torch.testing.assert_close(cost(), torch.tensor([wanted.parameters / 1e4, wanted.flops / 1e6]))
    torch.testing.assert_close(cost.extra_loss(), 2 * (cost() - 1).relu().sum())
    exact = cost()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(cost(), exact)
    assert not any(name.startswith("cost") for name in supernet.state_dict())


def test_none_makes_cells_no_cheaper() -> None:
    """It never stays, so that what stays costs the same however large its share is."""
    plain, supernet = supernet_of(parameters=1300), supernet_of(parameters=1300, none=True)
    cost = supernet.get_submodule("cost")
    with torch.no_grad():
        for one, other in zip(plain.architectures.values(), supernet.architectures.values(), strict=True):
            other.operations[:, :-1] = one.operations.normal_()
            other.operations[:, -1] = 5.0
    torch.testing.assert_close(cost(), plain.get_submodule("cost")())
    cost.extra_loss().backward()
    for own in supernet.architectures.values():
        assert own.operations.grad[:, :-1].abs().sum() > 0
        assert not own.operations.grad[:, -1].any()


def test_shares_between_edges_count_in_the_expected_cost() -> None:
    supernet = supernet_of(parameters=1e4, edge_norm=True)
    cost, normal = supernet.get_submodule("cost"), supernet.architectures["normal"]
    assert normal.between is not None
    with torch.no_grad():
        for own in supernet.architectures.values():
            own.between.zero_()
    plain = supernet_of(parameters=1e4)
    for kind, own in plain.architectures.items():
        own.load_state_dict({"operations": supernet.architectures[kind].operations.detach()})
    torch.testing.assert_close(cost(), plain.get_submodule("cost")(), msg="equal shares are as none")
    with torch.no_grad():
        normal.between[2:5] = torch.tensor([0.7, 0.2, 0.1]).log()
    weights = torch.cat([own.weights() for own in supernet.architectures.values()])
    often = torch.tensor([1, 1, 1, 0.4, 0.2, 1, 1, *[1, 1, 2 / 3, 2 / 3, 2 / 3, 1, 1]])
    wanted = cost.rest + (often.view(-1, 1, 1) * weights.unsqueeze(2) * cost.table).sum((0, 1))
    torch.testing.assert_close(cost(), wanted)
    cost()[0].backward()
    assert normal.between.grad[2:5].all()


def test_a_budget_makes_cells_cheaper() -> None:
    supernet = supernet_of(parameters=2000)
    own = [each.operations for each in supernet.architectures.values()]
    optimiser = torch.optim.Adam(own, lr=0.1)
    cost = supernet.get_submodule("cost")
    before = cost()[0].item()
    for _ in range(20):
        optimiser.zero_grad()
        cost.extra_loss().backward()
        optimiser.step()
    assert cost()[0].item() < 0.8 * before


def test_what_is_chosen_is_within_the_budget() -> None:
    layout = lay_out(IMAGES, 3, 4, 2)
    rest = cost_of_rest(IMAGES, layout, 2)
    for limit in (rest.parameters, rest.parameters + 1, rest.parameters + 400, 10**9):
        supernet, space = supernet_of(parameters=limit), space_of(parameters=limit)
        with torch.no_grad():
            for architecture in supernet.architectures.values():
                architecture.operations[:, FEATURES.index("sep_conv_5")] += 2.0
                architecture.operations[:, FEATURES.index("dil_conv_3")] += 1.0
        cells = from_json(space.derive(space.start(IMAGES), supernet)[0].choices)
        cost = Budget(IMAGES, layout, 2, ()).cost(cells).parameters
        assert rest.parameters <= cost <= limit
        names = {name for cell in cells.values() for block in cell for _, name in block.first}
        assert ("sep_conv_5" in names) == (limit == 10**9)
        assert (cost > rest.parameters) == (limit > rest.parameters + 1), "what there is room for is used"


@pytest.mark.parametrize("operations", ["all", "sep_conv_5"])
def test_a_budget_that_nothing_meets(operations: str) -> None:
    least = cost_of_rest(IMAGES, lay_out(IMAGES, 3, 4, 2), 2).parameters
    words = (
        "space.parameters is {:g}, but the smallest network of these cells has [0-9,]+: raise it, or lower space.width"
    )
    for limit in (10, *([least] if operations != "all" else [])):
        with pytest.raises(ConfigError, match=words.format(limit)):
            space_of(parameters=limit, operations=operations).start(IMAGES)


def test_drawn_and_varied_cells_are_within_the_budget() -> None:
    layout = lay_out(IMAGES, 3, 4, 2)
    limit = cost_of_rest(IMAGES, layout, 2).parameters + 900
    space, draw = space_of(parameters=limit), generator_for(0)

    def within(genotype: Genotype | None) -> bool:
        assert genotype is not None
        return Budget(IMAGES, layout, 2, ()).cost(from_json(genotype.choices)).parameters <= limit

    drawn = [space.sample(IMAGES, draw) for _ in range(8)]
    assert all(map(within, drawn))
    assert not all(within(space_of().sample(IMAGES, draw)) for _ in range(8)), "a limit that many exceed"
    assert all(within(space.mutate(each, IMAGES, draw)) for each in drawn)
    assert all(within(space.crossover(*pair, IMAGES, draw)) for pair in pairwise(drawn))
    assert within(space.start(IMAGES))
    assert not within(space_of().start(IMAGES))
    assert space.start(IMAGES) == space.seeds(IMAGES)[0], "of equally cheap cells always the same"
    assert space.start(IMAGES).description == "the cheapest cells"


def test_a_budget_that_hardly_any_draw_meets() -> None:
    limit = cost_of_rest(IMAGES, lay_out(IMAGES, 3, 4, 2), 2).parameters
    space = space_of(parameters=limit, operations="sep_conv_3,sep_conv_5,dil_conv_3,dil_conv_5,max_pool_3")
    start, draw = space.start(IMAGES), generator_for(0)
    words = f"space.parameters is {limit}, but the cheapest of 1000 drawn networks has [0-9,]+: raise it, or lower"
    with pytest.raises(ConfigError, match=words):
        space.sample(IMAGES, draw)
    assert space.crossover(start, start, IMAGES, draw) == start
    other = Genotype("nos", {**start.choices, **to_json(from_json(space_of().start(IMAGES).choices))})
    assert space.crossover(other, other, IMAGES, draw) is None


@pytest.mark.parametrize(
    ("strategy", "option", "value"), [("random", "skips", 1), ("evolution", "none", True), ("train", "skips", 1)]
)
def test_options_of_a_supernet_need_one(strategy: str, option: str, value: Any, tmp_path: Path) -> None:
    settings = {**UNSEARCHED, "strategy.name": strategy, f"space.{option}": value}
    words = (
        f"space.{option} is {value}, but is for supernets only, and the strategy '{strategy}' trains none: "
        "leave it out, or say --strategy bilevel"
    )
    with pytest.raises(ConfigError, match=words):
        Case(images, settings).run(tmp_path / "run", "nos")
    assert not (tmp_path / "run").exists()


def test_a_recipe_leaves_options_of_its_supernet() -> None:
    options = {"search_cells": 8, "partial": 4, "none": True, "cells": 20}
    recipe = Config().with_values({"space.name": "nos", **{f"space.{key}": value for key, value in options.items()}})
    assert without_replaced(recipe, {"strategy.name": "random"}).space.options == {"cells": 20}
    assert without_replaced(recipe, {"strategy.name": "supernet"}).space.options == options
    assert for_retraining(recipe).space.options == {"cells": 20}


def test_operations_by_name() -> None:
    """Two tiers where one of them calibrates; what is found is explained by their names."""
    few = space_of(operations="channel_attention, skip,sep_conv_5")
    assert few.choices.names == ("sep_conv_5", "skip", "channel_attention")
    assert few.choices.tiers == 2
    assert space_of(operations="skip,dil_conv_3").choices.tiers == 1
    supernet = few.supernet(few.start(IMAGES), IMAGES)
    found, _ = few.derive(few.start(IMAGES), supernet)
    own = {name for cell in from_json(found.choices).values() for block in cell for _, name in block.first}
    assert own <= set(few.choices.names)
    sections = space_of().explain(found, supernet)
    assert sections[-1].title == "How clear the choices were"
    assert {row[4] for row in sections[-1].table.rows} <= set(few.choices.names)
    damaged = Genotype("nos", {**found.choices, "operations": [["skip"]]})
    assert [section.table for section in space_of().explain(damaged, supernet)] == [None, None]
    started = {block for cell in from_json(few.start(IMAGES).choices).values() for block in cell}
    assert started == {BlockChoice(((0, "sep_conv_5"), (1, "sep_conv_5")), "skip")}


def test_plain_darts_is_searched_with_none(tmp_path: Path) -> None:
    settings = {**SETTINGS, "space.operations": "features", "space.none": True, "train.epochs": 1}
    result = Case(signals, settings).run(tmp_path / "run", "nos")
    assert rows(result.run)[0].architecture_parameters == 2 * 5 * (7 + 1)
    assert {name for cell in from_json(result.genotype.choices).values() for b in cell for _, name in b.first} <= {
        *FEATURES
    }
    *_, clear = (section for section in result.metrics["explanation"] if section["title"].startswith("How clear"))
    labels = [line["label"] for line in clear["pictures"][0]["plots"][0]["lines"]]
    assert labels == ["features", "none (zeros)"]


def test_random_cells_are_searched_as_well(tmp_path: Path) -> None:
    settings = {**UNSEARCHED, "space.operations": "features", "strategy.name": "random", "budget.trials": 2}
    result = Case(images, settings).run(tmp_path / "run", "nos")
    assert [row.origin for row in rows(result.run)] == ["drawn", "drawn"]
    assert len({row.hash for row in rows(result.run)}) == 2
    assert {row.name for row in rows(result.run, "final")} == {result.metrics["name"]}


def test_without_a_search_the_start_is_trained_once(tmp_path: Path) -> None:
    settings = {**UNSEARCHED, "strategy.name": "train", "compare.baselines": []}
    result = Case(images, settings).run(tmp_path / "run", "nos")
    assert (len(rows(result.run)), rows(result.run, "final")) == (1, [])


def test_pictures_on_a_gpu_are_offered_published_cells() -> None:
    """In a portfolio they are trained as they are: a supernet would leave it no weights."""
    pictures, plain = Signature("classification", 3, (16, 16), 4), backbone_genotype("lenet", {}, IMAGES)
    space = make_space(Config().with_values({"space.name": "nos", "run.device": "cuda"}))
    (offered,) = space.offers(pictures, [plain])
    assert set(OPERATIONS) > {name for b in from_json(offered.choices)["normal"] for _, name in b.first} > {SKIP}
    assert space.build(offered, pictures)(torch.randn(2, 3, 16, 16)).shape == (2, 4)
    assert space.offers(pictures, []) == []
    assert space.offers(IMAGES, [plain]) == [], "too small"
    assert space_of().offers(pictures, [plain]) == [], "too slow"
    search = Case(images, {"space.spaces": ["xd"]}).search(space="portfolio")
    search.space.others["nos"] = space
    prepared = make_strategy(search.config).prepare(search, offered, AROUND, "search")
    assert not architecture_size(prepared.model)
    assert len(prepared.task.train) == len(search.task.train), "no half is kept for an architecture"
    genotype, model = make_strategy(search.config).found(search, offered, prepared.model)
    assert (genotype, model) == (offered, prepared.model)


# DARTS_V2 of the public code: operation and input, two for each of four nodes.
DARTS_V2 = {
    "normal": (
        *("sep_conv_3x3 0", "sep_conv_3x3 1", "sep_conv_3x3 0", "sep_conv_3x3 1"),
        *("sep_conv_3x3 1", "skip_connect 0", "skip_connect 0", "dil_conv_3x3 2"),
    ),
    "reduction": (
        *("max_pool_3x3 0", "max_pool_3x3 1", "skip_connect 2", "max_pool_3x3 1"),
        *("max_pool_3x3 0", "skip_connect 2", "skip_connect 2", "max_pool_3x3 1"),
    ),
}


def test_the_published_cells_are_those_that_darts_found() -> None:
    ours = {
        kind: [sorted(f"{name} {source}" for source, name in block.first) for block in blocks]
        for kind, blocks in published_cells().items()
    }
    theirs = {
        kind: [sorted(map(_named, pair)) for pair in zip(names[::2], names[1::2], strict=True)]
        for kind, names in DARTS_V2.items()
    }
    assert ours == theirs
    assert {block.second for blocks in published_cells().values() for block in blocks} == {None}


def _named(theirs: str) -> str:
    return theirs.replace("skip_connect", "skip").replace("x3", "")


def test_cells_are_varied_and_crossed() -> None:
    space = space_of()
    one, other = (space.sample(IMAGES, generator_for(seed)) for seed in range(2))
    child = space.mutate(one, IMAGES, generator_for(3))
    blocks = [zip(from_json(one.choices)[kind], from_json(child.choices)[kind], strict=True) for kind in KINDS]
    assert sum(a != b for pairs in blocks for a, b in pairs) == 1
    mixed = from_json(space.crossover(one, other, IMAGES, generator_for(4)).choices)
    for kind in KINDS:
        for block, *parents in zip(
            mixed[kind], from_json(one.choices)[kind], from_json(other.choices)[kind], strict=True
        ):
            assert block in parents


@pytest.mark.parametrize(("data", "order"), [(signals, 1), (fields, 2)])
def test_signals_and_fields_are_searched_cut_and_trained(data: Any, order: int, tmp_path: Path) -> None:
    settings = {**SETTINGS, "train.epochs": 1, "final.train.epochs": 2, "strategy.order": order, "space.skips": 1}
    result = Case(data, settings).run(tmp_path / "run", "nos")
    search, final = rows(result.run)[0], rows(result.run, "final")[0]
    assert (search.epochs, final.epochs) == (1, 2)
    assert search.architecture_parameters == 2 * 7 * 11
    assert final.architecture_parameters == 0
    assert result.genotype == Genotype.load(result.run / "trials" / str(search.number))
    start = Genotype.load(result.run / "trials" / str(search.number), "asked")
    assert start.label != result.genotype.label == result.metrics["name"] == search.name == final.name
    saved = json.loads((result.run / "genotype.json").read_text(encoding="utf-8"))
    assert set(saved["choices"]["shares"]) == set(KINDS)
    if data is signals:
        made_larger(result)


def made_larger(found: eclose.Result) -> None:
    """Found cells in a deeper and wider network."""
    sizes = {"space.cells": 4, "space.width": 6}
    given: dict[str, Any] = {"data": signals(), "epochs": 1, "progress": False}
    larger = eclose.retrain(found.run, out=found.run / "larger", settings=sizes, **given)
    assert from_json(larger.genotype.choices) == from_json(found.genotype.choices)
    assert (len(larger.model.network.cells), larger.genotype.choices["width"]) == (4, 6)
    assert larger.genotype != found.genotype
    assert [row.name for row in Run.open(found.run).table.all()] == [found.genotype.label] * 2, "not the start"
    assert larger.genotype.label == f"NOS cells {larger.genotype.hash[:4]}"
    assert [row.role for row in Run.open(larger.run).table.all()] == ["search"], "one training, not a second after it"
    with pytest.raises(ConfigError, match="'space.blocks' cannot be set: retrain trains the network that was found"):
        eclose.retrain(found.run, settings={"space.blocks": 3}, **given)
