"""The space ``chrysalis``: K-operations that begin at random or as convolutions."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eclose.engine import Search
from eclose.errors import ConfigError
from eclose.ops.xd import XD, draw
from eclose.spaces.architecture import named_architecture
from eclose.train import generator_for
from tests.contracts.cases import Case, fields, images, inputs

LENET = {"backbone.name": "lenet", "backbone.widths": [2, 3], "backbone.hidden": [8]}


def searching(data: Any = images, **settings: Any) -> Search:
    network = LENET if data is images else {"backbone.name": "cnn", "backbone.width": 4}
    return Case(data, {**network, **settings}).search(space="chrysalis")


def operations(network: nn.Module) -> list[XD]:
    return [module for module in network.modules() if isinstance(module, XD)]


def gram(matrix: Tensor) -> Tensor:  # (n, n, 2)
    whole = torch.view_as_complex(matrix.detach().contiguous())
    return whole.conj().T @ whole


def test_from_scratch_matrices_of_depth_nine_are_unitary() -> None:
    search = searching()
    supernet = search.space.supernet(search.start, search.task.signature)
    found = operations(supernet)
    assert len(found) == 2
    for operation in found:
        architecture = operation.architecture
        assert (architecture.b, architecture.C, architecture.depth) == (None, None, (9, 9, 9))
        for part, scale in ((architecture.K, 1), (architecture.M, 1), (architecture.L, None)):
            for matrix in part:
                size = matrix.matrix.size
                expected = torch.eye(size, dtype=torch.complex64) * (scale or size)
                torch.testing.assert_close(gram(matrix.dense()) / (scale or size), expected / (scale or size))
    size = sum(parameter.numel() for parameter in named_architecture(supernet).values())
    assert size == sum(part.entries.numel() for operation in found for part in operation.architecture.parts())


def test_what_is_drawn_follows_from_the_seed_of_the_run_and_differs_from_layer_to_layer() -> None:
    entries = []
    for seed in (0, 0, 1):
        search = searching(**{"run.seed": seed})
        found = operations(search.space.supernet(search.start, search.task.signature))
        entries.append([operation.architecture.M[0].entries for operation in found])
    assert torch.equal(entries[0][0], entries[1][0])
    assert not torch.equal(entries[0][0], entries[2][0])
    shared = min(len(entry.flatten()) for entry in entries[0])
    assert not torch.equal(*(entry.flatten()[:shared] for entry in entries[0]))


@pytest.mark.parametrize("data", [images, fields])
def test_a_warm_start_is_the_convolution(data: Any) -> None:
    search = searching(data, **{"space.begin": "warm"})
    signature = search.task.signature
    torch.manual_seed(0)
    ours = search.space.supernet(search.start, signature).eval()
    plain = Case(data, {**LENET} if data is images else {"backbone.name": "cnn", "backbone.width": 4})
    backbone = plain.search(space="backbone")
    torch.manual_seed(0)
    theirs = backbone.space.build(backbone.start, signature).eval()
    torch.testing.assert_close(ours(inputs(signature)), theirs(inputs(signature)), rtol=1e-4, atol=1e-4)
    for operation in operations(ours):
        architecture = operation.architecture
        assert architecture.depth == (1, 1, 1)
        assert not list(architecture.parameters())[0].isnan().any()
        for part in (*architecture.K, *architecture.M):
            torch.testing.assert_close(gram(part.dense()), torch.eye(part.matrix.size, dtype=torch.complex64))


def drawn(depth: int, dtype: torch.dtype, size: int = 16) -> XD:
    torch.manual_seed(0)
    conv = nn.Conv1d(3, 4, 3, padding=1, bias=False, dtype=dtype)
    operation = XD.from_conv(conv, size, depth=(depth,) * 3, bias=False, gates=False)
    draw(operation.architecture, generator_for("test"))
    return operation


def test_outputs_keep_their_size() -> None:
    """No layer dies at the start: the mean square is within a factor of two of that of the convolution."""
    operation, x = drawn(9, torch.float32, 64), torch.randn(50, 3, 64)
    ratio = operation(x).square().mean() / nn.functional.conv1d(x, operation.weight, padding=1).square().mean()
    assert 0.25 < ratio < 2


def test_frozen_at_the_start_it_is_not_the_convolution() -> None:
    operation, x = drawn(9, torch.float32), torch.randn(2, 3, 16)
    free = operation(x)
    operation.architecture.requires_grad_(False)
    torch.testing.assert_close(operation(x), free)
    assert not torch.allclose(free, nn.functional.conv1d(x, operation.weight, padding=1), atol=0.1)


def test_gradients_through_depth_nine() -> None:
    operation = drawn(9, torch.float64, 4)
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    loss = operation(x).sin().sum()
    parameters = [part.entries for part in operation.architecture.parts()]
    slopes = torch.autograd.grad(loss, parameters)
    for parameter, slope in zip(parameters, slopes, strict=True):
        way = torch.randn(parameter.shape, generator=generator_for("way"), dtype=torch.float64)
        values = []
        for sign in (1e-6, -1e-6):
            with torch.no_grad():
                parameter.add_(sign * way)
                values.append(operation(x).sin().sum())
                parameter.sub_(sign * way)
        torch.testing.assert_close((slope * way).sum(), (values[0] - values[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_it_says_what_it_began_as() -> None:
    search = searching()
    network = search.space.build(search.start, search.task.signature)
    with torch.no_grad():
        for parameter in named_architecture(network).values():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator_for("moved")))
    (section,) = search.space.explain(search.start, network)
    assert section.sentences[0] == "It is lenet with K-operations in place of 2 layers."
    assert "started as a random operation" in section.sentences[2]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"space.begin": "cold"}, "space.begin is 'cold', but must be one of: scratch, warm"),
        ({"space.depth": -1}, "space.depth is -1, but must be at least 1, or 0 for that of the paper"),
    ],
    ids=str,
)
def test_options_that_do_not_fit(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        searching(**settings)
