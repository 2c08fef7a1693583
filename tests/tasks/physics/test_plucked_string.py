"""The plucked string against its exact reflection, a method of lines and the conservation of energy."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from eclose.tasks.physics import plucked_string
from eclose.tasks.physics.plucked_string import evaluate, generate, sample_initial, solve


def draw(count: int, seed: int = 0) -> torch.Tensor:
    return sample_initial(count, torch.Generator().manual_seed(seed))


def test_shapes_have_mean_square_one_and_the_stated_spectrum():
    shapes = draw(4000)
    assert evaluate(shapes, 512).square().mean() == pytest.approx(1, rel=0.05)
    deviation = shapes.std(0)
    for k in (2, 3, 9, 24):
        assert deviation[k - 1] / deviation[0] == pytest.approx((1 + 1 / 9) / (1 + k**2 / 9), rel=0.06)


@pytest.mark.parametrize("points", [7, 128])
def test_without_a_bed_the_string_comes_back_upside_down_and_mirrored(points):
    shapes = draw(5)
    mirrored = -evaluate(shapes, points).flip(1)
    torch.testing.assert_close(evaluate(solve(shapes, stiffness=0.0, time=1.0), points), mirrored, rtol=0, atol=1e-10)


def test_at_time_zero_nothing_has_moved():
    shapes = draw(3)
    torch.testing.assert_close(solve(shapes, stiffness=3.0, time=0.0)[:, : shapes.shape[1]], shapes)


@pytest.mark.parametrize("stiffness", [3.0, 20.0])
def test_the_solution_is_that_of_finite_differences(stiffness):
    shapes = draw(2, seed=3)[:, :8]  # smooth shapes, which 400 cells resolve
    cells, time = 400, 0.7
    u0 = evaluate(shapes, cells).numpy()

    def motion(_: float, state: np.ndarray) -> np.ndarray:
        u, velocity = state.reshape(2, 2, cells)
        walled = np.concatenate([-u[:, :1], u, -u[:, -1:]], axis=1)
        bend = (walled[:, 2:] - 2 * u + walled[:, :-2]) * cells**2
        return np.stack([velocity, bend - stiffness * u**3]).ravel()

    start = np.stack([u0, np.zeros_like(u0)]).ravel()
    found = solve_ivp(motion, (0, time), start, rtol=1e-8, atol=1e-8, method="DOP853").y[:, -1].reshape(2, 2, cells)[0]
    ours = evaluate(solve(shapes, stiffness=stiffness, time=time), cells).numpy()
    error = np.linalg.norm(ours - found, axis=1) / np.linalg.norm(found, axis=1)
    assert error.max() < 3e-3  # that of the finite differences
    assert np.linalg.norm(ours - u0) / np.linalg.norm(found) > 0.5


def test_more_modes_and_shorter_steps_change_nothing(monkeypatch):
    shapes = draw(20)
    coarse = evaluate(solve(shapes, stiffness=3.0, time=1.0), 64)
    monkeypatch.setattr(plucked_string, "MODES", 160)
    monkeypatch.setattr(plucked_string, "STEP", 0.001)
    fine = evaluate(solve(shapes, stiffness=3.0, time=1.0), 64)
    error = (coarse - fine).norm(dim=1) / fine.norm(dim=1)
    assert error.max() < 1e-3


def test_data_are_the_same_functions_at_every_size():
    x, y = generate(3, 64, seed=4)
    finer_x, finer_y = generate(300, 192, seed=4)
    torch.testing.assert_close(finer_x[:3, 1::3], x)
    torch.testing.assert_close(finer_y[:3, 1::3], y)
    assert not torch.equal(generate(3, 64, seed=5)[0], x)


def test_progress_is_told_chunk_by_chunk():
    told: list[tuple[int, int]] = []
    generate(300, 4, seed=0, time=0.01, progress=lambda done, total: told.append((done, total)))
    assert told == [(256, 300), (300, 300)]


@pytest.mark.parametrize(("stiffness", "time"), [(-1.0, 1.0), (1.0, -1.0), (math.nan, 1.0)])
def test_impossible_strings_are_refused(stiffness, time):
    with pytest.raises(ValueError, match="must not be negative"):
        solve(draw(1), stiffness=stiffness, time=time)
