import pytest
import torch

from eclose.ops.kaleidoscope import apply_kronecker, pairs

from .cases import arbitrary, close, dense, noise


@pytest.mark.parametrize("axes", [[(2, 2)], [(2, 3), (5,)], [(2, 2), (3,), (1,)], [(2,), (3,), (2, 2)]])
def test_axis_by_axis_is_the_kronecker_product(axes):
    matrices = [arbitrary(radices, depth=2, seed=seed) for seed, radices in enumerate(axes)]
    sizes = [matrix.size for matrix in matrices]
    full = torch.ones(1, 1, dtype=torch.complex128)
    for matrix in matrices:
        full = torch.kron(full, dense(matrix))
    x = noise(3, 2, *sizes, 2)
    expected = pairs.to_complex(x).reshape(3, 2, -1) @ full.T
    close(pairs.to_complex(apply_kronecker(matrices, x)).reshape(3, 2, -1), expected)


def test_batches_of_matrices():
    matrices = [arbitrary((2, 2), batch=(3,)), arbitrary((5,), batch=(3,), seed=1)]
    x = noise(3, 2, 4, 5, 2)
    expected = torch.einsum("zpu,zqv,zcuv->zcpq", dense(matrices[0]), dense(matrices[1]), pairs.to_complex(x))
    close(pairs.to_complex(apply_kronecker(matrices, x)), expected)
