import pytest
import torch
from torch.nn import functional as F

from eclose.exports.plain_operations import _adaptive_average


@pytest.mark.parametrize(
    ("sizes", "cells"), [((9, 5), (4, 5)), ((1, 3), (2, 2)), ((1, 7), (1, 3)), ((4, 6, 5), (2, 3, 7))]
)
def test_averages_over_cells_are_those_of_torch(sizes: tuple[int, ...], cells: tuple[int, ...]) -> None:
    x = torch.randn(2, 3, *sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wanted = {2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[len(sizes)](x, cells)
    torch.testing.assert_close(_adaptive_average(x, list(cells)), wanted)
