"""Norms of Kronecker products from their factors, against the products."""

import pytest
import torch

from eclose.ops.xd.algebra import kronecker_norms

SHAPES = [[(3, 4)], [(2, 3), (4, 1)], [(1, 1), (2, 5), (3, 2)], [(2, 3, 4), (5, 1, 2)]]


def factors(shapes, seed, dtype=torch.complex128):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def formed(tensors):
    product = tensors[0]
    for tensor in tensors[1:]:
        product = torch.kron(product, tensor)
    return product


@pytest.mark.parametrize("shapes", SHAPES)
def test_norms_and_distances(shapes):
    one, other = factors(shapes, 0), factors(shapes, 1)
    difference = formed(one) - formed(other)
    assert kronecker_norms.norm(one) == pytest.approx(formed(one).norm().item(), rel=1e-12)
    assert kronecker_norms.norm(one, real=True) == pytest.approx(formed(one).real.norm().item(), rel=1e-12)
    assert kronecker_norms.distance(one, other) == pytest.approx(difference.norm().item(), rel=1e-12)
    assert kronecker_norms.distance(one, other, real=True) == pytest.approx(difference.real.norm().item(), rel=1e-12)


@pytest.mark.parametrize("shapes", SHAPES)
def test_small_distances_do_not_cancel(shapes):
    one = factors(shapes, 0)
    moves = factors(shapes, 2)
    assert kronecker_norms.distance(one, one) == 0
    tiny = [a + 1e-11 * move for a, move in zip(one, moves, strict=True)]
    # To first order the difference is the sum of the products with one factor moved.
    first_order = 0
    for place, (near, far) in enumerate(zip(tiny, one, strict=True)):
        first_order = first_order + formed([*one[:place], near - far, *one[place + 1 :]])
    assert kronecker_norms.distance(tiny, one) == pytest.approx(first_order.norm().item(), rel=1e-6)
    assert kronecker_norms.distance(tiny, one, real=True) == pytest.approx(first_order.real.norm().item(), rel=1e-6)
