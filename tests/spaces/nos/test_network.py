"""The network that a search ends with: its sizes, its tower, drop-path, and that it is what was searched."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from eclose.signature import Signature
from eclose.spaces.nos.block import BlockChoice, DropPath
from eclose.spaces.nos.layout import KINDS, NORMAL, REDUCTION, lay_out
from eclose.spaces.nos.network import ChosenNetwork
from eclose.spaces.nos.operations import OPERATIONS
from eclose.spaces.nos.supernet import Choices, Supernet
from eclose.train.module_hooks import Verbs

NAMES = tuple(OPERATIONS)
IMAGES = Signature("classification", 3, (12, 10), 5)
CELLS = {
    NORMAL: (
        BlockChoice(((0, "sep_conv_3"), (1, "spatial_attention")), "dynamic_conv_3"),
        BlockChoice(((1, "skip"), (2, "dil_conv_3")), "channel_attention"),
    ),
    REDUCTION: (
        BlockChoice(((0, "max_pool_3"), (1, "channel_attention")), "skip"),
        BlockChoice(((1, "sep_conv_5"), (2, "dynamic_conv_5")), "avg_pool_3"),
    ),
}


def network(signature: Signature = IMAGES, cells: int = 3, auxiliary: float = 0.4, drop: float = 0.0) -> ChosenNetwork:
    torch.manual_seed(0)
    return ChosenNetwork(signature, lay_out(signature, cells, 4, 2), CELLS, auxiliary, DropPath(drop))


def logits_of(cell: tuple[BlockChoice, ...]) -> torch.Tensor:
    """An architecture of which one operation of every chosen edge is left, and none of the others."""
    rows = [(block, source) for block in range(2) for source in range(2 + block)]
    logits = torch.zeros(len(rows) + 2, len(NAMES))
    for block, choice in enumerate(cell):
        for source, name in choice.first:
            logits[rows.index((block, source)), NAMES.index(name)] = 1
        logits[len(rows) + block, NAMES.index(str(choice.second))] = 1
    return logits


@pytest.mark.parametrize(
    "signature",
    [
        IMAGES,
        Signature("dense", 2, (9,), 3),
        Signature("dense", 1, (4, 5, 9), 2),
        Signature("classification", 1, (20,), 2, vocabulary=7),
    ],
)
def test_the_whole_network_is_the_supernet_with_one_operation_left(signature: Signature) -> None:
    """Weights of the supernet, where only the chosen operations have any share."""
    layout, choices = lay_out(signature, 3, 4, 2), Choices(NAMES, blocks=2)
    torch.manual_seed(1)
    supernet = Supernet(signature, layout, choices).double().eval()
    plain = ChosenNetwork(signature, layout, CELLS, 0.0, DropPath(0.0)).double().eval()
    for name, tensor in supernet.named_buffers():
        if name.endswith("running_mean"):
            tensor.normal_()
    searched, state = supernet.state_dict(), plain.state_dict()
    for name in state:
        source = searched_name(name, layout)
        if source in searched:
            state[name] = searched[source]
        else:
            assert name.endswith(("weight", "bias")), name  # those of norms, which the supernet does not have
    plain.load_state_dict(state)
    for kind, architecture in supernet.architecture.items():
        # The softmax of such numbers is 1 and 0 to the last digit; on edges without a choice all shares are zero.
        architecture.forward = one_hot_shares(architecture, logits_of(CELLS[kind]).double())  # type: ignore[method-assign]
    shape = signature.input_shape(2)
    x = torch.randint(7, shape) if signature.tokens else torch.randn(shape).double()
    torch.testing.assert_close(plain(x), supernet(x))


def one_hot_shares(architecture: nn.Module, weights: torch.Tensor):
    from eclose.spaces.nos.mixed_block import Shares

    first = weights[:5].split([2, 3])
    shares = [Shares(first[n], weights.new_ones(2 + n), weights[5 + n : 6 + n]) for n in range(2)]
    return lambda: shares


def searched_name(name: str, layout) -> str:
    """Where the supernet keeps what the chosen network has under this name."""
    parts = name.split(".")
    if "blocks" not in parts or "operations" not in parts:
        return name
    cell, block, tier, place = int(parts[1]), int(parts[3]), parts[4], int(parts[6])
    choice = CELLS[layout.places[cell].kind][block]
    source, operation = choice.first[place] if tier == "first" else (0, choice.second)
    return ".".join([*parts[:5], "edges", str(source), str(NAMES.index(str(operation))), *parts[7:]])


def test_cells_at_a_third_and_two_thirds_reduce() -> None:
    layout = lay_out(Signature("classification", 3, (32, 32), 10), 20, 36, 4)
    assert [n for n, place in enumerate(layout.places) if place.kind == REDUCTION] == [6, 13]
    assert layout.ends == [5, 12, 19]
    assert [place.after for place in layout.places][::6] == [(32, 32), (16, 16), (16, 16), (8, 8)]
    assert [place.width for place in layout.places][::6] == [36, 72, 72, 144]
    assert layout.stem_channels == (108, 108)


def test_the_form_for_imagenet() -> None:
    """14 cells of 48 channels: a stem of stride 4, then a further one, and a network for phones."""
    signature = Signature("classification", 3, (224, 224), 1000)
    layout = lay_out(signature, 14, 48, 4)
    assert layout.stem == ((2, 2), (2, 2), (2, 2))
    assert layout.places[0].sizes == ((56, 56), (28, 28))
    assert layout.places[-1].after == (7, 7)
    cells = {kind: [BlockChoice(((0, "skip"), (1, "sep_conv_3")), "channel_attention")] * 4 for kind in KINDS}
    with torch.device("meta"):
        imagenet = ChosenNetwork(signature, layout, cells, 0.4, DropPath(0.0)).eval()
        with FlopCounterMode(display=False) as counter:
            assert imagenet(torch.zeros(1, 3, 224, 224)).shape == (1, 1000)
    assert counter.get_total_flops() / 2 < 600e6


def test_short_axes_keep_their_points() -> None:
    layout = lay_out(Signature("classification", 1, (100,), 3), 5, 4, 4)
    assert {place.after for place in layout.places} == {(100,)}
    assert lay_out(Signature("classification", 1, (5000,), 3), 5, 4, 4).places[0].sizes[1] == (625,)
    assert lay_out(Signature("dense", 1, (5000,), 3), 5, 4, 4).places[0].sizes[1] == (5000,)


def test_the_tower_counts_while_the_network_is_trained() -> None:
    net = network()
    verbs, x, y = Verbs(net), torch.randn(4, 3, 12, 10), torch.tensor([0, 1, 2, 3])
    loss = lambda output, target: nn.functional.cross_entropy(output, target, reduction="none")  # noqa: E731
    answer = net(x)
    ((weight, second),) = copy.copy(net).auxiliary_outputs()
    assert (weight, second.shape) == (0.4, (4, 5))
    net(x)
    extended = verbs.extended(loss(answer, y), y, loss)
    torch.testing.assert_close(extended, loss(answer, y) + 0.4 * loss(second, y))
    extended.sum().backward()
    assert all(parameter.grad is not None for parameter in net.tower.parameters())
    assert net.auxiliary_outputs() == []
    copy.deepcopy(net)
    net.eval()
    net(x)
    assert net.auxiliary_outputs() == []


@pytest.mark.parametrize(("cells", "behind"), [(3, 2), (5, 3), (8, 5), (14, 9), (20, 13)])
def test_the_tower_stands_behind_two_thirds_of_the_cells(cells: int, behind: int) -> None:
    """The numbers are those of DARTS: the second reduction, whose output it reads."""
    net = network(cells=cells)
    read: dict[str, torch.Tensor] = {}
    net.tower.register_forward_pre_hook(lambda module, given: read.update(tower=given[0]))
    net.cells[behind].register_forward_hook(lambda module, given, output: read.update(cell=output))
    net(torch.randn(2, 3, 12, 10))
    assert read["tower"] is read["cell"]
    assert [n for n, place in enumerate(net.layout.places) if place.kind == REDUCTION] == [cells // 3, behind]


def test_a_regression_has_no_tower() -> None:
    assert network(Signature("regression", 3, (12, 10), 1)).tower is None
    assert network(auxiliary=0.0).tower is None


def test_the_mean_over_draws_is_the_output() -> None:
    torch.manual_seed(0)
    drop, x = DropPath(0.3), torch.randn(20_000, 2)
    y = drop(x)
    dropped = (y == 0).all(1).float().mean()
    assert abs(dropped - 0.3) < 4 * (0.3 * 0.7 / 20_000) ** 0.5
    kept = y.abs().sum(1) > 0
    torch.testing.assert_close(y[kept], x[kept] / 0.7)
    assert torch.equal(drop.eval()(x), x)


def test_drop_path_rises() -> None:
    drop = DropPath(0.3, epochs=10)
    for epochs, probability in ((0.0, 0.0), (5.0, 0.15), (10.0, 0.3), (12.0, 0.3)):
        Verbs(nn.Sequential(drop)).before_step(epochs)
        assert float(drop.kept) == pytest.approx(1 - probability)


def test_paths_are_dropped_where_another_stays() -> None:
    net = network(drop=0.3)
    first, second = net.cells[0].blocks
    assert [drops for *_, drops in first.first.reads] == [False, True], "not the only one that gives features"
    assert [drops for *_, drops in second.first.reads] == [False, True], "skips stay"
    assert [drops for *_, drops in first.second.reads] == [True]
    assert len([module for module in net.modules() if isinstance(module, DropPath)]) == 1, "one number for all"
    x = torch.randn(4, 3, 12, 10)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))
