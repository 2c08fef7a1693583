"""The masks of DNArch against a slow transcription of the paper's equations, number by number, without tensors."""

import math

import pytest
import torch

from eclose.ops.masks import (
    GaussianMasks,
    SigmoidMasks,
    gaussian,
    gaussian_reach,
    lengths,
    places,
    sigmoid,
    sigmoid_end,
)

T = 0.1
ROUNDING = 2e-5  # how far behind its end a mask may still count, because numbers are rounded


def gaussian_by_hand(x, mean, sigma):
    value = math.exp(-((x - mean) ** 2) / (2 * sigma**2))
    return value if value >= T else 0.0


def sigmoid_by_hand(x, mu, tau):
    value = 1 - 1 / (1 + math.exp(-tau * (x - mu)))
    return value if value >= T else 0.0


def last_above(mask, inside, outside):
    """Where a mask passes the threshold, by halving: the equation that inverts it is not used."""
    while abs(outside - inside) > 1e-9:
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if mask(middle) > 0 else (inside, middle)
    return inside


@pytest.mark.parametrize("sigma", [0.0325, 0.1, 0.4, 1.7])
@pytest.mark.parametrize("mean", [0.0, -0.3, 0.9])
def test_gaussian_masks(sigma, mean):
    xs = [-1 + 2 * i / 57 for i in range(58)]
    wanted = [gaussian_by_hand(x, mean, sigma) for x in xs]
    torch.testing.assert_close(gaussian(torch.tensor(xs), sigma, mean), torch.tensor(wanted))
    right = last_above(lambda x: gaussian_by_hand(x, mean, sigma), mean, mean + 20 * sigma)
    left = last_above(lambda x: gaussian_by_hand(x, mean, sigma), mean, mean - 20 * sigma)
    assert gaussian_reach(sigma) == pytest.approx(right - mean, abs=ROUNDING)
    assert gaussian_reach(sigma) == pytest.approx(mean - left, abs=ROUNDING)


@pytest.mark.parametrize("tau", [8.0, 16.0, 25.0, 50.0, 100.0])
@pytest.mark.parametrize("mu", [-0.9, -0.088, 0.0, 0.51, 1.05])
def test_sigmoid_masks(tau, mu):
    xs = [-1 + 2 * i / 57 for i in range(58)]
    wanted = [sigmoid_by_hand(x, mu, tau) for x in xs]
    torch.testing.assert_close(sigmoid(torch.tensor(xs), mu, tau), torch.tensor(wanted), atol=1e-6, rtol=1e-5)
    end = last_above(lambda x: sigmoid_by_hand(x, mu, tau), mu, mu + 5)
    assert sigmoid_end(mu, tau) == pytest.approx(end, abs=ROUNDING)


@pytest.mark.parametrize("tau", [8.0, 16.0, 25.0, 50.0, 100.0])
def test_offsets_are_kept_between_the_two_values_of_appendix_e(tau):
    """0.95 at the lowest position for the smallest mask, 0.85 at the highest for the largest."""
    masks = SigmoidMasks((3,), tau, end=0.0)
    start = masks.offset.detach().clone()
    with torch.no_grad():
        masks.offset.copy_(torch.tensor([-50.0, 50.0, float(start[2])]))
    masks.clamp()
    low, high, inside = masks.offset.tolist()
    assert sigmoid_by_hand(-1.0, low, tau) == pytest.approx(0.95, abs=1e-4)
    assert sigmoid_by_hand(1.0, high, tau) == pytest.approx(0.85, abs=1e-4)
    assert inside == pytest.approx(float(start[2]))


@pytest.mark.parametrize(("tau", "share"), [(25.0, 0.1), (50.0, 0.05), (100.0, 0.025), (8.0, 2 / 8), (16.0, 1 / 8)])
def test_the_smallest_masks_cover_what_appendix_e_says(tau, share):
    """10, 5 and 2.5 % of an axis, and 2 or 1 of 8 blocks: to one place, since they are rounded down."""
    for number in (8, 280, 1024):
        masks = SigmoidMasks((1,), tau, end=-9.0)
        smallest = lengths(masks.offset, masks.temperature, number).item()
        counted = sum(sigmoid_by_hand(x, masks.offset.item(), tau) > 0 for x in places(number).tolist())
        assert smallest == max(1, counted)
        # (ln 19 + ln 9) / tau of an axis of length 2, which the paper rounds to the shares above
        exact = number * (math.log(19) + math.log(9)) / tau / 2
        assert smallest == max(1, math.floor(exact))
        assert exact == pytest.approx(share * number, rel=0.3)


@pytest.mark.parametrize(("tau", "number", "base"), [(25.0, 280, 140), (50.0, 280, 140), (8.0, 8, 4), (16.0, 8, 4)])
def test_sizes_follow_from_the_lengths_of_masks(tau, number, base):
    """Equation 10, in units of a start of ``base`` places, is a whole number of places and less than one off."""
    start = SigmoidMasks((1,), tau, end=2 * base / number - 1)
    at_start = sigmoid_end(start.offset.item(), tau) + 1
    assert lengths(start.offset, start.temperature, number).item() == base
    for mu in (-0.8, -0.3, 0.01, 0.4, 0.77):
        offset = torch.tensor([mu], requires_grad=True)
        size = lengths(offset, start.temperature, number)
        by_hand = base * (mu + math.log(1 / T - 1) / tau + 1) / at_start
        by_hand = min(by_hand, number)
        assert size.item() == pytest.approx(by_hand, abs=1)
        assert size.item() <= by_hand + 0.01
        (gradient,) = torch.autograd.grad(size.sum(), offset)
        assert gradient.item() == pytest.approx(base / at_start, rel=1e-3)  # the slope of equation 10


def test_a_kernel_never_collapses_to_a_point():
    """Appendix E: the smallest sigma still has the neighbours of the centre above the threshold."""
    for points in (3, 33, 1025):
        step = 2 / (points - 1)
        masks = GaussianMasks((2, 1), (step,))
        with torch.no_grad():
            masks.width.zero_()
        masks.clamp()
        sigma = masks.width[0, 0].item()
        assert gaussian_by_hand(step * (1 - 1e-6), 0.0, sigma) > 0
        assert gaussian_by_hand(1.01 * step, 0.0, sigma) == 0
        grid = torch.linspace(-1, 1, points, dtype=torch.float64)
        assert int((gaussian(grid, masks.width[0, 0].double()) > 0).sum()) == 3


def test_the_kernels_of_the_start_have_three_points_of_33():
    grid = torch.linspace(-1, 1, 33)
    assert sum(gaussian_by_hand(x, 0.0, 0.0325) > 0 for x in grid.tolist()) == 3
    assert int((gaussian(grid, GaussianMasks((1,), (2 / 32,)).width[0]) > 0).sum()) == 3
