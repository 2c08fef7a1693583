"""Continuous kernels and their convolution by FFT."""

import itertools

import pytest
import torch

from eclose.ops.continuous import TRUNKS, features, fourier_convolution, mesh, render, transform_sizes
from eclose.ops.masks import product


def direct(x, kernel, first):
    """``y[i] = sum_j kernel[j] x[i - first - j]``, point by point."""
    y = torch.zeros_like(x)
    sizes = x.shape[2:]
    for point in itertools.product(*map(range, sizes)):
        for tap in itertools.product(*map(range, kernel.shape[1:])):
            source = [i - lag - j for i, lag, j in zip(point, first, tap, strict=True)]
            if all(0 <= i < n for i, n in zip(source, sizes, strict=True)):
                y[(..., *point)] += kernel[(slice(None), *tap)] * x[(..., *source)]
    return y


CASES = [
    ((7,), (3,), (-1,)),
    ((8,), (8,), (-4,)),
    ((8,), (15,), (-7,)),
    ((9,), (9,), (0,)),  # causal
    ((6,), (4,), (-3,)),  # sees the future only
    ((1,), (1,), (0,)),
    ((5, 8), (3, 6), (-1, -2)),
    ((4, 7), (7, 13), (-3, -6)),
    ((3, 4, 5), (3, 1, 5), (-1, 0, -2)),
]


@pytest.mark.parametrize(("sizes", "points", "first"), CASES)
def test_linear_convolution_values_and_gradients(sizes, points, first):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(3, *points, dtype=torch.float64, requires_grad=True)
    ours, truth = fourier_convolution(x, kernel, first), direct(x, kernel, first)
    torch.testing.assert_close(ours, truth)
    weight = torch.randn_like(truth)
    gradients = (torch.autograd.grad((y * weight).sum(), (x, kernel)) for y in (ours, truth))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_response_multiplies_the_spectrum():
    x, kernel = torch.randn(1, 2, 8), torch.randn(2, 3)
    half = fourier_convolution(x, kernel, (-1,), torch.full((6,), 0.5))
    torch.testing.assert_close(half, 0.5 * fourier_convolution(x, kernel, (-1,)))


def test_half_precision_is_computed_as_float():
    x, kernel = torch.randn(1, 2, 8).bfloat16(), torch.randn(2, 3)
    assert fourier_convolution(x, kernel, (-1,)).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", TRUNKS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_kernels_are_functions_of_their_coordinates(kind, axes):
    torch.manual_seed(0)
    trunk = TRUNKS[kind](axes, 16, 2.0)
    rows, bias = torch.randn(5, 16), torch.arange(5.0)
    lines = [torch.linspace(-1, 1, 9 + axis) for axis in range(axes)]
    whole = render(features(trunk, mesh(lines)), range(9, 9 + axes), rows, bias)
    assert whole.shape == (5, *range(9, 9 + axes))
    part = render(features(trunk, mesh([line[3:6] for line in lines])), [3] * axes, rows[:2], bias[:2])
    torch.testing.assert_close(part, whole[(slice(2), *(slice(3, 6),) * axes)])


@pytest.mark.parametrize("kind", TRUNKS)
def test_kernels_are_not_zero_at_their_centre(kind):
    """Whence small masks start."""
    torch.manual_seed(0)
    trunk = TRUNKS[kind](1, 32, 4.0)
    values = features(trunk, mesh([torch.linspace(-1, 1, 501)]))
    kernels = render(values, [501], torch.randn(64, 32), torch.zeros(64)).detach()
    assert kernels[:, 250].square().mean() > 0.1 * kernels.square().mean()


@pytest.mark.parametrize(("sizes", "points", "first"), [CASES[1], CASES[6]])
def test_gradients_of_convolutions_and_their_gradients(sizes, points, first):
    """Of a response, too; second-order searches need those of gradients."""
    torch.manual_seed(0)
    x = torch.randn(2, 2, *sizes, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(2, *points, dtype=torch.float64, requires_grad=True)
    slope = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def convolved(x, kernel, slope):
        *others, last = transform_sizes(sizes, first, points)
        lines = [torch.fft.fftfreq(number, dtype=torch.float64).abs() for number in others]
        lines.append(torch.fft.rfftfreq(last, dtype=torch.float64))
        return fourier_convolution(x, kernel, first, product([torch.exp(-slope * line) for line in lines]))

    assert torch.autograd.gradcheck(convolved, (x, kernel, slope))
    assert torch.autograd.gradgradcheck(convolved, (x, kernel, slope))


def test_a_convolution_keeps_its_input_and_no_spectrum_of_it():
    x, kernel = torch.randn(4, 8, 50, requires_grad=True), torch.randn(8, 51, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        y = fourier_convolution(x, kernel, (-25,))
    assert sum(tensor.numel() for tensor in kept if len(tensor) == 4) == x.numel()
    assert y.is_contiguous()
