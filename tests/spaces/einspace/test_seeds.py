"""Seeds are the networks they are named after."""

import random
import time

import pytest
import torch

from eclose.signature import Signature
from eclose.spaces.einspace import SEEDS, build, cost_of, digest, from_json, mutate, parse, text, to_json
from eclose.spaces.einspace.network.forks import Attention
from eclose.spaces.einspace.seeds import FITTED
from eclose.spaces.einspace.seeds import PAPER as PAPERS
from eclose.spaces.einspace.survey import Survey
from eclose.spaces.einspace.terminals.routing import Im2Col
from eclose.spaces.einspace.terminals.state import input_state
from tests.spaces.einspace.inputs import INPUTS
from tests.spaces.einspace.network.test_builder import moved
from tests.spaces.einspace.plain import plain

PAPER = Signature("classification", 3, (64, 64), 10)
MILLIONS = {"resnet18": 11.2, "wrn16_4": 2.8, "vit": 4.4, "mixer": 6.5}
ATTENTIONS = {"vit": 4, "small_vit": 2}


@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_parameter_counts(name: str) -> None:
    with torch.device("meta"):
        network = build(SEEDS[name](PAPER), PAPER)
    parameters = sum(p.numel() for p in network.parameters())
    assert round(parameters / 1e6, 1) == MILLIONS[name]
    with torch.device("meta"):
        assert parameters == sum(p.numel() for p in plain(name, 3, 256, 10).parameters())


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.parametrize("training", [True, False])
def test_the_same_function_as_the_plain_network(name: str, training: bool) -> None:
    signature = Signature("classification", 2, (17, 13), 5)
    torch.manual_seed(0)
    network = build(SEEDS[name](signature), signature).double().train(training)
    reference = moved(plain(name, 2, 12 if name in PAPERS else 63, 5).double()).train(training)
    ours, theirs = list(network.parameters()), list(reference.parameters())
    with torch.no_grad():
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.shape == other.shape
            mine.copy_(other)
    x = torch.randn(3, 2, 17, 13, dtype=torch.float64)
    y, truth = network(x), reference(x)
    torch.testing.assert_close(y, truth)
    weight = torch.randn_like(truth)
    gradients = [torch.autograd.grad((z * weight).sum(), p) for z, p in ((y, ours), (truth, theirs))]
    scale = max(float(gradient.abs().max()) for gradient in gradients[1])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9 * scale)  # that of a key's bias is zero


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_seeds_for_every_input(name: str, signature: Signature) -> None:
    tree = SEEDS[name](signature)
    assert parse(text(tree)) == tree
    assert from_json(to_json(tree)) == tree
    Survey(tree, input_state(signature))
    with torch.device("meta"):
        network = build(tree, signature)
        assert not any(isinstance(module, Im2Col) for module in network.modules())
        assert sum(isinstance(module, Attention) for module in network.modules()) == ATTENTIONS.get(name, 0)
        x = torch.zeros(signature.input_shape(2), dtype=torch.long if signature.tokens else torch.float32)
        assert network(x).shape == signature.output_shape(2)


@pytest.mark.parametrize("name", SEEDS)
def test_mutations_of_seeds(name: str) -> None:
    tree, rng = SEEDS[name](PAPER), random.Random(0)
    begun = time.process_time()
    children = [mutate(tree, PAPER, rng) for _ in range(40)]
    assert (time.process_time() - begun) / 40 < 0.05
    assert len({digest(child) for child in children} | {digest(tree)}) > 35
    for child in children[:8]:
        with torch.device("meta"):
            assert build(child, PAPER)(torch.zeros(2, 3, 64, 64)).shape == (2, 10)


SIZES = {
    "boards": Signature("classification", 1, (8, 8), 10),
    "heartbeats": Signature("classification", 1, (140,), 5),
    "images": Signature("classification", 3, (32, 32), 10),
    "sounds": Signature("classification", 1, (16_000,), 5),
}


def ends(name: str, signature: Signature) -> tuple[int, ...]:
    return Survey(SEEDS[name](signature), input_state(signature)).after.shape


def test_fitted_networks_have_strides_and_patches_by_the_size_of_the_input() -> None:
    after = {kind: [ends(name, signature) for name in FITTED] for kind, signature in SIZES.items()}
    assert after["boards"] == [(64, 8, 8), (64, 8, 8), (64, 64), (64, 64)]
    assert after["heartbeats"] == [(128, 35), (128, 140), (47, 64), (47, 64)]
    assert after["images"] == [(128, 8, 8), (64, 32, 32), (64, 64), (64, 64)]
    assert after["sounds"] == [(128, 125), (128, 500), (64, 64), (64, 64)]
    field = Signature("dense", 1, (85, 85), 1)
    assert [ends(name, field) for name in ("resnet", "inception")] == [(32, 85, 85), (64, 85, 85)]


@pytest.mark.parametrize("signature", SIZES.values(), ids=SIZES)
def test_fitted_networks_are_small(signature: Signature) -> None:
    known = cost_of(SEEDS["wrn16_4"](signature), signature)
    for seed in FITTED.values():
        cost = cost_of(seed(signature), signature)
        assert cost.parameters < known.parameters
        assert cost.flops < known.flops


@pytest.mark.parametrize("name", FITTED)
def test_fitted_networks_learn(name: str) -> None:
    """Whether a bump is wide or narrow, wherever it is."""
    signature = Signature("classification", 1, (30,), 2)
    torch.manual_seed(0)
    y = torch.arange(64) % 2
    x = torch.exp(-((torch.arange(30) - torch.randint(5, 25, (64, 1))) ** 2) / (1.0 + 4 * y[:, None])).unsqueeze(1)
    network = build(SEEDS[name](signature), signature)
    optimiser = torch.optim.AdamW(network.parameters(), 3e-3)
    for _ in range(60):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.3
