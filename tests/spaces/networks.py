"""Networks that several tests relax, and a step away from where they start."""

import torch
from torch import nn

from eclose.spaces.architecture import named_architecture


def moved(model: nn.Module, by: float = 0.05) -> nn.Module:
    """Away from its architecture's start by a step, so that no shortcut computes it."""
    with torch.no_grad():
        for parameter in named_architecture(model).values():
            parameter.add_(by * torch.randn_like(parameter))
    return model


class Twice(nn.Module):
    """One convolution in two places, and one that never runs."""

    def __init__(self, spare: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 2, 3, padding=1)
        self.second = self.first
        self.spare = nn.Conv1d(2, 2, 3) if spare else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))
