"""The kernels for products of all frequencies: many small complex ones, and those of thin matrices."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

MANY = (70_000, 2, 3, 2)
"""More matrices, as of a grid of 42 x 42 x 42, than a device takes along the second axis of programs."""


def exact(x, y, conjugate):
    x, y = (torch.complex(*part.double()) for part in (x, y))
    found = x @ (y.conj() if conjugate else y)
    return torch.stack([found.real, found.imag])


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize(
    "shape", [(5, 7, 3, 11), (3, 128, 64, 64), (2, 65, 129, 33), (4, 1, 1, 1), (1, 20, 32, 32), MANY]
)
@pytest.mark.parametrize("layout", ["rows", "columns", "mixed"])
def test_it_equals_complex_products(shape, conjugate, layout):
    from eclose.ops.xd.kernels.frequency_product import complex_bmm

    batch, n, m, p = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(2, batch, n, m, device="cuda", generator=generator)
    y = torch.randn(2, batch, m, p, device="cuda", generator=generator)
    if layout != "rows":
        x = x.mT.contiguous().mT
    if layout == "columns":
        y = y.mT.contiguous().mT
    expected = exact(x, y, conjugate)
    assert (complex_bmm(x, y, conjugate=conjugate) - expected).norm() < 1e-5 * expected.norm()
    halves = (part.to(torch.bfloat16) for part in (x, y))
    found = complex_bmm(*halves, conjugate=conjugate)
    assert found.dtype == torch.bfloat16
    assert (found - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize(
    "shape", [(5, 7, 3, 11), (3, 128, 64, 64), (2, 65, 129, 33), (4, 1, 2, 2), (1, 20, 32, 16), MANY]
)
def test_three_at_once_equal_one_after_the_other(shape):
    from eclose.ops.xd.kernels.frequency_product import three_products

    batch, rows, c_out, c_in = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(2, batch, rows, c_in, device="cuda", generator=generator)
    cotangent = torch.randn(2, batch, rows, c_out, device="cuda", generator=generator)
    response = torch.randn(2, batch, c_in, c_out, device="cuda", generator=generator).mT  # lies otherwise
    expected = (
        exact(x, response.mT, False),
        exact(cotangent, response, True),
        exact(cotangent.mT, x, True),
    )
    for found, truth in zip(three_products(x, cotangent, response), expected, strict=True):
        assert (found - truth).norm() < 1e-5 * truth.norm()
    halves = [part.to(torch.bfloat16) for part in (x, cotangent, response)]
    for found, truth in zip(three_products(*halves), expected, strict=True):
        assert found.dtype == torch.bfloat16
        assert (found - truth).norm() < 0.02 * truth.norm()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
@pytest.mark.parametrize("shape", [(1, 1, 1), (77, 130, 12), (64, 64, 16), (200, 33, 20), (65, 1, 32)])
def test_it_equals_the_product_of_thin_matrices(shape, dtype, tolerance):
    from eclose.ops.xd.kernels.frequency_product import thin_product

    n, m, k = shape
    generator = torch.Generator("cuda").manual_seed(0)
    x, y = (torch.randn(rows, k, device="cuda", generator=generator) for rows in (n, m))
    expected = x.double() @ y.double().mT
    found = thin_product(x.to(dtype), y.to(dtype))
    assert found.dtype == dtype
    assert (found - expected).norm() < tolerance * expected.norm()
