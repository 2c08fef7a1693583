"""The kernel for products of thin matrices."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (77, 130, 12), (64, 64, 16), (200, 33, 20), (65, 1, 32)])
def test_it_equals_the_product(shape, dtype, tolerance):
    from eclose.ops.xd.kernels.thin import thin_product

    n, m, k = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x, y = (torch.randn(rows, k, device="cuda", generator=generator) for rows in (n, m))
    expected = x.double() @ y.double().mT
    found = thin_product(x.to(dtype), y.to(dtype))
    assert found.dtype == dtype
    assert (found - expected).norm() < tolerance * expected.norm()
