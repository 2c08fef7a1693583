"""What every space promises. A new space has a class here: its name, what it is tried on, and how it is kept small."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import eclose
from eclose.config import from_dict
from eclose.engine import Search, complete
from eclose.runs import Run
from eclose.spaces import ContinuousSpace, Genotype, SampledSpace, Space, backbone_genotype, spaces
from eclose.spaces.architecture import architecture_size, named_architecture
from eclose.spaces.backbone import BackboneSpace
from eclose.train import generator_for, measure_cost
from eclose.train.module_hooks import Verbs
from tests.contracts.cases import (
    AROUND,
    Case,
    assert_same_run,
    fields,
    images,
    inputs,
    own_members,
    registered,
    rows,
    signals,
    under_contract,
    words,
)


def built(search: Search, genotype: Genotype, space: Space | None = None) -> nn.Module:
    """The network as a run builds it: all that is random follows from a seed."""
    torch.manual_seed(3)
    return (space or search.space).build(genotype, search.task.signature)


class SpaceContract:
    """A set of networks, all of which are data. The search of the first case is a whole run."""

    name: str  # in the registry
    cases: tuple[Case, ...]
    runs: dict[str, Any] = {}  # further settings of the run
    epochs = 2  # of what is found

    @pytest.fixture
    def search(self, case: Case) -> Search:
        return case.search(space=self.name)

    def genotypes(self, search: Search) -> list[Genotype]:
        """Networks of the space."""
        return [search.start]

    def test_a_network_is_built_from_data_alone(self, search: Search, tmp_path: Path) -> None:
        signature = search.task.signature
        for genotype in self.genotypes(search):
            assert json.loads(json.dumps(genotype.choices)) == genotype.choices
            genotype.save(tmp_path)
            read = Genotype.load(tmp_path)
            assert read == genotype
            usual = spaces[genotype.space].make(search.config)  # another run may have other options
            one, other = built(search, genotype), built(search, read, usual)
            assert list(one.state_dict()) == list(other.state_dict())
            assert all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())
            assert one(inputs(signature)).shape == signature.output_shape(3)

    def test_what_it_offers_to_a_portfolio_can_be_built(self, search: Search) -> None:
        signature = search.task.signature
        plain = backbone_genotype("lenet", {"widths": (2, 3)}, signature)
        for known in ([], [plain] if signature.pooled else []):
            for genotype in search.space.offers(signature, known):
                assert built(search, genotype)(inputs(signature)).shape == signature.output_shape(3)

    def test_building_leaves_the_genotype_alone(self, search: Search) -> None:
        for genotype in self.genotypes(search):
            before = genotype.hash
            network = built(search, genotype)
            with torch.no_grad():
                for parameter in network.parameters():
                    parameter.add_(1.0)
            assert genotype.hash == before

    def test_what_is_said_is_plain(self, search: Search) -> None:
        notices = search.space.notices(search.task.signature)
        assert all(isinstance(line, str) and "\n" not in line for line in notices)
        for genotype in self.genotypes(search):
            assert isinstance(search.space.text(genotype), str)
            for section in search.space.explain(genotype, built(search, genotype).eval()):
                assert json.loads(json.dumps(section.as_dict(), allow_nan=False))["title"] == section.title
                assert all(isinstance(sentence, str) and "\n" not in sentence for sentence in section.sentences)
                if section.table:
                    assert {len(row) for row in section.table.rows} <= {len(section.table.headings)}

    def test_options_are_complete(self, search: Search) -> None:
        """What is written into a run folder makes the same space again."""
        written = from_dict(tomllib.loads(search.config.to_toml()))
        assert complete(written, search.task) == search.config

    @pytest.fixture(scope="class")
    @classmethod
    def found(cls, tmp_path_factory: pytest.TempPathFactory) -> eclose.Result:
        folder = tmp_path_factory.mktemp(cls.name) / "run"
        return cls.cases[0].run(folder, cls.name, settings=cls.runs)

    def test_the_figures_are_those_of_the_network_that_was_found(self, found: eclose.Result) -> None:
        row, task = Run.open(found.run).table.all()[found.metrics["trial"]], self.cases[0].search(space=self.name).task
        cost, size = measure_cost(found.model, task.signature, AROUND.device), architecture_size(found.model)
        # An architecture that a search has moved stays as it is in the network that is loaded.
        assert row.parameters - row.architecture_parameters == cost.parameters - size > 0
        assert row.flops == cost.flops
        x, y = task.test.all()
        assert eclose.predict(found.run, x, y=y).score == pytest.approx(row.test, rel=1e-5)
        assert found.metrics["test"] == row.test

    def test_it_is_loaded_exported_and_asked(self, found: eclose.Result, tmp_path: Path) -> None:
        x = torch.from_numpy(self.cases[0].data()["x"][:5])
        wanted = eclose.load(found.run)(x)
        eclose.export(found.run, tmp_path / "bundle")
        assert torch.equal(eclose.load(tmp_path / "bundle")(x), wanted)
        program, _ = eclose.export(found.run, tmp_path / "program", format="pt2")
        torch.testing.assert_close(torch.export.load(program).module()(x), wanted, rtol=1e-3, atol=1e-4)
        assert len(next(iter(eclose.predict(tmp_path / "bundle", x).values()))) == 5

    @pytest.mark.usefixtures("drawn")
    def test_the_run_is_whole(self, found: eclose.Result) -> None:
        result = json.loads((found.run / "result.json").read_text(encoding="utf-8"))
        assert (result["space"], result["epochs"]) == (self.name, self.epochs)
        assert (found.run / "report.html").exists()
        assert found.metrics["name"] in eclose.report(found.run).read_text(encoding="utf-8")
        assert found.genotype == Genotype.load(found.run / "trials" / str(result["trial"]))

    def test_an_interrupted_search_ends_with_the_same_bits(self, found: eclose.Result, tmp_path: Path) -> None:
        last = len(rows(found.run)) - 1
        moments = ((last, 1), (found.metrics["trial"], 1)) if last != found.metrics["trial"] else ((last, 1),)
        self.cases[0].interrupted(tmp_path / "run", self.name, *moments, settings=self.runs)
        assert_same_run(tmp_path / "run", found.run)

    def test_what_was_found_is_trained_again_as_it_is(self, found: eclose.Result, tmp_path: Path) -> None:
        again = eclose.retrain(found.run, out=tmp_path / "again", data=self.cases[0].data(), epochs=1, progress=False)
        assert again.genotype == found.genotype
        row = Run.open(found.run).table.all()[found.metrics["trial"]]
        trained = row.parameters - row.architecture_parameters
        assert (again.metrics["parameters"], again.metrics["architecture_parameters"]) == (trained, 0)
        state = again.model.state_dict()
        for name, tensor in found.genotype.tensors.items():
            assert torch.equal(state[f"network.{name}"], tensor)


class ContinuousContract(SpaceContract):
    """A space in which a training moves by gradients."""

    def moved(self, search: Search) -> nn.Module:
        """A supernet away from its start, as after steps of a training."""
        torch.manual_seed(3)
        supernet = search.space.supernet(search.start, search.task.signature)
        with torch.no_grad():
            for parameter in supernet.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        Verbs(supernet).after_step()
        return supernet

    def genotypes(self, search: Search) -> list[Genotype]:
        return [search.start, search.space.derive(search.start, self.moved(search))[0]]

    def test_it_is_a_continuous_space(self, search: Search) -> None:
        assert isinstance(search.space, ContinuousSpace)

    def test_a_supernet_has_an_architecture_that_learns(self, search: Search) -> None:
        supernet, signature = self.moved(search), search.task.signature
        verbs = Verbs(supernet)
        with verbs.one_pass():
            output = supernet(inputs(signature))
            assert output.shape == signature.output_shape(3)
            losses = verbs.extended(output.flatten(1).square().sum(1), output.detach(), lambda a, b: (a - b).sum())
            losses.sum().backward()
        own = named_architecture(supernet)
        assert own
        assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in own.values())
        assert len(own) < len(list(supernet.parameters())), "weights learn, too"

    def test_weights_of_what_was_found_fit_what_is_built_of_it(self, search: Search) -> None:
        supernet = self.moved(search).eval()
        genotype, network = search.space.derive(search.start, supernet)
        assert (network is None) == search.space.trained_anew
        if network is not None:
            again = built(search, genotype).eval()
            again.load_state_dict(network.state_dict())
            x = inputs(search.task.signature)
            torch.testing.assert_close(again(x), supernet(x))
            assert not any(parameter.requires_grad for parameter in named_architecture(again).values())


class SampledContract(SpaceContract):
    """A space whose networks are drawn and varied."""

    draws = 4  # networks of every case

    def genotypes(self, search: Search) -> list[Genotype]:
        space, signature = search.space, search.task.signature
        drawn = [space.sample(signature, generator_for(number)) for number in range(self.draws)]
        pairs = zip(drawn, drawn[1:], strict=False)
        children = [space.mutate(one, signature, generator_for(number)) for number, one in enumerate(drawn)]
        crossed = [space.crossover(*pair, signature, generator_for(number)) for number, pair in enumerate(pairs)]
        return drawn + [child for child in children + crossed if child is not None]

    def test_it_is_a_sampled_space(self, search: Search) -> None:
        assert isinstance(search.space, SampledSpace)

    def test_the_same_numbers_give_the_same_networks(self, search: Search) -> None:
        one, other = self.genotypes(search), self.genotypes(search)
        assert [genotype.hash for genotype in one] == [genotype.hash for genotype in other]
        assert len(set(one[: self.draws])) > 1

    def test_children_are_new_and_parents_stay(self, search: Search) -> None:
        space, signature = search.space, search.task.signature
        first, second = (space.sample(signature, generator_for(number)) for number in (10, 11))
        before = json.dumps([first.choices, second.choices])
        children = [space.mutate(first, signature, generator_for(number)) for number in range(5)]
        children += [space.crossover(first, second, signature, generator_for(number)) for number in range(5)]
        assert any(children)
        assert all(child != first for child in children[:5] if child)
        assert json.dumps([first.choices, second.choices]) == before

    def test_seeds(self, search: Search) -> None:
        seeds = search.space.seeds(search.task.signature)
        assert search.start in seeds
        assert len(set(seeds)) == len(seeds)

    def test_learning_makes_another_space(self, search: Search) -> None:
        space, signature = search.space, search.task.signature
        like = [space.sample(signature, generator_for(20))]
        before = self.genotypes(search)
        learned = space.learned(like, signature, 1.0)
        assert self.genotypes(search) == before
        drawn = [learned.sample(signature, generator_for(number)) for number in range(20)]
        same = [space.sample(signature, generator_for(number)) for number in range(20)]
        assert (drawn != same) == space.learns


LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}
WIDE = {"backbone.name": "wide-lenet", "backbone.widths": [2, 3, 4], "backbone.hidden": 4}
CNN = {"backbone.name": "cnn", "backbone.width": 4}


class TestBackbone(SpaceContract):
    name = "backbone"
    cases = (Case(images, LENET), Case(fields, {}))


class TestPortfolio(SpaceContract):
    name = "portfolio"
    cases = (Case(images, {**LENET, "space.spaces": ["xd"]}),)
    # On a short clock, a slow step may be judged by itself; the linear model would win without training.
    runs = {"budget.trials": 1, "budget.minutes": 600.0, "strategy.fitted": False}
    epochs = 4  # the final training goes on from the first one


class TestXD(ContinuousContract):
    name = "xd"
    cases = (
        Case(signals, {**LENET, "space.gates": "complex"}),
        Case(images, {**LENET, "backbone.pool": "average", "space.kinds": ["conv", "pool"], "space.max_kernel": 6}),
        Case(fields, {**CNN, "space.depth": [1, 2, 1]}),
    )
    runs = {"strategy.warmup_epochs": 1.0, "train.keep": "last"}  # operations that have moved


class TestChrysalis(ContinuousContract):
    name = "chrysalis"
    cases = (
        Case(images, {**WIDE, "space.begin": "warm,scratch", "space.tied": ["conv2,conv3"]}),
        Case(fields, {**CNN, "space.begin": "warm", "space.tied": ["*"]}),
        Case(signals, {**LENET, "space.depth": 2, "space.max_kernel": 6}),
    )
    runs = {"train.keep": "last"}


class TestDiscrete(ContinuousContract):
    name = "discrete"
    cases = (
        Case(images, LENET),
        Case(fields, CNN),
        Case(words, {"backbone.name": "resnet", "backbone.width": 4, "task.tokens": True}),
    )
    runs = {"strategy.warmup_epochs": 1.0}


CCNN = {"backbone.width": 6, "backbone.blocks": 2, "backbone.hidden": 8}


class TestDNArch(ContinuousContract):
    name = "dnarch"
    cases = (
        Case(signals, CCNN),
        Case(images, {**CCNN, "space.target": 0.6, "space.learn_temperature": True}),
        Case(fields, {**CCNN, "space.learn": "KR", "space.learn_mean": True}),
        Case(words, {**CCNN, "task.tokens": True, "space.learn": "WD", "space.step": 4}),
    )
    runs = {"train.keep": "last", "strategy.learning_rate": 0.05}

    def test_sizes_change_while_it_is_trained(self, found: eclose.Result) -> None:
        """So that an interruption, which another test looks at, comes in between."""
        search = self.cases[0].search(space=self.name)
        start = search.space.derive(search.start, search.space.supernet(search.start, search.task.signature))[0]
        widths, before = ([block["widths"] for block in each.choices["blocks"]] for each in (found.genotype, start))
        assert widths != before


class TestDNArchOfResidualNetworks(TestDNArch):
    name = "dnarch"
    cases = (
        Case(images, {"backbone.name": "resnet20", "backbone.width": 6}),
        Case(signals, {"backbone.name": "resnet", "backbone.width": 6, "space.learn_temperature": True}),
        Case(words, {"backbone.name": "resnet", "backbone.width": 6, "task.tokens": True, "space.step": 4}),
        Case(images, {"backbone.name": "resnet20", "backbone.width": 6, "space.learn": "RWD"}),
    )


class TestNos(ContinuousContract):
    name = "nos"
    small = {"space.blocks": 2, "space.search_cells": 3, "space.search_width": 4, "space.cells": 3, "space.width": 4}
    cases = (
        Case(images, small),
        Case(fields, {**small, "space.operations": "features"}),
        Case(signals, {**small, "space.partial": 2, "space.edge_norm": True, "space.gumbel": True, "space.flops": 1e6}),
        Case(words, {**small, "task.tokens": True}),
    )
    runs = {"final.train.epochs": 2, "space.drop_path": 0.2}


class TestEinspace(SampledContract):
    name = "einspace"
    small = {"space.nodes": 40, "space.flops": 1e6, "space.seeds": ["mixer"]}
    cases = (Case(images, small), Case(fields, small), Case(words, {**small, "task.tokens": True}))
    runs = {"budget.trials": 3}


def test_every_space_is_under_contract() -> None:
    assert under_contract(SpaceContract) >= own_members(spaces)


def test_a_space_without_a_contract_is_found_out() -> None:
    stranger = type("Stranger", (BackboneSpace,), {"__module__": "eclose.spaces.stranger"})
    with registered(spaces, stranger=stranger):
        assert own_members(spaces) - under_contract(SpaceContract) == {"stranger"}
