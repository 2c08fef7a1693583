"""Built networks compute what their trees say: values and gradients against the literal run, counts against torch."""

import copy
import pickle
import random
from math import prod

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from eclose.errors import ConfigError
from eclose.ops.xd import XD
from eclose.signature import Signature
from eclose.spaces.einspace import NoChild, Settings, Tree, build, crossover, mutate, parse
from eclose.spaces.einspace.network.forks import Attention
from eclose.spaces.einspace.survey import Survey
from eclose.spaces.einspace.terminals.computations import GroupedLinear, SpreadLinear
from eclose.spaces.einspace.terminals.routing import Im2Col
from eclose.spaces.einspace.terminals.state import input_state
from eclose.spaces.relaxing.relax import relax
from tests.spaces.einspace.inputs import IMAGES, INPUTS, samples
from tests.spaces.einspace.literal import Literal

TINY = Settings(0.3, nodes=80, parameters=1e5, flops=2e6, activations=2e4)


def inputs(signature: Signature, batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if signature.tokens:
        return torch.randint(signature.vocabulary, signature.input_shape(batch), generator=generator)
    return torch.randn(signature.input_shape(batch), dtype=torch.float64, generator=generator)


def moved(network: nn.Module) -> nn.Module:
    """Away from initialisation, where norms and encodings hardly show."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator))
    return network


def check_against_literal(tree: Tree, signature: Signature) -> nn.Module:
    network = moved(build(tree, signature).double())
    literal = Literal(tree, signature, network.body)
    x = inputs(signature, 2)
    if signature.tokens:
        x = network.embedding(x).detach()
    x.requires_grad_()
    ours, truth = network.body(x), literal.run(x)
    torch.testing.assert_close(ours, truth)
    cost = Survey(tree, input_state(signature)).cost
    assert literal.written == cost.activations
    assert sum(p.numel() for p in network.body.parameters()) == cost.parameters
    weight = torch.randn(ours.shape, dtype=ours.dtype, generator=torch.Generator().manual_seed(2))
    wanted = [x, *network.body.parameters()]
    found = [torch.autograd.grad((y * weight).sum(), wanted, allow_unused=True) for y in (ours, truth)]
    for one, other in zip(*found, strict=True):
        if one is not None and other is not None:
            torch.testing.assert_close(one, other)
        else:
            assert one is None or not one.any()
            assert other is None or not other.any()
    return network


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_samples_children_and_crossovers_against_the_literal_run(signature: Signature) -> None:
    rng = random.Random(0)
    trees = samples(signature, 12, TINY)
    trees += [mutate(tree, signature, rng, TINY) for tree in trees]
    for first, second in zip(trees[:12], trees[12:], strict=True):
        try:
            trees.append(crossover(first, second, signature, rng, TINY))
        except NoChild:
            continue
    for tree in trees:
        check_against_literal(tree, signature)


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_networks_train(signature: Signature) -> None:
    for tree in samples(signature, 15):
        network = build(tree, signature)
        x = inputs(signature, 2)
        y = network(x if signature.tokens else x.float())
        assert y.shape == signature.output_shape(2)
        y.square().mean().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("name", ["images", "signals", "volumes", "text"])
def test_flops_are_those_that_torch_counts(name: str) -> None:
    signature = INPUTS[name]
    for tree in samples(signature, 20, TINY, seed=5):
        network = build(tree, signature).double()
        x = inputs(signature, 3)
        x = network.embedding(x).detach() if signature.tokens else x
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            network.body(x)
        assert counter.get_total_flops() == 3 * Survey(tree, input_state(signature)).cost.flops


def kept_for_backward(network: nn.Module, x: torch.Tensor) -> int:
    """Numbers that autograd keeps of a sample, other than parameters."""
    sizes: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        network(x)
    own = {tensor.untyped_storage().data_ptr() for tensor in (*network.parameters(), *network.buffers())}
    return sum(size for storage, size in sizes.items() if storage not in own) // len(x)


@pytest.mark.parametrize("signature", INPUTS.values(), ids=INPUTS)
def test_memory_of_a_network_is_that_of_its_activations(signature: Signature) -> None:
    """Heads included: copies that products need at most double it."""
    for tree in samples(signature, 40, seed=4):
        x = inputs(signature, 4)
        network = build(tree, signature)
        counted = Survey(tree, input_state(signature)).cost.activations
        around = prod(input_state(signature).shape) + prod(signature.output_shape(1))
        assert kept_for_backward(network, x if signature.tokens else x.float()) <= 2 * (counted + around)


SMALL_IMAGE = Signature("classification", 2, (7, 5), 3)


@pytest.mark.parametrize("window", ["1,1,0", "1,2,0", "3,1,1", "3,2,1", "4,4,0", "5,3,4", "2,1,2"])
@pytest.mark.parametrize(
    "signature", [Signature("regression", 3, (11,), 1), SMALL_IMAGE, Signature("regression", 2, (5, 4, 6), 1)]
)
def test_windows_and_a_linear_layer_are_a_convolution(window: str, signature: Signature) -> None:
    conv = f"route(im2col({window}), linear(6), col2im)"
    network = check_against_literal(parse(f"seq({conv}, relu)"), signature)
    assert [type(module).__name__ for module in network.body] == [f"Conv{signature.axes}d", "LeakyReLU"]
    patches = check_against_literal(parse(f"seq(route(im2col({window}), linear(6), identity), norm)"), signature)
    assert not any(isinstance(module, Im2Col) for module in patches.modules())
    windows = check_against_literal(parse(f"route(im2col({window}), seq(norm, linear(6)), col2im)"), signature)
    assert any(isinstance(module, Im2Col) for module in windows.modules())


def head_of(queries: str, keys: str, values: str, product: str = "scaled-matmul") -> str:
    scores = f"seq(branch(clone(2), {queries}, {keys}, {product}), softmax)"
    return f"branch(clone(2), {scores}, {values}, matmul)"


LINEAR_KEYS = "route(identity, linear(8), permute(2,1))"


@pytest.mark.parametrize(
    "source",
    [
        head_of("linear(8)", LINEAR_KEYS, "linear(5)"),
        head_of("linear(8)", LINEAR_KEYS, "linear(5)", "matmul"),
        head_of("seq(linear(4), relu)", "route(permute(2,1), seq(relu, identity), identity)", "identity").replace(
            "4", "12"
        ),
        f"branch(clone(4), {head_of('linear(8)', LINEAR_KEYS, 'linear(5)')}, concat(2))",
        f"branch(group(2,4), {head_of('linear(8)', LINEAR_KEYS, 'linear(5)')}, concat(2))",
        f"branch(clone(4), branch(group(2,4), {head_of('linear(8)', LINEAR_KEYS, 'linear(5)')}, add), concat(1))",
        "branch(clone(2), seq(norm, seq(branch(group(2,2), linear(8), "
        + LINEAR_KEYS
        + ", scaled-matmul), softmax)), route(permute(2,1), linear(9), permute(2,1)), matmul)",
    ],
)
def test_products_around_a_softmax_are_attention(source: str) -> None:
    signature = Signature("regression", 3, (6, 6), 1)  # as tokens: 9 x 12
    tree = parse(f"route(im2col(2,2,0), {source}, identity)")
    network = check_against_literal(tree, signature)
    assert sum(isinstance(module, Attention) for module in network.modules()) == 1


def test_attention_of_images_and_what_is_not_attention() -> None:
    keys = "route(identity, linear(8), permute(1,3,2))"
    network = check_against_literal(parse(head_of("linear(8)", keys, "linear(4)").replace("relu", "norm")), IMAGES)
    assert any(isinstance(module, Attention) for module in network.modules())
    square = Signature("regression", 3, (8, 8), 1)
    for source in (
        head_of("linear(8)", keys, "identity").replace("softmax", "relu"),
        head_of("linear(8)", keys, "identity").replace("scaled-matmul", "add"),
        head_of("linear(8)", keys, "identity").replace(", matmul)", ", add)"),
    ):
        network = check_against_literal(parse(source), square)
        assert not any(isinstance(module, Attention) for module in network.modules())


REPEATED = [
    ("linear(6)", nn.Linear),
    ("seq(relu, linear(6))", nn.Linear),
    ("seq(linear(6), linear(3))", GroupedLinear),
    ("route(im2col(3,1,1), linear(6), col2im)", nn.Conv2d),
    ("seq(norm, route(im2col(3,2,1), linear(6), col2im))", nn.Conv2d),
    ("route(im2col(2,2,0), seq(norm, pos-enc), identity)", nn.Module),
    ("seq(pos-enc, route(permute(3,1,2), softmax, identity))", nn.Module),
    ("branch(clone(2), identity, linear(4), matmul)", nn.Module),
    ("branch(group(2,2), norm, linear(4), concat(3))", nn.Module),
    ("branch(clone(4), linear(6), add)", GroupedLinear),
    ("seq(norm, branch(group(3,4), linear(6), concat(1)))", GroupedLinear),
    ("identity", nn.Module),
]


@pytest.mark.parametrize(("inner", "kind"), REPEATED)
@pytest.mark.parametrize(
    "around", ["branch(clone(4), {}, add)", "branch(clone(8), {}, concat(2))", "branch(group(1,4), {}, concat(1))"]
)
def test_repeated_branches_run_as_one(inner: str, kind: type[nn.Module], around: str) -> None:
    signature = Signature("regression", 8, (4, 4), 1)
    network = check_against_literal(parse(f"seq({around.format(inner)}, relu)"), signature)
    found = [module for module in network.body.modules() if isinstance(module, kind)]
    assert found
    assert len([module for module in network.body.modules() if module._parameters]) <= 2, "not one module for each copy"


def test_repeated_branches_start_with_different_parameters() -> None:
    network = build(parse("seq(branch(clone(4), linear(6), concat(1)), relu)"), IMAGES)
    (layer,) = (module for module in network.modules() if isinstance(module, SpreadLinear))
    first, second, *_ = layer.weight.detach().chunk(4)
    assert not torch.equal(first, second)
    assert layer.weight.abs().max() <= 32**-0.5, "drawn like a layer of its own"


@pytest.mark.parametrize("order", ["3,2,1", "2,3,1", "1,3,2"])
def test_gradients_of_norms_on_axes_of_size_1(order: str) -> None:
    """Which torch's own batch norm gets wrong where the gradient is permuted."""
    thin = Signature("classification", 1, (9, 14), 3)
    check_against_literal(
        parse(f"route(permute(2,1,3), seq(norm, route(permute({order}), linear(8), identity)), identity)"), thin
    )


def test_a_tree_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"im2col\(16,16,0\) does not fit Im 2 x 7 x 5 \(node 1.0 of the tree"):
        build(parse("seq(norm, route(im2col(16,16,0), norm, identity))"), SMALL_IMAGE)
    with pytest.raises(ConfigError, match="add does not fit Im 2 x 7 x 16 and Im 2 x 7 x 5"):
        build(parse("branch(clone(2), linear(16), norm, add)"), SMALL_IMAGE)


HEADS = f"branch(clone(4), {head_of('linear(8)', LINEAR_KEYS, 'linear(8)')}, concat(2))"
BLOCK = f"route(im2col(4,4,0), seq({HEADS}, norm), col2im)"
EXPORTED = f"seq({BLOCK}, branch(group(1,4), seq(norm, route(im2col(3,2,1), linear(4), col2im)), concat(1)))"


def test_built_networks_are_plain_modules() -> None:
    """They are copied, pickled, saved and exported, the batch left free."""
    network = build(parse(EXPORTED), IMAGES).eval()
    x = torch.randn(3, 3, 32, 32)
    y = network(x)
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        torch.testing.assert_close(other(x), y)
    fresh = build(parse(EXPORTED), IMAGES).eval()
    fresh.load_state_dict(network.state_dict())
    torch.testing.assert_close(fresh(x), y)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(network, (x,), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(program.module()(x[:2]), network(x[:2]))


def test_convolutions_of_a_found_network_can_be_relaxed() -> None:
    tree = parse("seq(route(im2col(3,1,1), linear(4), col2im), seq(relu, route(im2col(3,2,1), linear(4), col2im)))")
    signature = Signature("classification", 2, (8, 8), 3)
    network = build(tree, signature).double()
    x = inputs(signature, 2)
    relaxed = relax(network, x)
    assert sum(isinstance(module, XD) for module in relaxed.modules()) == 2
    torch.testing.assert_close(relaxed(x), network(x))
