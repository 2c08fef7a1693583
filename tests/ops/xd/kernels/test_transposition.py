"""The kernel that lays a matrix out by columns."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (5, 77), (64, 32), (2180, 1024), (33, 1), (2**21 + 32, 2)])
def test_it_is_the_same_matrix_by_columns(shape, dtype):
    from eclose.ops.xd.kernels.transposition import by_columns

    x = torch.randn(shape, device="cuda", dtype=dtype)
    found = by_columns(x)
    assert torch.equal(found, x)
    assert found.mT.is_contiguous()
