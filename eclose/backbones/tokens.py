"""Token numbers as channels, so that every network over one axis also reads text."""

import torch
from torch import nn

EMBEDDING_WIDTH = 64


class TokenEmbedding(nn.Module):
    """``y[b, :, t] = E[x[b, t]]`` with one learned row of ``E`` for each token of the vocabulary."""

    def __init__(self, vocabulary: int, width: int = EMBEDDING_WIDTH) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # (batch, length)
        """``(batch, width, length)``."""
        embedded: torch.Tensor = self.table(tokens)  # (batch, length, width)
        return embedded.transpose(1, 2)
