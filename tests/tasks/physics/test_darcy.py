"""Darcy flow against a sparse direct solver, a manufactured solution and published fields."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import lil_matrix
from scipy.sparse.linalg import spsolve

from eclose.tasks.physics import darcy

NEURALOP = Path(__file__).parents[3].parent / "shared" / "data" / "pde_reference" / "darcy_neuralop.npz"


def direct(a: np.ndarray, f: np.ndarray) -> np.ndarray:  # (n, n), (n, n) -> (n, n)
    """The same five-point scheme, face by face, by a sparse LU decomposition."""
    n = a.shape[0]
    matrix, right = lil_matrix((n * n, n * n)), np.zeros(n * n)
    for i in range(n):
        for j in range(n):
            row = i * n + j
            if i in (0, n - 1) or j in (0, n - 1):
                matrix[row, row] = 1
                continue
            right[row] = f[i, j]
            for p, q in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                weight = (a[i, j] + a[p, q]) / 2 * (n - 1) ** 2
                matrix[row, row] += weight
                matrix[row, p * n + q] -= weight
    return spsolve(matrix.tocsr(), right).reshape(n, n)


def two_valued(count: int, n: int, seed: int = 0) -> torch.Tensor:
    return darcy.sample_coefficient(count, n, torch.Generator().manual_seed(seed))


def errors(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Relative error of each function."""
    return (found - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)


@pytest.mark.parametrize("n", [3, 4, 15, 30, 69])  # 69 is halved once; the others are solved on one grid
def test_against_a_direct_solver(n):
    rng = np.random.default_rng(n)
    a = torch.from_numpy(rng.choice([3.0, 12.0], (2, n, n)))  # rougher than any drawn field
    f = torch.from_numpy(rng.standard_normal((2, n, n)))
    expected = torch.stack([torch.from_numpy(direct(a[i].numpy(), f[i].numpy())) for i in range(2)])
    assert errors(darcy.solve(a, f, tolerance=1e-12), expected).max() < 1e-10
    assert errors(darcy.solve(a, f), expected).max() < 1e-7


def test_smooth_solution_converges_with_order_two():
    """u = sin(pi x) sin(2 pi y) and a = exp(x y), so f = -a (u_xx + u_yy) - a_x u_x - a_y u_y."""
    found = []
    for n in (33, 65, 129):
        x, y = torch.meshgrid(*[torch.linspace(0, 1, n, dtype=torch.float64)] * 2, indexing="ij")
        a = torch.exp(x * y)
        u = torch.sin(math.pi * x) * torch.sin(2 * math.pi * y)
        u_x = math.pi * torch.cos(math.pi * x) * torch.sin(2 * math.pi * y)
        u_y = 2 * math.pi * torch.sin(math.pi * x) * torch.cos(2 * math.pi * y)
        f = a * (5 * math.pi**2 * u - y * u_x - x * u_y)
        found.append(errors(darcy.solve(a[None], f), u[None]).item())
    assert found[2] < 2e-4
    orders = [math.log2(coarse / fine) for coarse, fine in zip(found, found[1:], strict=False)]
    assert orders == pytest.approx([2, 2], abs=0.1)


@pytest.mark.skipif(not NEURALOP.exists(), reason="the reference data is not at hand")
def test_against_published_fields():
    """Inputs 0 and 1 at x = i / 32; inside a piece -(u_xx + u_yy) is 50 and 50 / 18, so a is 1 and 18, f is 50.

    Where an interface runs between two points is not known: each point's value is taken up to half way to the
    next, which leaves an error of about 3 % on average. Coefficients of 1 and 12 would leave 11 %, a mirrored
    or transposed input more than that.
    """
    with np.load(NEURALOP) as file:
        pieces = torch.from_numpy(file["darcy_test_32_x"]).double()  # (50, 32, 32)
        expected = torch.from_numpy(file["darcy_test_32_y"]).double()
    refine = 4
    nearest = ((torch.arange(32 * refine + 1) + refine / 2 - 0.5) / refine).long().clamp(max=31)
    a = 1 + 17 * pieces[:, nearest][:, :, nearest]
    found = darcy.solve(a, 50.0, tolerance=1e-6)[:, :-1:refine, :-1:refine]
    assert errors(found, expected).mean() < 0.04
    assert errors(found, expected).max() < 0.07


def residual(a: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """1 - A u at the inner nodes."""
    out = torch.ones_like(u)[:, 1:-1, 1:-1]
    for axis in (1, 2):
        for shift in (1, -1):
            face = (a + a.roll(shift, axis)) / 2 * (u - u.roll(shift, axis)) * (a.shape[1] - 1) ** 2
            out = out - face[:, 1:-1, 1:-1]
    return out


def test_generated_fields_solve_the_equation():
    a, u = darcy.generate(3, 421, seed=4)
    assert a.shape == u.shape == (3, 421, 421)
    assert a.dtype == u.dtype == torch.float64
    assert residual(a, u).flatten(1).norm(dim=1).max() <= 1e-6 * 419
    for edge in (u[:, 0], u[:, -1], u[:, :, 0], u[:, :, -1]):
        assert edge.abs().max() == 0
    assert u[:, 1:-1, 1:-1].min() > 0
    # between the solutions for a = 12 and a = 3 everywhere, whose maximum is 0.0737 / a
    assert 0.0736 / 12 < u.amax((1, 2)).min() < u.amax((1, 2)).max() < 0.0738 / 3


def test_tolerance_bounds_the_residual():
    a = two_valued(2, 141)
    sizes = [residual(a, darcy.solve(a, tolerance=t)).norm() / math.sqrt(2 * 139**2) for t in (1e-3, 1e-6, 1e-10)]
    for size, tolerance in zip(sizes, (1e-3, 1e-6, 1e-10), strict=True):
        assert 1e-3 * tolerance < size < tolerance


def test_coefficient_has_the_stated_law():
    """Signs of a Gaussian field agree at two points with probability 1/2 + asin(correlation) / pi."""
    a = two_valued(500, 11)
    assert set(a.unique().tolist()) == {3.0, 12.0}
    assert (a == 12).double().mean() == pytest.approx(0.5, abs=0.02)
    k = torch.arange(200, dtype=torch.float64)
    variance = 1 / (math.pi**2 * (k[:, None] ** 2 + k**2) + 9) ** 2
    variance[0, 0] = 0

    def covariance(x: tuple[float, float], y: tuple[float, float]) -> float:
        across, along = (
            torch.cos(math.pi * k * p) * torch.cos(math.pi * k * q) * (2 - (k == 0).double())
            for p, q in zip(x, y, strict=True)
        )
        return (across @ variance @ along).item()

    for first, second in (((5, 5), (5, 6)), ((0, 0), (2, 0)), ((0, 3), (3, 9)), ((1, 1), (9, 9))):
        x, y = (tuple(i / 10 for i in node) for node in (first, second))
        correlation = covariance(x, y) / math.sqrt(covariance(x, x) * covariance(y, y))
        agreement = (a[:, first[0], first[1]] == a[:, second[0], second[1]]).double().mean().item()
        assert agreement == pytest.approx(0.5 + math.asin(correlation) / math.pi, abs=0.08)  # 3.6 deviations


def test_resolutions_sample_the_same_functions():
    a, u = darcy.generate(2, 61, seed=3, grid=61)
    for points in (31, 16, 6):
        coefficient, solution = darcy.generate(2, points, seed=3, grid=61)
        stride = 60 // (points - 1)
        assert torch.equal(coefficient, a[:, ::stride, ::stride])
        torch.testing.assert_close(solution, u[:, ::stride, ::stride], rtol=0, atol=0)
    # 8 points do not fit into 61: solved on 71 (70 intervals, the first even multiple of 7), 5 % apart at most
    coefficient, solution = darcy.generate(2, 8, seed=3, grid=61)
    finer, expected = darcy.generate(2, 71, seed=3, grid=71)
    assert torch.equal(coefficient, finer[:, ::10, ::10])
    torch.testing.assert_close(solution, expected[:, ::10, ::10], rtol=0, atol=0)
    same = darcy.generate(2, 11, seed=3, grid=61)[1], darcy.generate(2, 11, seed=3, grid=71)[1]
    assert errors(*same).max() < 0.05


def test_more_points_than_the_grid_are_solved_directly():
    a, u = darcy.generate(1, 52, seed=0, grid=21)
    assert u.shape == (1, 52, 52)
    torch.testing.assert_close(u, darcy.solve(a, tolerance=1e-6), rtol=0, atol=0)


def test_generate_is_deterministic_and_a_longer_set_begins_with_the_shorter():
    calls = []
    a, u = darcy.generate(6, 21, seed=1, grid=21, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 6), (6, 6)]
    again = darcy.generate(6, 21, seed=1, grid=21)
    assert torch.equal(a, again[0])
    assert torch.equal(u, again[1])
    assert torch.equal(darcy.generate(5, 21, seed=1, grid=21)[0], a[:5])
    assert not torch.equal(darcy.generate(6, 21, seed=2, grid=21)[0], a)


def test_chunks_do_not_change_the_solution(monkeypatch):
    scale = torch.tensor([1.0, 1e3, 1e-3, 1.0, 1.0], dtype=torch.float64)[:, None, None]
    a = two_valued(5, 85)
    a[3] = 5.0  # converges long before the others
    f = torch.linspace(0, 1, 85, dtype=torch.float64) * scale
    f[4] = 0
    together = darcy.solve(a, f)
    monkeypatch.setattr(darcy, "CHUNK", 1)
    alone = darcy.solve(a, f)
    assert errors(together[:4], alone[:4]).max() < 1e-12
    assert together[4].abs().max() == alone[4].abs().max() == 0


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"shape \(4, 4\)"):
        darcy.solve(torch.ones(4, 4))
    with pytest.raises(ValueError, match=r"as low as -1\.0: it must be positive"):
        darcy.solve(-torch.ones(1, 4, 4))
    with pytest.raises(ValueError, match="3 is the least"):
        darcy.generate(1, 2, seed=0)
    with pytest.raises(ValueError, match="wanted 1.0e-30: raise the tolerance"):
        darcy.solve(two_valued(1, 21), tolerance=1e-30)
