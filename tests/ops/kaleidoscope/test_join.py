import pytest
import torch

from eclose.ops.kaleidoscope.join import Join

from .cases import close, noise


def factors():
    first = [noise(2, 1, 3, 2, seed=seed).requires_grad_() for seed in (1, 2)]
    second = [noise(2, 4, 1, 2, seed=seed).requires_grad_() for seed in (3, 4)]
    return *first, *second


def test_product_and_gradients_are_those_of_autograd():
    a, b, c, d = factors()
    expected = torch.complex(a, b) * torch.complex(c, d)
    real, imaginary = Join.apply(a, b, c, d, -3, -2)
    close(torch.complex(real, imaginary), expected)
    weight = torch.complex(noise(*real.shape), noise(*real.shape, seed=7))
    ours = torch.autograd.grad((real * weight.real + imaginary * weight.imag).sum(), (a, b, c, d))
    theirs = torch.autograd.grad((expected.real * weight.real + expected.imag * weight.imag).sum(), (a, b, c, d))
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)


@pytest.mark.parametrize("check", [torch.autograd.gradcheck, torch.autograd.gradgradcheck])
def test_first_and_second_derivatives(check):
    assert check(lambda *parts: Join.apply(*parts, -3, -2), factors(), fast_mode=True)


def test_function_transforms():
    a, b, c, d = (part.detach() for part in factors())
    gradient = torch.func.grad(lambda a: Join.apply(a, b, c, d, -3, -2)[0].sum())(a)
    close(gradient, c.sum(-3, keepdim=True).expand_as(a))
