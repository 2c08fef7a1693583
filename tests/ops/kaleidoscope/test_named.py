import pytest
import torch

from eclose.ops.kaleidoscope import digit_reversal, dilation, fno, reversal, separation, stages

from .cases import SIZES, dense, noise


@pytest.mark.parametrize("size", [8, 12, 16, 85])
def test_taps_go_to_their_places(size):
    w = noise(size)
    for taps in (1, 2, 3, 5):
        for rate in range(1, (size - 1) // max(taps - 1, 1) + 1):
            matrix = dilation(size, taps, rate)
            assert matrix.depth == 2
            moved = dense(matrix).real.double() @ w
            assert torch.equal(moved[: rate * taps : rate][:taps], w[:taps])
            assert torch.equal(moved.sort().values, w.sort().values)


def test_inputs_are_separated():
    x = torch.zeros(16)
    x[:5] = torch.arange(1.0, 6.0)
    matrix = separation(16, 5, 3)
    assert matrix.depth == 2
    moved = dense(matrix).real @ x
    assert torch.equal(moved[:15:3], x[:5])
    assert moved.count_nonzero() == 5


@pytest.mark.parametrize("size", SIZES)
def test_reversal(size):
    matrix = reversal(size)
    assert matrix.depth == 2
    assert torch.equal(dense(matrix), torch.eye(size)[digit_reversal(stages(size))] + 0j)


@pytest.mark.parametrize("size", [n for n in SIZES if n > 1])
def test_fno_pairs_halves_of_the_weights(size):
    radices = stages(size)
    for modes in sorted({1, size // radices[0] // 2 or 1, size // radices[0]}):
        matrix = fno(size, modes)
        assert matrix.depth == 4
        expected = torch.zeros(size, size, dtype=torch.complex64)
        for r in range(modes):
            expected[r, r], expected[r, modes + r] = 1, 1j
        assert torch.equal(dense(matrix), expected[digit_reversal(radices)])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="9 modes given; a size of 16 with first radix 2 has 1 to 8"):
        fno(16, 9)
    with pytest.raises(ValueError, match="3 entries up to position 16 do not fit into 16"):
        dilation(16, 3, 8)
    with pytest.raises(ValueError, match="6 inputs with stride 3 give 18 outputs, more than 16"):
        separation(16, 6, 3)
