"""K-layers against sums of dense matrices."""

import pytest
import torch

from eclose.ops.kaleidoscope import KaleidoscopeLayer


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
