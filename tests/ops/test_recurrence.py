"""Parallel scans against loops over tokens: values, gradients, gradients of gradients."""

import pytest
import torch
from torch import Tensor

from eclose.ops.recurrence import GatedScan, linear_recurrence


def slow(decay: Tensor, value: Tensor) -> Tensor:
    h, found = torch.zeros_like(value[..., 0, :]), []
    for a, b in zip(decay.unbind(-2), value.unbind(-2), strict=True):
        h = a * h + b
        found.append(h)
    return torch.stack(found, -2)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 2, 5, 1), (2, 16, 3), (1, 37, 2), (2, 4, 64, 2)])
def test_values_and_gradients(shape: tuple[int, ...]) -> None:
    decay, value, weight = (drawn(*shape, seed=seed) for seed in range(3))
    ours, truth = linear_recurrence(decay, value), slow(decay, value)
    torch.testing.assert_close(ours, truth)
    found = [torch.autograd.grad((h * weight).sum(), (decay, value)) for h in (ours, truth)]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_of_gradients() -> None:
    assert torch.autograd.gradgradcheck(linear_recurrence, (drawn(2, 5, 2), drawn(2, 5, 2, seed=1)))


def test_inputs_stay_as_they_are() -> None:
    decay, value = drawn(2, 7, 3).detach(), drawn(2, 7, 3, seed=1).detach()
    before = decay.clone(), value.clone()
    linear_recurrence(decay, value)
    assert torch.equal(decay, before[0])
    assert torch.equal(value, before[1])


def test_gates() -> None:
    """A closed gate keeps the state, an open one takes the candidate."""
    gates, candidates = torch.full((1, 6, 1), -1e4), torch.arange(1.0, 7.0).reshape(1, 6, 1)
    gates[:, 2] = 1e4
    h = GatedScan()(torch.cat([gates, candidates], -1))
    assert h.flatten().tolist() == [0, 0, 3, 3, 3, 3]


def test_half_precision() -> None:
    """The state is kept in single precision: a thousand small steps are not lost."""
    x = torch.stack([torch.full((1000,), -6.0), torch.ones(1000)], -1).bfloat16()
    h = GatedScan()(x)
    assert h.dtype == torch.bfloat16
    torch.testing.assert_close(h, GatedScan()(x.double()).bfloat16())
