import itertools

import pytest
import torch
from torch import nn

from eclose.backbones.layers import GlobalAverage, RegionAverages, answer, average_pool, batch_norm, conv, max_pool


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layers_by_axes(axes):
    assert conv(axes) is getattr(nn, f"Conv{axes}d")
    assert batch_norm(axes) is getattr(nn, f"BatchNorm{axes}d")
    assert max_pool(axes) is getattr(nn, f"MaxPool{axes}d")
    assert average_pool(axes) is getattr(nn, f"AvgPool{axes}d")


def test_global_average():
    x = torch.randn(2, 3, 4, 5, 6)
    torch.testing.assert_close(GlobalAverage()(x), x.mean(dim=(2, 3, 4)))


@pytest.mark.parametrize("sizes", [(13,), (3,), (1,), (8, 12), (5, 2), (7, 4, 9)])
def test_averages_of_regions(sizes):
    """Position by position; parts of an axis differ by a point at most, the longer ones first."""
    x = torch.randn(2, 3, *sizes, dtype=torch.float64)
    parts = [min(4, points) for points in sizes]
    regions = [[part.tolist() for part in torch.arange(n).tensor_split(k)] for n, k in zip(sizes, parts, strict=True)]
    wanted = []
    for region in itertools.product(*regions):
        points = [x[(..., *place)] for place in itertools.product(*region)]
        wanted.append(sum(points) / len(points))
    torch.testing.assert_close(RegionAverages(parts)(x), torch.stack(wanted, -1).flatten(1))


def test_regions_of_the_same_size_are_those_of_adaptive_pooling():
    x = torch.randn(2, 3, 8, 12, requires_grad=True)
    averages = nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)
    torch.testing.assert_close(RegionAverages((4, 4))(x), averages)
    weights = torch.randn_like(averages)
    (wanted,) = torch.autograd.grad((averages * weights).sum(), x)
    (gradient,) = torch.autograd.grad((RegionAverages((4, 4))(x) * weights).sum(), x)
    torch.testing.assert_close(gradient, wanted)


def test_regions_tell_where_a_feature_is():
    x = torch.zeros(2, 1, 32)
    x[0, 0, 5] = x[1, 0, 20] = 1.0
    assert torch.equal(*GlobalAverage()(x))
    assert not torch.equal(*RegionAverages((4,))(x))


@pytest.mark.parametrize("regions", [1, 3])
def test_an_answer_reads_all_averages(regions):
    layers = nn.Sequential(*answer(5, (7, 2), 4, regions, 0.5)).eval()
    assert layers[-1].in_features == (5 if regions == 1 else 5 * 3 * 2)
    x = torch.randn(2, 5, 7, 2)
    torch.testing.assert_close(layers(x), layers[2](layers[0](x)))
