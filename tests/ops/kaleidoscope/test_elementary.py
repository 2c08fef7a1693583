import pytest
import torch

from eclose.ops.kaleidoscope import deepened, from_stages, identity, stacked, unitary, zero

from .cases import RADICES, SIZES, arbitrary, close, dense, noise, seeded


@pytest.mark.parametrize("size", SIZES)
def test_identity_and_zero(size):
    for depth in (1, 2, 3):
        for increasing in (False, True):
            one = identity(size, depth, increasing=increasing)
            nothing = zero(size, depth, increasing=increasing)
            assert one.depth == nothing.depth == depth
            assert one.increasing == nothing.increasing == increasing
            assert torch.equal(dense(one), torch.eye(size) + 0j)
            assert torch.equal(dense(nothing), torch.zeros(size, size) + 0j)


def test_zero_can_be_left_by_gradients():
    for increasing in (False, True):
        matrix = zero(12, 3, increasing=increasing, dtype=torch.float64)
        entries = matrix.entries.requires_grad_()
        (gradient,) = torch.autograd.grad((matrix.dense() * noise(12, 12, 2)).sum(), entries)
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize("radices", RADICES)
def test_random_matrices_are_unitary(radices):
    for depth in (1, 2, 9):
        matrix = unitary(
            torch.Size(radices).numel(), depth, batch=(2,), radices=radices, generator=seeded(), dtype=torch.float64
        )
        full = dense(matrix)
        close(full.mH @ full, torch.eye(matrix.size, dtype=full.dtype).expand_as(full))
        assert not torch.allclose(full[0], full[1])


def test_random_matrices_are_uniform():
    """The first moment of a Haar unitary vanishes and E |u|^2 = 1/r; without the sign of R it would not."""
    full = dense(unitary(3, batch=(4000,), generator=seeded(), dtype=torch.float64))
    assert full.mean(0).abs().max() < 0.04
    assert (full.abs().square().mean(0) - 1 / 3).abs().max() < 0.02
    angles = full[:, 0, 0] / full[:, 0, 0].abs()
    assert angles.mean().abs() < 0.05


def test_same_generator_same_matrix():
    assert torch.equal(unitary(12, generator=seeded(3)).entries, unitary(12, generator=seeded(3)).entries)
    assert unitary(12).entries.dtype == torch.float32


def test_deepened():
    for increasing in (False, True):
        matrix = arbitrary((2, 3), 2, batch=(2,), increasing=increasing)
        deeper = deepened(matrix, 5)
        assert deeper.depth == 5
        close(dense(deeper), dense(matrix))
    with pytest.raises(ValueError, match="depth 2 cannot be given depth 1"):
        deepened(matrix, 1)


def test_stacked():
    matrices = [arbitrary((2, 3), 2, seed=seed) for seed in range(3)]
    together = stacked(matrices)
    assert together.batch == (3,)
    for matrix, full in zip(matrices, dense(together), strict=True):
        close(full, dense(matrix))
    with pytest.raises(ValueError, match="only matrices alike"):
        stacked([matrices[0], arbitrary((2, 3), 2, increasing=True)])


def test_counts():
    assert unitary(64, 3).entries.numel() == 3 * 2 * (2 * 64 * 6)  # XD: 2 n log2 n complex a block
    assert unitary(85).entries.numel() == 2 * 85 * (5 + 17)
    for radices in RADICES:
        matrix = arbitrary(radices, 2)
        assert matrix.entries.numel() == 2 * 2 * matrix.size * sum(radices)


def test_from_stages():
    left, right = noise(1, 2, 2, 3), noise(2, 3, 3, 1) + 1j * noise(2, 3, 3, 1, seed=4)
    matrix = from_stages([left, right])
    assert matrix.radices == (2, 3)
    full = torch.zeros(2, 3, 2, 3, dtype=torch.complex128)
    for o in range(2):
        for p in range(3):
            for i in range(2):
                for j in range(3):
                    full[o, p, i, j] = left[0, o, i, j] * right[o, p, j, 0]
    close(dense(matrix), full.reshape(6, 6))
