import pytest
import torch
from torch.func import grad, vmap

from eclose.ops.kaleidoscope.butterfly import join

from .cases import close, noise

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
DEVICES = ["cpu", pytest.param("cuda", marks=gpu)]
SHAPES = [((), 3, 4, 2), ((5,), 1, 7, 300), ((2, 3), 17, 5, 1), ((2, 2, 3), 4, 3, 65)]


def factors(batch=(2,), m=3, k=4, n=2, device="cpu"):
    x, y = noise(2, *batch, m, n, seed=1).to(device), noise(2, *batch, k, n, seed=2).to(device)
    return x.requires_grad_(), y.requires_grad_()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_product_and_gradients_are_those_of_autograd(shape, device):
    x, y = factors(*shape, device=device)
    expected = torch.complex(*x.unsqueeze(-3)) * torch.complex(*y.unsqueeze(-2))
    found = join(x, y)
    close(torch.complex(*found), expected)
    weight = torch.randn_like(found)
    ours = torch.autograd.grad((found * weight).sum(), (x, y))
    theirs = torch.autograd.grad((torch.stack([expected.real, expected.imag]) * weight).sum(), (x, y))
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_larger_tensors(device):
    both = noise(2, 3, 4, 50, seed=3).to(device).requires_grad_()
    x, y = both[..., :30].unflatten(-1, (5, 6)), both[..., 32:].unflatten(-1, (3, 6))
    found = join(x, y)
    close(torch.complex(*found), torch.complex(*x.unsqueeze(-3)) * torch.complex(*y.unsqueeze(-2)))
    (slope,) = torch.autograd.grad(found[0].sum(), both)
    close(slope[0, ..., :30].unflatten(-1, (5, 6)), y[0].sum(-2, keepdim=True).expand_as(x[0]))
    assert not slope[..., 30:32].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("check", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_first_and_second_derivatives(check, device):
    assert check(join, factors(device=device), fast_mode=True)


@pytest.mark.parametrize("device", DEVICES)
def test_function_transforms(device):
    x, y = (part.detach() for part in factors(device=device))
    slope = grad(lambda x: join(x, y)[0].sum())(x)
    close(slope[0], y[0].sum(-2, keepdim=True).expand_as(x[0]))
    many = noise(3, *x.shape, seed=5).to(device)
    close(vmap(join, (0, None))(many, y), torch.stack([join(one, y) for one in many]))
    close(vmap(join, (None, 0), 2)(y, many), torch.stack([join(y, one) for one in many], dim=2))
