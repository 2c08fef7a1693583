"""Differentiable masks: where they end, what they cover, how they are kept in range."""

import math

import pytest
import torch

from eclose.ops.masks import (
    THRESHOLD,
    Cut,
    GaussianMasks,
    Lines,
    SigmoidMasks,
    covered,
    gaussian,
    gaussian_reach,
    lengths,
    places,
    sigmoid,
    sigmoid_end,
)

WIDTHS = [0.0325, 0.2, 0.7]
OFFSETS = [(-0.6, 8.0), (-0.2, 16.0), (0.3, 25.0), (0.9, 100.0)]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_gaussian_ends_where_it_meets_the_threshold(width):
    end = gaussian_reach(width)
    assert math.exp(-0.5 * (end / width) ** 2) == pytest.approx(THRESHOLD, abs=1e-3)
    inside, outside = gaussian(torch.tensor([end - 1e-4, end + 1e-4]), width)
    assert inside == pytest.approx(THRESHOLD, abs=1e-2)
    assert outside == 0
    assert gaussian(torch.tensor([0.25]), width, 0.25) == 1


@pytest.mark.parametrize(("offset", "temperature"), OFFSETS)
def test_a_sigmoid_ends_where_it_meets_the_threshold(offset, temperature):
    end = sigmoid_end(offset, temperature)
    assert 1 - 1 / (1 + math.exp(-temperature * (end - offset))) == pytest.approx(THRESHOLD, abs=1e-3)
    inside, outside = sigmoid(torch.tensor([end - 1e-4, end + 1e-4]), offset, temperature)
    assert inside == pytest.approx(THRESHOLD, abs=1e-2)
    assert outside == 0


@pytest.mark.parametrize("number", [1, 2, 7, 8, 140, 280])
@pytest.mark.parametrize(("offset", "temperature"), OFFSETS)
def test_what_is_covered_is_what_is_not_zero(number, offset, temperature):
    values = sigmoid(places(number), offset, temperature)
    assert covered(sigmoid_end(offset, temperature), number) == max(1, int((values > 0).sum()))
    masks = SigmoidMasks((1,), temperature, end=sigmoid_end(offset, temperature))
    assert int(lengths(masks.offset, masks.temperature, number)) == max(1, int((values > 0).sum()))


@pytest.mark.parametrize(
    ("temperature", "number", "least"),
    [
        (25, 280, 28),
        (50, 280, 14),
        (100, 280, 7),
        (25, 1000, 102),
        (50, 1000, 51),
        (100, 1000, 25),
        (8, 8, 2),
        (16, 8, 1),
    ],
)
def test_the_least_sizes_are_those_of_the_paper(temperature, number, least):
    masks = SigmoidMasks((3,), temperature, end=-9.0)
    assert lengths(masks.offset, masks.temperature, number).tolist() == [least] * 3
    assert sigmoid(torch.tensor(-1.0), masks.offset, masks.temperature)[0].item() == pytest.approx(0.95, abs=1e-4)


def test_the_largest_masks_still_feel_a_gradient():
    masks = SigmoidMasks((2,), 25.0, end=9.0)
    assert sigmoid(torch.tensor(1.0), masks.offset, masks.temperature)[0].item() == pytest.approx(0.85, abs=1e-4)
    assert torch.equal(SigmoidMasks((2,), 25.0).offset, masks.offset)
    wide = GaussianMasks((2,), (0.1, 0.1), width=9.0)
    assert gaussian(torch.tensor(1.0), wide.width)[0].item() == pytest.approx(0.85, abs=1e-4)


@pytest.mark.parametrize("points", [4, 16, 512])
def test_no_kernel_becomes_a_single_point(points):
    masks = GaussianMasks((2, 1), (1 / points,), width=1e-9)
    line = torch.arange(-points, points + 1) / points
    assert all(int((gaussian(line, width) > 0).sum()) == 3 for width in masks.width)


def test_the_start_of_a_kernel_is_that_of_the_paper():
    masks = GaussianMasks((1, 1), (1 / 16,))
    assert int((gaussian(torch.arange(-16, 17) / 16, masks.width[0]) > 0).sum()) == 3
    assert masks.width.item() == pytest.approx(0.0325)


def test_a_mask_at_its_maximum_can_become_shorter():
    masks = SigmoidMasks((2,), 25.0)
    sizes = lengths(masks.offset, masks.temperature, 280)
    assert sizes.tolist() == [280, 280]
    sizes.sum().backward()
    assert masks.offset.grad.tolist() == [140, 140]
    with torch.no_grad():
        masks.offset.sub_(0.5)
    assert lengths(masks.offset, masks.temperature, 280)[0] < 280


def test_base_networks_are_half_of_the_largest():
    for temperature, number in ((25.0, 280), (8.0, 8)):
        masks = SigmoidMasks((1,), temperature, end=0.0)
        assert lengths(masks.offset, masks.temperature, number).item() == number / 2


def test_mean_and_temperature_can_be_learned():
    masks = GaussianMasks((2,), (0.1, 0.1), learn_mean=True)
    assert [p.shape for p in masks.arch_parameters()] == [(2,), (2,)]
    assert len(GaussianMasks((2,), (0.1, 0.1)).arch_parameters()) == 1
    learned = SigmoidMasks((2,), 16.0, end=0.0, learn_temperature=True)
    assert len(learned.arch_parameters()) == 2
    lengths(learned.offset, learned.temperature, 100).sum().backward()
    assert learned.temperature.grad < 0  # flatter is longer
    with torch.no_grad():
        learned.temperature.fill_(1e6)
        masks.mean.fill_(3.0)
    learned.clamp()
    masks.clamp()
    assert (learned.temperature.item(), masks.mean.max().item()) == (64.0, 1.0)


@pytest.mark.parametrize("numbers", [(5, 5, 5), (1, 7, 3), (4, 0, 2)])
def test_masks_on_many_lines_are_those_on_each(numbers):
    """Values and gradients."""
    torch.manual_seed(0)
    width = torch.tensor([0.2, 0.5, 0.9], requires_grad=True)
    at = [places(number) for number in numbers]
    lines = Lines(at, torch.device("cpu"))
    ours = lines.split(gaussian(lines.at, width[:, None], 0.1))
    theirs = [gaussian(line, each, 0.1) for line, each in zip(at, width, strict=True)]
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
    weight = torch.randn(sum(numbers))
    gradients = [torch.autograd.grad((weight * torch.cat(list(each))).sum(), width) for each in (ours, theirs)]
    torch.testing.assert_close(*gradients)


def test_rows_are_cut_at_once():
    rows = torch.arange(24).reshape(3, 4, 2)
    cut = Cut([2, 4, 1], 4, rows.device)
    assert torch.equal(cut(rows.flatten(0, 1)), torch.cat([rows[0, :2], rows[1], rows[2, :1]]))
    assert Cut([4, 4, 4], 4, rows.device)(rows) is rows
