import pytest
import torch
from torch import nn

from eclose.backbones.layers import GlobalAverage, average_pool, batch_norm, conv, max_pool


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layers_by_axes(axes):
    assert conv(axes) is getattr(nn, f"Conv{axes}d")
    assert batch_norm(axes) is getattr(nn, f"BatchNorm{axes}d")
    assert max_pool(axes) is getattr(nn, f"MaxPool{axes}d")
    assert average_pool(axes) is getattr(nn, f"AvgPool{axes}d")


def test_global_average():
    x = torch.randn(2, 3, 4, 5, 6)
    torch.testing.assert_close(GlobalAverage()(x), x.mean(dim=(2, 3, 4)))
