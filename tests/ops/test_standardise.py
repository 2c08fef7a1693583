import pytest
import torch

from eclose.ops.standardise import Numbers, Standardise, Unstandardise

SPACES = [(), (7,), (4, 5), (2, 3, 4)]


def scale(channels=3):
    return torch.tensor([-2.0, 0.0, 100.0])[:channels], torch.tensor([0.5, 1.0, 30.0])[:channels]


@pytest.mark.parametrize("space", SPACES)
def test_by_channel(space):
    mean, std = scale()
    x = torch.randn(5, 3, *space, generator=torch.Generator().manual_seed(0))
    got = Standardise(mean, std, len(space))(x)
    for channel in range(3):
        torch.testing.assert_close(got[:, channel], (x[:, channel] - mean[channel]) / std[channel])
    got = Unstandardise(mean, std, len(space))(x)
    for channel in range(3):
        torch.testing.assert_close(got[:, channel], x[:, channel] * std[channel] + mean[channel])


@pytest.mark.parametrize("space", SPACES)
def test_one_undoes_the_other(space):
    x = 50 * torch.randn(5, 3, *space, generator=torch.Generator().manual_seed(0))
    there, back = Standardise(*scale(), len(space)), Unstandardise(*scale(), len(space))
    torch.testing.assert_close(back(there(x)), x, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(there(back(x)), x, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.float16, torch.float64])
def test_any_type_goes_in(dtype):
    x = torch.arange(6).view(1, 3, 2).to(dtype)
    got = Standardise(*scale(), 1)(x)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, Standardise(*scale(), 1)(x.float()))


def test_scales_are_saved_and_loaded_but_not_trained():
    module = Standardise(*scale(), 2)
    assert list(module.parameters()) == []
    other = Standardise(torch.zeros(3), torch.ones(3), 2)
    other.load_state_dict(module.state_dict())
    x = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(other(x), module(x))


def test_gradients_pass():
    x = torch.ones(2, 3, 4, requires_grad=True)
    Standardise(*scale(), 1)(x).sum().backward()
    torch.testing.assert_close(x.grad, (1 / scale()[1]).view(1, 3, 1).expand(2, 3, 4))


def test_numbers_become_those_of_the_network():
    module = Numbers()
    assert module(torch.tensor([3], dtype=torch.uint8)).dtype == torch.float32
    assert module.double()(torch.tensor([3])).dtype == torch.float64
    assert module.state_dict() == {}
    tokens = Numbers(tokens=True).half()
    assert tokens(torch.tensor([3], dtype=torch.int16)).dtype == torch.int64
