import torch

from eclose.backbones import TokenEmbedding


def test_rows_of_the_table_become_channels():
    embedding = TokenEmbedding(7, width=3)
    tokens = torch.tensor([[0, 6, 2], [1, 1, 5]])
    y = embedding(tokens)
    assert y.shape == (2, 3, 3)
    assert torch.equal(y[1, :, 2], embedding.table.weight[5])


def test_width():
    assert TokenEmbedding(7)(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 64, 5)
