"""Attention of channels and of points, as the listing A.1.1 has them."""

import pytest
import torch

from eclose.ops.attention import ChannelAttention, SpatialAttention


@pytest.mark.parametrize("sizes", [(9,), (5, 6), (3, 4, 5)])
def test_attention_of_channels(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    module, x = ChannelAttention(32, 20, len(sizes)), torch.randn(2, 32, *sizes)
    mean = x.flatten(2).mean(2)
    hidden = (mean @ module.squeeze.weight.flatten(1).T).relu()
    assert hidden.shape == (2, 2), "a sixteenth of the channels"
    wanted = (hidden @ module.excite.weight.flatten(1).T).sigmoid()
    factors = module(x)
    assert factors.shape == (2, 20, *(1,) * len(sizes))
    torch.testing.assert_close(factors.flatten(1), wanted)


@pytest.mark.parametrize("stride", [(1,), (2,), (1, 2), (2, 2, 1)])
def test_attention_of_points(stride: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    sizes = (7, 6, 5)[: len(stride)]
    module, x = SpatialAttention(32, stride), torch.randn(3, 32, *sizes)
    kept = x[(..., *(slice(None, None, step) for step in stride))]
    narrow = torch.einsum("oc,bc...->bo...", module.squeeze.weight.flatten(1), kept)
    flat = narrow.transpose(0, 1).flatten(1)
    shape = (-1, *(1,) * len(stride))
    mean, variance = flat.mean(1).view(shape), flat.var(1, unbiased=False).view(shape)
    narrow = ((narrow - mean) / (variance + 1e-5).sqrt()).relu()
    factors = module(x)
    assert factors.shape == (3, 1, *kept.shape[2:])
    torch.testing.assert_close(factors, module.map(narrow).sigmoid())


def test_few_channels_leave_one() -> None:
    assert ChannelAttention(3, 3, 2).squeeze.weight.shape[0] == 1
