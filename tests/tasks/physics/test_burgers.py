"""Burgers' equation against quadrature, method of lines, published trajectories and its own conservation laws."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from eclose.tasks.physics import burgers

REFERENCES = Path(__file__).parents[3].parent / "shared" / "data" / "pde_reference"
PINNS = REFERENCES / "burgers_shock_pinns.npz"
NEURALOP = REFERENCES / "burgers_neuralop.npz"

SOLVERS = [burgers.solve_spectral, burgers.solve_cole_hopf]


def grid(points: int) -> torch.Tensor:
    return torch.arange(points, dtype=torch.float64) / points


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest relative error of a function."""
    return ((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max().item()


def derivative(u: torch.Tensor) -> torch.Tensor:
    k = torch.fft.rfftfreq(u.shape[-1], 1 / u.shape[-1], dtype=torch.float64)
    return torch.fft.irfft(2j * math.pi * k * torch.fft.rfft(u), n=u.shape[-1])


def draw(count: int, points: int, seed: int = 0, constant_mode: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return burgers.sample_initial(count, points, generator, constant_mode=constant_mode)


def test_initial_field_has_the_stated_variances():
    u0 = draw(4000, 256)
    spectrum = torch.fft.rfft(u0, norm="forward")
    assert spectrum[:, 0].real.std() == pytest.approx(1.0, rel=0.05)
    for k in (1, 2, 5, 20):
        coefficients = math.sqrt(2) * torch.stack([spectrum[:, k].real, spectrum[:, k].imag])
        expected = 25 / (4 * math.pi**2 * k**2 + 25)
        assert coefficients.mean().abs() < 0.06 * expected
        assert coefficients.std() == pytest.approx(expected, rel=0.03)  # 8000 numbers know it to 0.8 %
        assert coefficients[0].std() / coefficients[1].std() == pytest.approx(1, rel=0.06)
    covariance = torch.cov(torch.stack([spectrum[:, 1].real, spectrum[:, 1].imag, spectrum[:, 2].real]))
    assert (covariance - torch.diag(covariance.diag())).abs().max() < 0.1 * covariance.max()


def test_dropping_the_constant_mode_drops_the_mean_only():
    whole, centred = draw(5, 64), draw(5, 64, constant_mode=False)
    # 64 points see every 64th mode as a constant, so the sampled mean is small and not zero
    assert centred.mean(1).abs().max() < 1e-3
    shift = whole - centred
    assert shift.std(1).max() < 1e-14
    assert shift.abs().min() > 1e-3


def test_initial_field_is_the_same_function_at_any_resolution():
    finest = draw(3, 8192)
    for points in (32, 64, 1024):
        torch.testing.assert_close(draw(3, points), finest[:, :: 8192 // points], rtol=0, atol=1e-12)
    torch.testing.assert_close(draw(3, 96)[:, ::3], finest[:, ::256], rtol=0, atol=1e-12)
    torch.testing.assert_close(draw(3, 16384)[:, ::2], finest, rtol=0, atol=1e-12)


def quadrature(viscosity: float, time: float, points: int) -> torch.Tensor:
    """Hopf's formula on the line for u0 = 1/2 + sin(2 pi x): a mean of (x - y) / t, weighted by exp(-G / 2 nu)."""
    x, y = np.arange(points) / points, np.linspace(-6, 7, 40001)
    primitive = y / 2 - np.cos(2 * np.pi * y) / (2 * np.pi)
    action = (x[:, None] - y) ** 2 / (2 * time) + primitive
    weight = np.exp((action.min(1, keepdims=True) - action) / (2 * viscosity))
    return torch.from_numpy(((x[:, None] - y) / time * weight).sum(1) / weight.sum(1))


@pytest.mark.parametrize("viscosity", [0.1, 0.01])
@pytest.mark.parametrize("solver", SOLVERS)
def test_against_hopfs_formula(solver, viscosity):
    u0 = 0.5 + torch.sin(2 * math.pi * grid(64))
    assert error(solver(u0, viscosity=viscosity, time=1.0), quadrature(viscosity, 1.0, 64)) < 1e-8


@pytest.mark.parametrize(("viscosity", "time"), [(0.002, 1.0), (0.01, 0.2), (0.1, 1.0)])
def test_solve_finds_a_way_for_every_viscosity_and_time(viscosity, time):
    u0 = 0.5 + torch.sin(2 * math.pi * grid(64))
    assert error(burgers.solve(u0, viscosity=viscosity, time=time), quadrature(viscosity, time, 64)) < 1e-7


def test_against_method_of_lines():
    """The advective form, collocated, by an explicit integrator of scipy: nothing shared with our solvers."""
    points, viscosity = 192, 0.02
    u0 = draw(1, points, constant_mode=False)[0].numpy()
    k = 2j * np.pi * np.fft.rfftfreq(points, 1 / points)
    keep = abs(k) < 2 * np.pi * 20  # smooth data, so that collocation converges
    u0 = np.fft.irfft(np.fft.rfft(u0) * keep, n=points) + 0.3

    def slope(_, u):
        spectrum = np.fft.rfft(u)
        first, second = np.fft.irfft(np.stack([k, k**2]) * spectrum, n=points)
        return viscosity * second - u * first

    lines = solve_ivp(slope, (0, 1), u0, method="DOP853", rtol=1e-9, atol=1e-10).y[:, -1]
    for solver in SOLVERS:
        assert error(solver(torch.from_numpy(u0), viscosity=viscosity, time=1.0), torch.from_numpy(lines)) < 1e-7


@pytest.mark.skipif(not PINNS.exists(), reason="the reference data is not at hand")
@pytest.mark.parametrize("index", [30, 99])
def test_against_the_published_shock(index):
    """u0 = -sin(pi x) on [-1, 1], nu = 0.01 / pi; x = 2 X - 1 and u = 2 U give Burgers on [0, 1] with nu / 4."""
    with np.load(PINNS) as file:
        x, t, u = (torch.from_numpy(file[name]) for name in ("x", "t", "u"))
    u0 = -torch.sin(math.pi * x[:-1]) / 2  # the last point repeats the first
    found = burgers.solve(u0, viscosity=0.01 / math.pi / 4, time=t[index].item())
    assert error(2 * found, u[:-1, index]) < 1e-6


@pytest.mark.skipif(not NEURALOP.exists(), reason="the reference data is not at hand")
def test_against_published_trajectories():
    """Viscosity 0.01, frames 0.06 apart; 16 points give the initial state to a few 1e-4, which is the bound here."""
    with np.load(NEURALOP) as file:
        u0 = torch.from_numpy(file["burgers_test_16_x"][:40]).double()
        frames = torch.from_numpy(file["burgers_test_16_y"][:40]).double()
    for frame in (2, 16):
        found = burgers.solve(u0, viscosity=0.01, time=0.06 * frame)
        errors = (found - frames[:, frame]).norm(dim=1) / frames[:, frame].norm(dim=1)
        assert errors.median() < 3e-4
        assert errors.max() < 2e-3


@pytest.mark.parametrize("viscosity", [0.1, 0.01])
def test_the_default_grid_and_step_are_accurate(viscosity):
    u0 = draw(6, 4096, seed=3)
    found = burgers.solve_spectral(u0, viscosity=viscosity, time=1.0)
    finer = burgers.solve_spectral(u0, viscosity=viscosity, time=1.0, grid=1536, steps=1600)
    assert error(found, finer) < 1e-6
    assert error(burgers.solve_cole_hopf(u0, viscosity=viscosity, time=1.0), finer) < 1e-8


@pytest.mark.parametrize(("viscosity", "solver"), [(0.02, burgers.solve_cole_hopf), (0.01, burgers.solve_spectral)])
def test_the_equation_holds(viscosity, solver):
    u0, time, step = draw(3, 2048, seed=1), 0.6, 2e-3
    before2, before, now, after, after2 = (
        solver(u0, viscosity=viscosity, time=time + i * step) for i in (-2, -1, 0, 1, 2)
    )
    slope = (8 * (after - before) - (after2 - before2)) / (12 * step)
    residual = slope + derivative(now**2 / 2) - viscosity * derivative(derivative(now))
    assert residual.norm() < 1e-4 * slope.norm()


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_mean_is_kept_and_travels(solver):
    u0 = draw(4, 1024)
    found = solver(u0, viscosity=0.01, time=1.0)
    torch.testing.assert_close(found.mean(1), u0.mean(1), rtol=0, atol=1e-6)
    # Galilean invariance: a mean larger by 3/4 moves the same shape on by 3/4 of the interval
    moved = solver(u0 + 0.75, viscosity=0.01, time=1.0)
    torch.testing.assert_close(moved, 0.75 + found.roll(768, 1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("viscosity", [0.01, 0.004])  # exact, stepped
def test_generated_functions_are_the_same_at_any_resolution(viscosity):
    x, y = burgers.generate(3, 1024, seed=5, viscosity=viscosity)
    assert x.shape == y.shape == (3, 1024)
    assert x.dtype == y.dtype == torch.float64
    for points in (32, 64, 8192):
        u, v = burgers.generate(3, points, seed=5, viscosity=viscosity)
        fine, coarse = max(points, 1024), min(points, 1024)
        pairs = [(x, u), (y, v)] if points < 1024 else [(u, x), (v, y)]
        for long, short in pairs:
            torch.testing.assert_close(long[:, :: fine // coarse], short, rtol=0, atol=1e-11)


def test_generate_is_solve_of_its_own_initial_states():
    for viscosity in (0.02, 0.004):
        x, y = burgers.generate(3, 8192, seed=6, viscosity=viscosity)
        torch.testing.assert_close(burgers.solve(x, viscosity=viscosity, time=1.0), y, rtol=0, atol=1e-8)


def test_generate_is_deterministic_and_a_longer_set_begins_with_the_shorter():
    calls = []
    x, y = burgers.generate(150, 32, seed=1, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(128, 150), (150, 150)]
    again = burgers.generate(150, 32, seed=1)
    assert torch.equal(x, again[0])
    assert torch.equal(y, again[1])
    first = burgers.generate(130, 32, seed=1)
    torch.testing.assert_close(first[0], x[:130], rtol=0, atol=1e-13)
    torch.testing.assert_close(first[1], y[:130], rtol=0, atol=1e-13)
    assert not torch.allclose(burgers.generate(150, 32, seed=2)[0], x)


def test_a_function_does_not_depend_on_its_company():
    u0 = draw(4, 128, seed=2) * torch.tensor([[0.1], [1.0], [2.0], [0.0]], dtype=torch.float64)
    together = burgers.solve_spectral(u0, viscosity=0.02, time=0.5)
    alone = torch.cat([burgers.solve_spectral(row, viscosity=0.02, time=0.5)[None] for row in u0])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
    assert together[3].abs().max() == 0


def test_time_zero_is_the_initial_state():
    u0 = draw(2, 64)
    torch.testing.assert_close(burgers.solve(u0, viscosity=0.01, time=0.0), u0, rtol=0, atol=1e-12)


def test_what_cannot_be_resolved_is_refused():
    u0 = torch.sin(2 * math.pi * grid(64))
    with pytest.raises(ValueError, match="128 grid points cannot resolve viscosity 0.01: .* needs 275"):
        burgers.solve_spectral(u0, viscosity=0.01, time=1.0, grid=128)
    with pytest.raises(ValueError, match="cannot resolve viscosity 1e-05"):
        burgers.solve(u0, viscosity=1e-5, time=1.0)
    with pytest.raises(ValueError, match="take solve_spectral"):
        burgers.solve_cole_hopf(u0, viscosity=0.001, time=1.0)
    with pytest.raises(ValueError, match="must be positive"):
        burgers.generate(1, 32, seed=0, viscosity=0.0)
    with pytest.raises(ValueError, match="must not be negative"):
        burgers.generate(1, 32, seed=0, time=-1.0)
