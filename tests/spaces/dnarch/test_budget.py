"""Where a budget shifts masks to: as near as they can, and none of them in vain."""

import pytest
import torch
from torch import Tensor

from eclose.spaces.dnarch.budget import Budget

HEAT = torch.tensor(25.0)


def steps(offset: Tensor, number: int) -> float:
    """A whole number of so many."""
    return float(((offset + 1) / 2 * number).floor())


@pytest.mark.parametrize("order", [("fine", "idle", "coarse"), ("fine", "coarse", "idle")])
def test_masks_that_change_nothing_stay(order):
    """However coarse the others are, wherever they begin, and whatever the goal is."""
    for seed in range(60):
        drawn = torch.rand(7, generator=torch.Generator().manual_seed(seed)).tolist()
        fine, coarse, weight = 2 + int(10 * drawn[0]), 2 + int(4 * drawn[1]), drawn[2]

        def cost(offsets, fine=fine, coarse=coarse, weight=weight):
            return torch.tensor(0.3 + weight * steps(offsets["fine"][0], fine) + steps(offsets["coarse"][0], coarse))

        begin = {name: (torch.tensor(2 * at - 1), HEAT) for name, at in zip(order, drawn[3:6], strict=True)}
        budget = Budget(float(cost(begin)) * (0.6 + drawn[6]), penalty=0.1)
        met = budget.met(begin, cost, 0.002)
        assert met["idle"][0] == begin["idle"][0]
        ours, before = (abs(float(cost(offsets)) / budget.goal - 1) for offsets in (met, begin))
        assert ours <= before
