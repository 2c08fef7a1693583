"""Feature operations: what they see, and that they end with a norm."""

import pytest
import torch
from torch import nn

from eclose.ops.separable import TwoSubsamples, dilated, pooled, separable, shortening

SIZES = (11, 8, 5)


@pytest.mark.parametrize("stride", [(1,), (2,), (2, 1), (1, 2, 2)])
def test_shapes(stride: tuple[int, ...]) -> None:
    sizes = SIZES[: len(stride)]
    after = tuple(-(-size // step) for size, step in zip(sizes, stride, strict=True))
    modules = [separable(4, 3, stride), separable(4, 5, stride), dilated(4, 3, stride), dilated(4, 5, stride)]
    modules += [pooled("MaxPool", 4, sizes, stride), pooled("AvgPool", 4, sizes, stride), shortening(4, 4, stride)]
    for module in modules:
        assert module(torch.randn(2, 4, *sizes)).shape == (2, 4, *after)
        assert isinstance(module[-1], nn.modules.batchnorm._BatchNorm)


@pytest.mark.parametrize("make", [separable, dilated])
@pytest.mark.parametrize(("taps", "reach"), [(3, 2), (5, 4)])
def test_how_far_it_sees(make: type, taps: int, reach: int) -> None:
    torch.manual_seed(0)
    module = make(3, taps, (1,)).eval().double()
    module = nn.Sequential(*(nn.Identity() if isinstance(layer, nn.ReLU) else layer for layer in module))
    x = torch.randn(1, 3, 21, dtype=torch.float64, requires_grad=True)
    module(x)[0, :, 10].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(0).nonzero().flatten()
    assert (seen.min(), seen.max()) == (10 - reach, 10 + reach)
    step = 2 if make is dilated else 1
    assert seen.tolist() == list(range(10 - reach, 11 + reach, step))


def test_a_shortening_skip_forgets_no_point() -> None:
    module = TwoSubsamples(1, 2, (2, 2))
    nn.init.ones_(module.even.weight)
    nn.init.ones_(module.odd.weight)
    x = torch.arange(25.0).view(1, 1, 5, 5)
    y = module(x)
    assert torch.equal(y[0, 0], x[0, 0, ::2, ::2])
    assert torch.equal(y[0, 1, :2, :2], x[0, 0, 1::2, 1::2])
    assert not y[0, 1, 2].any(), "no odd point is left at the end of an odd axis"


def test_a_single_channel_has_no_odd_half() -> None:
    module, x = TwoSubsamples(3, 1, (2,)), torch.randn(2, 3, 7)
    assert torch.equal(module(x), module.even(x))
    assert [name for name, _ in module.named_parameters()] == ["even.weight"]


def test_averages_do_not_count_padding() -> None:
    pool = pooled("AvgPool", 1, (4,), (1,))[0]
    torch.testing.assert_close(pool(torch.ones(1, 1, 4)), torch.ones(1, 1, 4))
