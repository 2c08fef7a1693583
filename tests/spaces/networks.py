"""Networks that several tests relax."""

import torch
from torch import nn


class Twice(nn.Module):
    """One convolution in two places, and one that never runs."""

    def __init__(self, spare: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 2, 3, padding=1)
        self.second = self.first
        self.spare = nn.Conv1d(2, 2, 3) if spare else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))
