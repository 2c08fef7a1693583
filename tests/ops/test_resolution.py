"""Other resolutions: projections, the same in space as by Fourier transform."""

import math

import pytest
import torch

from eclose.ops.continuous import fourier_convolution
from eclose.ops.masks import product, sigmoid, sigmoid_end
from eclose.ops.resolution import (
    fast_size,
    frequencies,
    highest,
    lags_on,
    low_pass,
    low_pass_filters,
    low_size,
    low_sizes,
    multiplications,
    resample,
    resample_kernel,
    without_highest,
)


def filtered(x, responses, low):
    return low_pass(x, low_pass_filters(responses, x.shape[2:], low), low)


def by_fourier_transform(x, responses, low):
    """Section 2.4.2 of the DNArch paper: the spectrum times the product of the masks, then cropped."""
    spectrum, axes = torch.fft.fftn(x, dim=tuple(range(2, x.ndim))), range(2, x.ndim)
    for axis, response in zip(axes, responses, strict=True):
        cycles = (torch.fft.fftfreq(x.shape[axis]) * x.shape[axis]).abs().round().long()
        spectrum = spectrum * response[cycles].view(-1, *[1] * (x.ndim - 1 - axis))
    return resample(torch.fft.ifftn(spectrum, dim=tuple(axes)).real, low)


def by_convolution(x, response):
    """Equation 12, of one axis: a convolution on a circle with the inverse transform of the mask."""
    kernel = torch.fft.irfft(response, n=x.shape[-1])
    return sum(kernel[lag] * x.roll(lag, -1) for lag in range(x.shape[-1]))


SIZES = [((12,), (7,)), ((13,), (6,)), ((9,), (1,)), ((8, 9), (5, 4)), ((6, 7), (6, 3)), ((6, 5, 7), (4, 5, 3))]


@pytest.mark.parametrize(("sizes", "low"), SIZES)
def test_down_and_up_is_the_identity_on_band_limited_signals(sizes, low):
    torch.manual_seed(0)
    x = resample(torch.randn(2, 3, *(2 * highest(n) + 1 for n in low), dtype=torch.float64), sizes)
    torch.testing.assert_close(resample(resample(x, low), sizes), x)


@pytest.mark.parametrize(("sizes", "low"), SIZES)
def test_down_and_up_is_a_projection(sizes, low):
    x = torch.randn(2, 3, *sizes, dtype=torch.float64)
    once = resample(resample(x, low), sizes)
    torch.testing.assert_close(resample(resample(once, low), sizes), once)
    torch.testing.assert_close(once.flatten(2).mean(-1), x.flatten(2).mean(-1))


def test_points_of_a_wave_lie_where_they_should():
    wave = lambda n: torch.cos(2 * math.pi * (2 * torch.arange(n, dtype=torch.float64) / n + 0.1))  # noqa: E731
    torch.testing.assert_close(resample(wave(15)[None, None], (7,))[0, 0], wave(7))
    torch.testing.assert_close(resample(wave(15)[None, None], (32,))[0, 0], wave(32))


@pytest.mark.parametrize(("sizes", "low"), SIZES[:5])
def test_matrices_do_what_transforms_do(sizes, low, monkeypatch):
    x = torch.randn(2, 3, *sizes, dtype=torch.float64)
    short = resample(x, low), resample(resample(x, low), sizes)
    monkeypatch.setattr("eclose.ops.resolution._SHORT", 0)
    for ours, truth in zip(short, (resample(x, low), resample(resample(x, low), sizes)), strict=True):
        torch.testing.assert_close(ours, truth)


@pytest.mark.parametrize("sizes", [(7,), (8,), (2,), (1,), (6, 5), (6, 8), (5, 8), (4, 6, 2)])
def test_what_other_points_give_back(sizes):
    """Of each axis by itself: resampled to more points and back."""
    x = torch.randn(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
    for number in range(len(sizes)):
        finer = [size + 5 * (axis == number) for axis, size in enumerate(sizes)]
        torch.testing.assert_close(without_highest(x, [2 + number]), resample(resample(x, finer), sizes))
    axes = range(2, x.ndim)
    finer = [size + 5 for size in sizes]
    torch.testing.assert_close(without_highest(x, axes), resample(resample(x, finer), sizes))
    assert torch.autograd.gradcheck(lambda x: without_highest(x, axes), (x,))
    assert torch.autograd.gradgradcheck(lambda x: without_highest(x, axes), (x,))


def test_fast_sizes():
    assert [fast_size(n) for n in (1, 2, 7, 11, 13, 33, 49, 97, 1025)] == [2, 2, 8, 12, 16, 36, 50, 100, 1080]


@pytest.mark.parametrize("sizes", [(8,), (8, 9), (200,), (200, 9)])
def test_what_comes_back_from_all_points_costs_nothing(sizes):
    points = torch.tensor(sizes).double()
    assert multiplications(sizes, points, up=True) == 0
    assert multiplications(sizes, points - 2, up=True) > 0
    assert multiplications(sizes, points) > 0


def test_nothing_is_computed_where_nothing_changes():
    x = torch.randn(1, 2, 5, 6)
    assert resample(x, (5, 6)) is x


def test_a_training_may_use_what_an_inference_has_made():
    x, kernel = torch.randn(2, 3, 22, requires_grad=True), torch.randn(3, 5, requires_grad=True)

    def made():
        moved = resample_kernel(kernel, ((-2, 2),), (22,), (17,), ((-3, 3),))
        return resample(without_highest(x, [2]), (17,)).sum() + moved.sum()

    with torch.inference_mode():
        made()
    made().backward()
    assert x.grad.any()
    assert kernel.grad.any()


@pytest.mark.parametrize("short", [0, 128])
@pytest.mark.parametrize("offset", [-0.6, 0.0, 0.4, 1.05])
@pytest.mark.parametrize("sizes", [(1,), (2,), (11,), (12,), (16,), (13, 8), (9, 1), (8, 15), (6, 5, 8)])
def test_in_space_as_by_fourier_transform(sizes, offset, short, monkeypatch):
    """Appendix B: low-pass in space, then fewer points; equal to mask and crop of the spectrum, gradients included."""
    monkeypatch.setattr("eclose.ops.resolution._SHORT", short)
    learned = [torch.tensor(offset - 0.1 * axis, dtype=torch.float64, requires_grad=True) for axis in range(len(sizes))]
    at = [frequencies(n, n, n, torch.device("cpu"), last=True).double() for n in sizes]
    responses = [sigmoid(line, each, 25.0) for line, each in zip(at, learned, strict=True)]
    low = tuple(low_size(each.item(), 25.0, n, n) for n, each in zip(sizes, learned, strict=True))
    for response, n, m in zip(responses, sizes, low, strict=True):
        assert m == n or int((response > 0).sum()) <= highest(m) + 1
    for memory in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(2, 3, *sizes, dtype=torch.float64)
        if memory is torch.channels_last:
            x = x.movedim(1, -1).contiguous().movedim(-1, 1)
        x.requires_grad_()
        ours, theirs = filtered(x, responses, low), by_fourier_transform(x, responses, low)
        torch.testing.assert_close(ours, theirs)
        if memory is torch.channels_last and short:
            assert ours.movedim(1, -1).is_contiguous()
        weights = torch.randn_like(ours)
        grads = [
            torch.autograd.grad((y * weights).sum(), [x, *learned], retain_graph=True, materialize_grads=True)
            for y in (ours, theirs)
        ]
        for mine, truth in zip(*grads, strict=True):
            torch.testing.assert_close(mine, truth)


@pytest.mark.parametrize("short", [0, 128])
@pytest.mark.parametrize("size", [8, 9])
def test_a_low_pass_is_a_convolution_with_the_inverse_transform_of_the_mask(size, short, monkeypatch):
    monkeypatch.setattr("eclose.ops.resolution._SHORT", short)
    x, response = torch.randn(2, 3, size, dtype=torch.float64), torch.rand(size // 2 + 1, dtype=torch.float64)
    torch.testing.assert_close(filtered(x, [response], (size,)), by_convolution(x, response))


@pytest.mark.parametrize("short", [0, 128])
def test_a_low_pass_of_doubles_has_their_digits(short, monkeypatch):
    """Shares of an odd number of points are no numbers of few digits."""
    monkeypatch.setattr("eclose.ops.resolution._SHORT", short)
    x, responses = torch.randn(2, 3, 7, 5, dtype=torch.float64), [torch.rand(n, dtype=torch.float64) for n in (4, 3)]
    for low in ((7, 5), (6, 4)):
        ours, theirs = filtered(x, responses, low), by_fourier_transform(x, responses, low)
        torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)


def test_subsampling_after_a_low_pass_is_what_space_does():
    x = torch.randn(1, 1, 16, dtype=torch.float64)
    response = (torch.arange(9) < 4).double()  # below the highest frequency of 8 points
    smooth = by_convolution(x, response)
    torch.testing.assert_close(filtered(x, [response], (8,)), smooth[..., ::2])
    torch.testing.assert_close(resample(x, (8,)), smooth[..., ::2])


@pytest.mark.parametrize("short", [0, 128])
@pytest.mark.parametrize(("sizes", "low"), [((6,), (4,)), ((5, 4), (5, 2)), ((3, 4, 4), (3, 2, 4))])
def test_gradients_of_low_passes_and_their_gradients(sizes, low, short, monkeypatch):
    monkeypatch.setattr("eclose.ops.resolution._SHORT", short)
    given = [torch.randn(2, 2, *sizes, dtype=torch.float64, requires_grad=True)]
    given += [torch.rand(n // 2 + 1, dtype=torch.float64, requires_grad=True) for n in sizes]
    assert torch.autograd.gradcheck(lambda x, *responses: filtered(x, responses, low), given)
    assert torch.autograd.gradgradcheck(lambda x, *responses: filtered(x, responses, low), given)


def test_a_low_pass_keeps_the_digits_of_what_it_is_given():
    x, response = torch.randn(2, 3, 8), torch.rand(5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(filtered(x, [response], (6,)), filtered(x, [response], (6,)).float())
        low = filtered(x.bfloat16(), [response], (6,))
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(filtered(x, [response], (6,)), low.float(), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("trained", [1, 2, 7, 32, 33])
def test_low_sizes(trained):
    for offset in (-0.8, 0.0, 1.05):
        low = low_size(offset, 25.0, trained, trained)
        assert 1 <= low <= trained
        at = frequencies(trained, trained, trained, torch.device("cpu"), last=True)
        kept = int((at <= sigmoid_end(offset, 25.0)).sum())
        assert low == min(trained, fast_size(2 * kept - 1))
        assert low_sizes(torch.tensor([offset]), torch.tensor(25.0), (trained,)).tolist() == [low]
    assert low == trained
    assert low_size(1.05, 25.0, 32, 48) == 36  # an input that is finer than those of the training


@pytest.mark.parametrize(("sizes", "low"), SIZES)
def test_gradients_of_transforms_and_their_gradients(sizes, low, monkeypatch):
    monkeypatch.setattr("eclose.ops.resolution._SHORT", 0)
    for before, after in ((sizes, low), (low, sizes)):
        x = torch.randn(1, 2, *before, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, after=after: resample(x, after), (x,))
        assert torch.autograd.gradgradcheck(lambda x, after=after: resample(x, after), (x,))


def all_lags(*sizes):
    return tuple((1 - size, size - 1) for size in sizes)


@pytest.mark.parametrize("short", [0, 128])
@pytest.mark.parametrize(("points", "goal"), [(8, 5), (5, 8), (9, 6), (7, 12)])
def test_waves_as_kernels(points, goal, short, monkeypatch):
    """A wave on a circle of two domains is the same wave on other points; one that these do not hold is gone."""
    monkeypatch.setattr("eclose.ops.resolution._SHORT", short)
    for cycles in range(1, points):

        def wave(size, cycles=cycles):
            return torch.sin(math.pi * cycles * torch.arange(1 - size, size, dtype=torch.float64) / size)

        kernel = resample_kernel(wave(points)[None], all_lags(points), (points,), (goal,), all_lags(goal))[0]
        there = points / goal * wave(goal) if cycles < goal else torch.zeros(2 * goal - 1).double()
        torch.testing.assert_close(kernel, there)


@pytest.mark.parametrize(("points", "goal"), [((16, 9), (12, 8)), ((12, 9), (12, 15)), ((6, 5, 4), (5, 5, 3))])
def test_kernels_by_matrices_and_on_a_circle(points, goal, monkeypatch):
    """Values and gradients; kernels that end early, on each side elsewhere."""
    lags = tuple((-(size // 3), size // 2) for size in points)
    there = tuple(map(lags_on, points, goal, lags))
    kernel = torch.randn(3, *(last - first + 1 for first, last in lags), dtype=torch.float64, requires_grad=True)
    values = []
    for short in (0, 128):
        monkeypatch.setattr("eclose.ops.resolution._SHORT", short)
        values.append(resample_kernel(kernel, lags, points, goal, there))
    torch.testing.assert_close(*values)
    assert values[0].shape[1:] == tuple(last - first + 1 for first, last in there)
    weights = torch.randn_like(values[0])
    torch.testing.assert_close(*(torch.autograd.grad((weights * each).sum(), kernel) for each in values))


@pytest.mark.parametrize(("points", "goal"), [((32,), (24,)), ((32,), (48,)), ((24, 16), (18, 16))])
def test_a_convolution_on_other_points(points, goal):
    """Input and kernel reduced first, as in equation 7: what the whole convolution gives, on these points."""
    torch.manual_seed(0)
    lines = [torch.sin(math.pi * torch.arange(size) / size).double() ** 2 for size in points]
    place = torch.stack(torch.meshgrid(*lines, indexing="ij")).prod(0)  # zero at the ends of the axes
    smooth = tuple(size // 3 for size in points)
    x = resample(torch.randn(2, 5, *smooth, dtype=torch.float64), points) * place
    lags = tuple((-(size // 8), size // 8) for size in points)
    masks = [torch.exp(-2 * (torch.arange(first, last + 1).double() / last) ** 2) for first, last in lags]
    kernel = torch.randn(5, *map(len, masks), dtype=torch.float64) * product(masks)
    whole = resample(fourier_convolution(x, kernel, [first for first, _ in lags]), goal)
    there = tuple((1 - m, m - 1) if n != m else lag for n, m, lag in zip(points, goal, lags, strict=True))
    low = resample_kernel(kernel, lags, points, goal, there)
    y = fourier_convolution(resample(x, goal), low, [first for first, _ in there])
    assert (y - whole).norm() < 0.01 * whole.norm()
    there = tuple(map(lags_on, points, goal, lags))  # what is left out lies far from the kernel
    low = resample_kernel(kernel, lags, points, goal, there)
    y = fourier_convolution(resample(x, goal), low, [first for first, _ in there])
    assert (y - whole).norm() < 0.1 * whole.norm()
