import pytest
import torch

from eclose.ops.kaleidoscope import Kaleidoscope, KaleidoscopeLayer, dft, pairs

from .cases import arbitrary, close, dense, noise, seeded


def test_starts_unitary():
    module = Kaleidoscope(12, 9, batch=(2,), generator=seeded())
    full = pairs.to_complex(module.dense())
    close(full.mH @ full, torch.eye(12, dtype=full.dtype).expand(2, 12, 12), 1e-5)
    assert module.matrix.depth == 9


def test_starts_as_a_matrix_with_more_depth():
    module = Kaleidoscope(85, 3, start=dft(85), batch=(2,))
    assert module.entries.shape == (2, 3, 85 * 22, 2)
    close(pairs.to_complex(module.dense())[1], dense(dft(85)))
    assert Kaleidoscope(85, start=dft(85, increasing=True)).matrix.orders == (True,)
    with pytest.raises(ValueError, match="the start has size 85, not 84"):
        Kaleidoscope(84, start=dft(85))


def test_a_start_with_a_batch_keeps_it():
    start = arbitrary((2, 3), 2, batch=(4,), dtype=torch.float32)
    module = Kaleidoscope(6, start=start)
    assert torch.equal(module.entries, start.entries)
    with torch.no_grad():
        module.entries.zero_()
    assert start.entries.abs().sum() > 0


def test_entries_are_one_real_parameter_without_decay():
    module = Kaleidoscope(8)
    ((name, parameter),) = module.named_parameters()
    assert name == "entries"
    assert parameter.dtype == torch.float32
    assert module.undecayed == (name,)
    assert "size=8, radices=(2, 2, 2), depth=1, first=decreasing" in repr(module)


def test_learns_a_transform():
    """Gradient descent takes a random unitary matrix of one block towards P F."""
    target = dft(8, normalised=True).dense()
    module = Kaleidoscope(8, generator=seeded())
    optimiser = torch.optim.Adam(module.parameters(), lr=0.03)
    losses = []
    for _ in range(400):
        loss = (module.dense() - target).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-2 * losses[0]


def test_state_is_saved_and_loaded():
    one, other = Kaleidoscope(12, 2, generator=seeded(1)), Kaleidoscope(12, 2, generator=seeded(2))
    other.load_state_dict(one.state_dict())
    x = noise(3, 12, 2, dtype=torch.float32)
    assert torch.equal(one(x), other(x))
    close(pairs.to_complex(one(x)), pairs.to_complex(x) @ pairs.to_complex(one.dense()).T, 1e-5)


@pytest.mark.parametrize("sizes", [(7,), (6, 5), (4, 3, 5)])
def test_every_pair_of_channels_has_matrices_of_its_own(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = KaleidoscopeLayer(2, 3, sizes).double()
    with torch.no_grad():
        layer.bias.normal_()
    x = torch.randn(4, 2, *sizes, dtype=torch.float64)
    expected = layer.bias.expand(4, 3).reshape(4, 3, *[1] * len(sizes)).expand(4, 3, *sizes).clone()
    for output in range(3):
        for channel in range(2):
            whole = torch.ones(1, 1, dtype=torch.complex128)
            for matrix, size in zip(layer.matrices, sizes, strict=True):
                own = torch.view_as_complex(matrix.dense()[output, channel].contiguous())
                whole = torch.kron(whole, own[:size, :size])
            product = (whole @ x[:, channel].flatten(1).to(whole).T).T.real
            expected[:, output] += layer.scale * product.reshape(4, *sizes)
    torch.testing.assert_close(layer(x), expected)


def test_a_signal_keeps_its_size() -> None:
    torch.manual_seed(0)
    x = torch.randn(20, 4, 16, 16)
    assert 0.7 < KaleidoscopeLayer(4, 5, (16, 16))(x).square().mean() / x.square().mean() < 1.4
