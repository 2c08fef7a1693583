"""Networks compute where their weights and their input lie. Nothing of them stays on the CPU, and nothing waits."""

import copy

import pytest
import torch

from eclose.backbones import backbones, make_backbone
from eclose.engine.strategy import plain_training
from eclose.signature import Signature
from eclose.train import generator_for
from tests.backbones.test_contract import LARGE, NUMBERS, ONE_KIND, ORDINARY, SMALL, build, inputs
from tests.contracts.cases import Case, fields, images, signals, words
from tests.devices.elsewhere import AROUND, DEVICE, elsewhere


@pytest.mark.parametrize(("name", "axes", "kind"), [case for case in ONE_KIND if case[0] not in LARGE])
def test_backbones(name, axes, kind):
    model, signature = build(name, kind, ORDINARY[axes])
    here, x = copy.deepcopy(model), inputs(signature, 3)
    torch.manual_seed(0)
    here(x).square().sum().backward()
    expected = here.eval()(x)
    with elsewhere() as notes:
        model.to(DEVICE)
        x = x.to(DEVICE)
        torch.manual_seed(0)
        notes.clear()
        model(x).square().sum().backward()
        answer = model.eval()(x)
        assert notes == []
    assert torch.equal(answer.values, expected)
    assert all(torch.equal(p.grad.values, q.grad) for p, q in zip(model.parameters(), here.parameters(), strict=True))


@pytest.mark.parametrize("name", sorted(set(backbones) - LARGE - {*NUMBERS}))
def test_backbones_on_tokens(name):
    kind = "segmentation" if name == "unet" else "classification"
    model = make_backbone(name, Signature(kind, 1, (9,), 4, vocabulary=11), SMALL.get(name, {}))
    with elsewhere() as notes:
        model.to(DEVICE)
        tokens = (torch.arange(18).reshape(2, 9) % 11).to(DEVICE)
        notes.clear()
        model(tokens).square().sum().backward()
        assert notes == []


@pytest.mark.parametrize("data", [signals, images, fields, words], ids=lambda data: data.__name__)
def test_networks_of_a_grammar(data):
    search = Case(data, {"task.tokens": True} if data is words else {}).search(space="einspace")
    for number in range(6):
        drawn = search.space.sample(search.task.signature, generator_for(number, "network"))
        with elsewhere() as notes:
            prepared = plain_training(search, drawn, AROUND)
            x, y = (values.to(DEVICE) for values in search.task.train.take(torch.arange(6)))
            prepared.step.set_rate(1.0, 0.0)
            notes.clear()
            prepared.step(x, y, 6)
            assert notes == [], search.space.text(drawn)
