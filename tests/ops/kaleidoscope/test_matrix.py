import numpy as np
import pytest
import torch

from eclose.ops.kaleidoscope import KMatrix, identity, pairs
from eclose.ops.kaleidoscope import dense as many
from eclose.ops.kaleidoscope.truth import by_stages

from .cases import RADICES, arbitrary, close, dense, noise


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("radices", RADICES)
def test_dense_is_the_product_of_its_stages(radices, increasing):
    for depth in (1, 2, 3):
        matrix = arbitrary(radices, depth, increasing=increasing)
        close(dense(matrix), by_stages(matrix))


@pytest.mark.parametrize("depth", range(1, 10))
def test_any_depth(depth):
    for increasing in (False, True):
        matrix = arbitrary((2, 3, 2), depth, increasing=increasing)
        assert matrix.depth == depth
        close(dense(matrix), by_stages(matrix))


def test_stages_by_hand():
    """n = 6 = 2 * 3, entry by entry: first pairs three apart, then triples of neighbours."""
    matrix = arbitrary((2, 3))
    entries = pairs.to_complex(matrix.entries[0]).numpy()
    first, second = entries[:12].reshape(2, 2, 3), entries[12:].reshape(2, 3, 3)
    x = np.arange(1, 7) * (1 + 0.5j)
    y = np.array([sum(first[p // 3, q, p % 3] * x[3 * q + p % 3] for q in range(2)) for p in range(6)])
    z = np.array([sum(second[p // 3, p % 3, q] * y[3 * (p // 3) + q] for q in range(3)) for p in range(6)])
    np.testing.assert_allclose(dense(matrix).numpy() @ x, z, atol=1e-12)
    signal = pairs.from_complex(torch.from_numpy(x))
    np.testing.assert_allclose(pairs.to_complex(matrix.apply(signal)).numpy(), z, atol=1e-12)


def test_strides_of_the_two_orders():
    """The stage applied first joins positions n/r_1 apart if strides decrease, neighbours if they increase."""
    for increasing, partner in ((False, 6), (True, 1)):
        matrix = identity(12, radices=(2, 2, 3), increasing=increasing, dtype=torch.float64)
        stage = slice(12 * 4, None) if increasing else slice(0, 12 * 2)
        matrix.entries[:, stage, 0] = 1
        row = dense(matrix)[0].real
        assert row.nonzero().flatten().tolist() == ([0, 1, 2] if increasing else [0, 6])
        assert row[partner] == 1


@pytest.mark.parametrize("radices", [(2, 2, 2), (5, 3), (7,), (1,)])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_batched_equals_one_by_one(radices, depth):
    matrix = arbitrary(radices, depth, batch=(2, 3), increasing=True)
    together = dense(matrix)
    assert together.shape == (2, 3, matrix.size, matrix.size)
    for i in range(2):
        for j in range(3):
            close(together[i, j], by_stages(KMatrix(matrix.entries[i, j], radices, True)))


def test_many_matrices_of_several_kinds_at_once():
    matrices = [
        arbitrary((2, 2, 2), 1, seed=1),
        arbitrary((5, 3), 2, batch=(2,), seed=2),
        arbitrary((2, 2, 2), 3, increasing=True, seed=3),
        arbitrary((2, 2, 2), 3, batch=(2, 1), increasing=True, seed=4),
        arbitrary((2, 2, 2), 3, seed=5),
        arbitrary((2, 2, 2), 1, increasing=True, seed=6),
        arbitrary((2, 2, 2), 1, batch=(3,), seed=7),
    ]
    for matrix, got in zip(matrices, many(matrices), strict=True):
        assert got.shape == (*matrix.batch, matrix.size, matrix.size, 2)
        close(got, matrix.dense())
        close(pairs.to_complex(got.reshape(-1, *got.shape[-3:])[0]), by_stages(_first(matrix)))


def _first(matrix):
    return KMatrix(matrix.entries.reshape(-1, *matrix.entries.shape[-3:])[0], matrix.radices, matrix.increasing)


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("radices", [(2, 2), (2, 3), (3, 2, 2), (5,), (1,)])
def test_gradients_of_dense_and_apply(radices, increasing):
    matrix = arbitrary(radices, 3, batch=(2,), increasing=increasing)
    x = noise(2, 3, matrix.size, 2).requires_grad_()
    entries = matrix.entries.requires_grad_()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda e: KMatrix(e, radices, increasing).dense(), entries, fast_mode=True)
    for merged in (False, True):
        assert torch.autograd.gradcheck(
            lambda e, v, merged=merged: KMatrix(e, radices, increasing).apply(v, merged=merged),
            (entries, x),
            fast_mode=True,
        )


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "radices", [(2, 2, 2, 2), (2, 3, 5), (5, 17), (3, 2), (6, 6), (7,), (1,), (2, 2, 2, 2, 2, 2, 2)]
)
def test_merged_form_equals_dense_in_values_and_gradients(radices, depth, increasing):
    matrix = arbitrary(radices, depth, batch=(2,), increasing=increasing)
    x = noise(2, 3, 2, matrix.size, 2)
    weight = noise(*x.shape, seed=5)
    found = []
    for merged in (False, True):
        entries, signal = matrix.entries.clone().requires_grad_(), x.clone().requires_grad_()
        y = KMatrix(entries, radices, increasing).apply(signal, merged=merged)
        assert y.shape == x.shape
        found.append((y, *torch.autograd.grad((y * weight).sum(), (entries, signal))))
    expected = torch.einsum("bpu,bcdu->bcdp", dense(matrix), pairs.to_complex(x))
    close(pairs.to_complex(found[0][0]), expected)
    for one, other in zip(*found, strict=True):
        close(other, one)


@pytest.mark.parametrize("size", [512, 1000, 2048])
def test_long_signals(size):
    """Where the merged form is the default: against the definition, stage by stage, in float32."""
    matrix = identity(size, 2)
    matrix.entries.copy_(matrix.entries + 0.1 * noise(*matrix.entries.shape, dtype=torch.float32))
    x = noise(2, size, 2, dtype=torch.float32)
    y = pairs.to_complex(x).to(torch.complex128)
    for block, increasing in enumerate(matrix.orders):
        y = _stage_by_stage(pairs.to_complex(matrix.entries[block]).to(y), matrix.radices, increasing, y)
    close(pairs.to_complex(matrix.apply(x)).to(y), y, 1e-5)


def _stage_by_stage(block, radices, increasing, x):
    size, start, left, stages = x.shape[-1], 0, 1, []
    for radix in radices:
        stages.append(block[start : start + size * radix].reshape(left, radix, radix, -1))
        start, left = start + size * radix, left * radix
    for stage in reversed(stages) if increasing else stages:
        stage = stage.transpose(1, 2) if increasing else stage
        x = torch.einsum("loir,blir->blor", stage, x.reshape(-1, *stage.shape[:2], stage.shape[-1])).reshape(-1, size)
    return x


@pytest.mark.parametrize("radices", [(2, 2, 2), (5, 3), (1,)])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_transpose_and_conjugate(radices, depth):
    for increasing in (False, True):
        matrix = arbitrary(radices, depth, increasing=increasing)
        expected = dense(matrix)
        for got, want in ((matrix.mT, expected.T), (matrix.conj(), expected.conj()), (matrix.mH, expected.mH)):
            assert got.depth == depth
            close(dense(got), want.resolve_conj())


@pytest.mark.parametrize("radices", [(2, 2, 2), (5, 3)])
@pytest.mark.parametrize(("first", "second"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("depths", [(1, 1), (1, 2), (2, 1), (3, 2)])
def test_product(radices, first, second, depths):
    right, left = (
        arbitrary(radices, depths[0], increasing=first),
        arbitrary(radices, depths[1], increasing=second, seed=1),
    )
    product = left @ right
    extra = int(right.orders[-1] == left.orders[0])
    assert product.depth == sum(depths) + extra
    assert all(a != b for a, b in zip(product.orders, product.orders[1:], strict=False))
    close(dense(product), by_stages(left) @ by_stages(right))


def test_product_of_batches():
    left, right = arbitrary((2, 3), 1, batch=(3, 1)), arbitrary((2, 3), 2, batch=(2,), seed=1)
    product = left @ right
    assert product.batch == (3, 2)
    close(dense(product), dense(left) @ dense(right))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"need \(\*batch, depth, 48, 2\)"):
        KMatrix(torch.zeros(1, 23, 2), (2, 2, 2))
    with pytest.raises(ValueError, match=r"radices \(2, 3\) and \(3, 2\) cannot be multiplied"):
        arbitrary((2, 3)) @ arbitrary((3, 2))
    with pytest.raises(ValueError, match=r"the matrix takes \(2, \*vectors, 6, 2\)"):
        arbitrary((2, 3), batch=(2,)).apply(torch.zeros(3, 6, 2))


def test_autocast_leaves_the_matrix_in_full_precision():
    matrix = arbitrary((2, 2, 2, 2), 5, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(matrix.dense(), matrix.dense().float())
        inside = matrix.dense()
    assert torch.equal(inside, matrix.dense())
