"""Dynamic convolution against loops over samples, channels and points."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eclose.ops.dynamic import DynamicKernel, centred, convolved

CONVOLVE = (F.conv1d, F.conv2d, F.conv3d)


def one_by_one(x: Tensor, kernels: Tensor, dilation: int) -> Tensor:
    """Every channel of every sample by itself."""
    convolve, pad = CONVOLVE[x.dim() - 3], [dilation * (taps // 2) for taps in kernels.shape[2:]]
    samples = []
    for sample, own in zip(x, kernels, strict=True):
        rows = [
            convolve(c[None, None], k[None, None], padding=pad, dilation=dilation)[0, 0]
            for c, k in zip(sample, own, strict=True)
        ]
        samples.append(torch.stack(rows))
    return torch.stack(samples)


@pytest.mark.parametrize("sizes", [(7,), (5, 8), (4, 1, 3)])
@pytest.mark.parametrize(("taps", "dilation"), [(3, 1), (5, 1), (3, 2), (5, 2)])
def test_each_sample_meets_its_own_kernels(sizes: tuple[int, ...], taps: int, dilation: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 2, *sizes, dtype=torch.float64, requires_grad=True)
    kernels = torch.randn(3, 2, *(taps,) * len(sizes), dtype=torch.float64, requires_grad=True)
    ours, theirs = convolved(x, kernels, dilation), one_by_one(x, kernels, dilation)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    for one, other in zip(
        torch.autograd.grad(ours, (x, kernels), weights),
        torch.autograd.grad(theirs, (x, kernels), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_features_stay_laid_out_as_they_came(layout: torch.memory_format) -> None:
    x, kernels = torch.randn(2, 3, 6, 5), torch.randn(2, 3, 3, 3)
    y = convolved(x.to(memory_format=layout), kernels)
    assert y.is_contiguous(memory_format=layout)
    torch.testing.assert_close(y, one_by_one(x, kernels, 1))


def test_a_small_kernel_among_zeros_does_the_same() -> None:
    x, kernels = torch.randn(2, 3, 6, 7), torch.randn(2, 3, 3, 3)
    torch.testing.assert_close(convolved(x, centred(kernels, 5)), convolved(x, kernels))
    assert centred(kernels, 3) is kernels


def test_kernels_as_the_listing_makes_them() -> None:
    """The steps of A.1.2, sample by sample and tap by tap."""
    torch.manual_seed(0)
    module = DynamicKernel(16, 6, 3, axes=2).double().eval()
    module.norm.running_mean.uniform_(-1, 1)
    module.norm.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 16, 4, 5, dtype=torch.float64)
    wanted = torch.zeros(2, 6, 9, dtype=torch.float64)
    for sample in range(2):
        points = x[sample].flatten(1)  # (16, 20)
        narrow = module.bottleneck.weight[:, :, 0, 0] @ points
        mean, variance = module.norm.running_mean[:, None], module.norm.running_var[:, None]
        narrow = ((narrow - mean) / (variance + module.norm.eps).sqrt()).relu()
        looks = module.look.weight[:, :, 0, 0] @ points  # (9, 20)
        latent = torch.stack([narrow @ look.softmax(0) for look in looks], dim=1)  # (2, 9)
        wanted[sample] = (module.decode.weight[:, :, 0] @ latent).softmax(dim=1)
    kernels = module(x)
    assert kernels.shape == (2, 6, 3, 3)
    torch.testing.assert_close(kernels.flatten(2), wanted)
    torch.testing.assert_close(kernels.sum((2, 3)), torch.ones(2, 6, dtype=torch.float64))
