import pytest
import torch
from torch import nn

from eclose.backbones.shortening import behind_stem, halving, stem, stem_strides, strided, taps
from eclose.signature import Signature


@pytest.mark.parametrize(
    ("sizes", "strides", "left"),
    [
        ((140,), [], (140,)),
        ((1024,), [], (1024,)),
        ((1025,), [(2,)], (513,)),
        ((2049,), [(4,)], (513,)),
        ((100_000,), [(4,), (4,), (4,), (2,)], (782,)),
        ((8, 8), [], (8, 8)),
        ((96, 1), [(2, 1)], (48, 1)),
        ((224, 100), [(4, 2)], (56, 50)),
        ((64, 20, 40), [(2, 1, 2)], (32, 20, 20)),
    ],
)
def test_the_stem_shortens_long_axes_only(sizes, strides, left):
    assert stem_strides(sizes) == strides
    assert behind_stem(sizes) == left
    layers, channels, there = stem(Signature("classification", 3, sizes, 2), 5, 7)
    assert (channels, there) == ((5 if strides else 3), left)
    assert nn.Sequential(*layers).eval()(torch.randn(1, 3, *sizes)).shape == (1, channels, *left)


@pytest.mark.parametrize(
    ("sizes", "stride"),
    [((256,), (1,)), ((257,), (2,)), ((8, 8), (1, 1)), ((32, 7), (2, 1)), ((1, 16, 8), (1, 2, 1))],
)
def test_axes_of_a_few_points_are_not_halved(sizes, stride):
    assert halving(sizes) == stride


def test_kernels_end_where_the_axis_ends():
    assert taps(7, (40, 3, 1)) == (7, 5, 1)


@pytest.mark.parametrize("stride", [(2,), (4,)])
def test_every_point_has_its_part_in_what_is_left(stride):
    convolution = strided(1, 2, (1,), stride)[0]
    x = torch.randn(1, 1, 37, requires_grad=True)
    convolution(x).sum().backward()
    assert (x.grad != 0).all()
