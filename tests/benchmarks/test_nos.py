"""The speed of cells is measured only if those by hand are ours."""

import torch

from benchmarks.nos import check


def test_cells_by_hand_are_ours() -> None:
    assert check(torch.device("cpu")).startswith("the cells by hand give what ours give")
