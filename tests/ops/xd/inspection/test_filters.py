"""Filters at single places against the linear map itself, and distances from unitary matrices."""

from typing import Any

import pytest
import torch
from torch import nn

from eclose.ops.kaleidoscope import Kaleidoscope
from eclose.ops.xd import XD, filters_at_random, from_unitary, random_architecture
from tests.ops.xd.cases import shaken


def operation(axes: int, **options: Any) -> XD:
    torch.manual_seed(0)
    layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1](4, 6, 3, padding=1, dtype=torch.float64, **options)
    return XD.from_conv(layer, (9, 8, 7)[:axes], bias=False, gates=False)


@pytest.mark.parametrize(("axes", "options"), [(1, {}), (2, {"stride": 2}), (2, {"groups": 2}), (3, {})])
def test_a_filter_is_a_row_of_the_linear_map(axes: int, options: dict[str, int]) -> None:
    found = shaken(operation(axes, **options))
    filters = filters_at_random(found, 5, torch.Generator().manual_seed(1))
    sizes = tuple(axis.size for axis in found.axes)
    for number, (place, (output, channel)) in enumerate(zip(filters.places, filters.channels, strict=True)):
        impulses = torch.zeros(2, 4, *sizes, dtype=torch.float64)
        at = tuple(torch.randint(size, (1,)).item() for size in sizes)
        impulses[(0, channel, *at)] = 1
        with torch.no_grad():
            here, nothing = found(impulses)[(slice(None), output, *place)]
        torch.testing.assert_close(filters.found[number][at], here - nothing)
    assert not torch.allclose(filters.found, filters.start, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"padding_mode": "circular"}, {"dilation": 2}, {"stride": 3}], ids=str)
def test_at_its_start_an_operation_has_the_filters_of_the_convolution(options: dict[str, Any]) -> None:
    """Within its window, which may go on at the other end of the input."""
    filters = filters_at_random(operation(2, **options), 24, torch.Generator().manual_seed(1))
    torch.testing.assert_close(filters.start, filters.convolution)
    torch.testing.assert_close(filters.found, filters.convolution)
    assert filters.within == pytest.approx(1)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_centres_are_those_of_the_windows(axes: int) -> None:
    """Between the first and the last input that the convolution sees, half a window from the border at most."""
    filters = filters_at_random(operation(axes), 24, torch.Generator().manual_seed(1))
    assert filters.centres == filters.places  # kernels of three taps with one of padding
    wide = filters_at_random(operation(axes, stride=2, dilation=3), 24, torch.Generator().manual_seed(1))
    for place, centre, seen in zip(wide.places, wide.centres, wide.seen, strict=True):
        first, last = seen.nonzero().amin(0).tolist(), seen.nonzero().amax(0).tolist()
        assert all(low <= middle <= high for low, middle, high in zip(first, centre, last, strict=True))
        assert centre == tuple(min(2 * p + 2, size - 1) for p, size in zip(place, seen.shape, strict=True))


def test_from_scratch_filters_are_spread() -> None:
    found = operation(2)
    found.architecture = random_architecture(found.architecture, 9, torch.Generator().manual_seed(1))
    filters = filters_at_random(found, 8, torch.Generator().manual_seed(1))
    assert filters.within < 0.5
    torch.testing.assert_close(filters.start, filters.found)
    assert not torch.allclose(filters.start, filters.convolution, atol=1e-3)


def test_distance_from_the_nearest_unitary_matrix() -> None:
    """Against the polar decomposition of the whole Kronecker product."""
    torch.manual_seed(0)
    parts = [Kaleidoscope(size, 2).double() for size in (4, 6)]
    assert from_unitary(parts) == pytest.approx(0, abs=1e-3)
    with torch.no_grad():
        for part in parts:
            part.entries.add_(0.1 * torch.randn_like(part.entries))
    whole = torch.kron(*(torch.view_as_complex(part.dense().detach().contiguous()) for part in parts))
    left, _, right = torch.linalg.svd(whole)
    nearest = left @ right
    expected = (whole - nearest).norm() / nearest.norm()
    assert from_unitary(parts) == pytest.approx(expected.item())
    assert from_unitary([Kaleidoscope(2048)]) is None
