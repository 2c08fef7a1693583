r"""Burgers' equation \(u_t + (u^2/2)_x = \nu u_{xx}\) on the periodic unit interval, solved in float64.

The learning problem is \(u_0 \mapsto u(\cdot, 1)\) for \(u_0 \sim N(0, 625 (-\Delta + 25 I)^{-2})\) (FNO, 5.1).
A function is held as its half spectrum \(c_0 \dots c_m\), which stands for

    u(x) = c_0 + 2 Re sum_{k=1}^{m} c_k exp(2 pi i k x),

so that any number of points samples the same function. Two solvers keep to that:

- `solve_cole_hopf`, the fast form: the exact solution by the Cole-Hopf transform, a handful of FFTs. Its
  round-off grows as exp(1 / (16 nu t)), which float64 affords while nu t >= 0.005.
- `solve_spectral`, for every viscosity: Fourier Galerkin method, dealiased by the 2/3 rule, ETDRK4 in time.
  It works on the grid that the steepest possible front needs; its result is band-limited, so that evaluating
  it on a finer grid adds no error.

Both move with the mean: if v solves the equation with mean zero, c + v(x - c t, t) solves it with mean c.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

_MODES = 4096  # modes of a drawn function: all that 8192 points can tell apart
_GRIDS = tuple(sorted(base << power for base in (2, 3) for power in range(6, 14)))  # 128, 192, 256, ..., 24576
_CHUNK = 128  # functions at a time: 128 x 8192 complex numbers are 16 MiB


def sample_initial(count: int, points: int, generator: torch.Generator, *, constant_mode: bool) -> Tensor:
    r"""Draw from \(N(0, 625 (-\Delta + 25 I)^{-2})\) at x = j / points; without `constant_mode` zero mean.

    In the basis 1, sqrt(2) cos(2 pi k x), sqrt(2) sin(2 pi k x) the coefficients are independent with
    standard deviation 25 / (4 pi^2 k^2 + 25). The same generator state gives the same functions whatever
    `points`.
    """
    return _evaluate(_draw(count, generator, constant_mode), points)  # (count, points)


def solve(u0: Tensor, *, viscosity: float, time: float) -> Tensor:  # (..., points)
    """Solution at `time` on the points of `u0`: the exact form where float64 affords it, else stepping."""
    return _on_spectra(u0, lambda spectrum, points: _solve(spectrum, points, viscosity, time))


def solve_cole_hopf(u0: Tensor, *, viscosity: float, time: float) -> Tensor:  # (..., points)
    """Exact solution at `time` on the points of `u0`; a `ValueError` where round-off would spoil it."""
    return _on_spectra(u0, lambda spectrum, points: _cole_hopf(spectrum, points, viscosity, time))


def solve_spectral(
    u0: Tensor,  # (..., points)
    *,
    viscosity: float,
    time: float,
    grid: int | None = None,
    steps: int | None = None,
) -> Tensor:
    """Solution at `time` on the points of `u0` by ETDRK4 on a dealiased Fourier grid.

    `grid` and `steps` replace the chosen numbers of grid points and time steps; a `grid` that cannot resolve
    the steepest front that `u0` may form is a `ValueError`.
    """
    return _on_spectra(u0, lambda spectrum, points: _spectral(spectrum, points, viscosity, time, grid, steps))


def generate(
    count: int,
    points: int,
    *,
    seed: int,
    viscosity: float = 0.01,
    constant_mode: bool = True,
    time: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Initial states and solutions at `time` of drawn functions; `progress(done, total)` after each chunk.

    The same seed gives the same functions at every resolution, and the first functions of a larger `count`.
    """
    generator = torch.Generator().manual_seed(seed)
    initial = torch.empty(count, points, dtype=torch.float64)  # (count, points)
    final = torch.empty_like(initial)  # (count, points)
    for start in range(0, count, _CHUNK):
        rows = slice(start, min(start + _CHUNK, count))
        spectrum = _draw(rows.stop - start, generator, constant_mode)
        initial[rows] = _evaluate(spectrum, points)
        final[rows] = _solve(spectrum, points, viscosity, time)
        if progress is not None:
            progress(rows.stop, count)
    return initial, final


def _draw(count: int, generator: torch.Generator, constant_mode: bool) -> Tensor:
    noise = torch.randn(count, _MODES, 2, generator=generator, dtype=torch.float64)
    k = torch.arange(_MODES, dtype=torch.float64)
    spectrum = torch.view_as_complex(noise) * (25 / (4 * math.pi**2 * k**2 + 25) / math.sqrt(2))
    spectrum[:, 0] = noise[:, 0, 0] if constant_mode else 0.0
    return spectrum  # (count, _MODES)


def _spectrum(u: Tensor) -> Tensor:
    """Half spectrum of the trigonometric interpolant of the values `u`."""
    spectrum = torch.fft.rfft(u, norm="forward")  # (functions, points // 2 + 1)
    if u.shape[-1] % 2 == 0:
        spectrum[:, -1] /= 2  # the alternating mode is its own mirror image, and the series counts it twice
    return spectrum


def _evaluate(spectrum: Tensor, points: int) -> Tensor:  # (functions, modes) -> (functions, points)
    """The series at x = j / points, exact for any number of points: modes that agree there are added up."""
    filled = torch.nn.functional.pad(spectrum, (0, -spectrum.shape[1] % points))
    whole = filled.unflatten(1, (-1, points)).sum(1)  # (functions, points)
    return 2 * torch.fft.ifft(whole, norm="forward").real - spectrum[:, :1].real


def _on_spectra(u0: Tensor, solver: Callable[[Tensor, int], Tensor]) -> Tensor:
    rows = u0.to(torch.float64).reshape(-1, u0.shape[-1])  # (functions, points)
    solved = [solver(_spectrum(chunk), u0.shape[-1]) for chunk in rows.split(_CHUNK)]
    return torch.cat(solved).reshape(u0.shape)


def _solve(spectrum: Tensor, points: int, viscosity: float, time: float) -> Tensor:
    exact = viscosity * time >= 0.005
    return (_cole_hopf if exact else _spectral)(spectrum, points, viscosity, time)


def _wave_numbers(spectrum: Tensor) -> Tensor:
    k = torch.arange(spectrum.shape[1], dtype=torch.float64, device=spectrum.device)
    return 2 * math.pi * k  # (modes,)


def _cole_hopf(spectrum: Tensor, points: int, viscosity: float, time: float) -> Tensor:
    """u = -2 nu phi_x / phi, where phi solves the heat equation from exp(-(1 / 2 nu) integral of u_0)."""
    _check(viscosity, time)
    mean = spectrum[:, :1].real  # (functions, 1)
    integral = spectrum / (1j * _wave_numbers(spectrum).clamp(min=1))
    integral[:, 0] = 0
    potential = _evaluate(integral, 2 * _MODES)  # (functions, 2 * _MODES)
    potential -= potential.amin(1, keepdim=True)
    phi = torch.exp(potential / (-2 * viscosity))
    spectrum = torch.fft.rfft(phi, norm="forward")[:, :_MODES]  # (functions, _MODES)
    k = _wave_numbers(spectrum)
    spectrum = spectrum * torch.exp(-viscosity * time * k**2 - 1j * k * mean * time)
    phi = _evaluate(spectrum, points)  # (functions, points)
    if not phi.min() > 1e-7:
        raise ValueError(
            f"viscosity {viscosity} is too small for the Cole-Hopf transform at time {time} in float64: "
            "take solve_spectral"
        )
    return mean - 2 * viscosity * _evaluate(1j * k * spectrum, points) / phi


def _spectral(
    spectrum: Tensor,  # (functions, modes)
    points: int,
    viscosity: float,
    time: float,
    grid: int | None = None,
    steps: int | None = None,
) -> Tensor:
    """ETDRK4, functions of like steepness together, so that none depends on the company it is in."""
    _check(viscosity, time)
    if time == 0:
        return _evaluate(spectrum, points)
    mean = spectrum[:, :1].real  # (functions, 1)
    values = _evaluate(spectrum, 2 * _MODES)
    plans: dict[tuple[int, int], list[int]] = {}
    for row, height in enumerate((values.amax(1) - values.amin(1)).tolist()):
        plan = _plan(height, spectrum.shape[1], viscosity, time, grid, steps)
        plans.setdefault(plan, []).append(row)
    solved = torch.empty(spectrum.shape[0], points, dtype=torch.float64, device=spectrum.device)
    for plan, rows in plans.items():
        final = _march(spectrum[rows], viscosity, time, *plan)
        final = final * torch.exp(-1j * _wave_numbers(final) * mean[rows] * time)
        solved[rows] = mean[rows] + _evaluate(final, points)
    return solved


def _plan(
    height: float, modes: int, viscosity: float, time: float, grid: int | None, steps: int | None
) -> tuple[int, int]:
    """Grid points and time steps for an initial state whose values span `height`; no later state spans more.

    A front of that height is a hyperbolic tangent whose k-th mode falls as exp(-4 pi^2 nu k / height); a mode
    of the initial state falls as exp(-4 pi^2 nu k^2 t). The grid keeps what exceeds e^-18 and e^-36 of them.
    """
    front = 18 * height / (4 * math.pi**2 * viscosity)
    needed = math.ceil(3 * max(front, min(3 / (math.pi * math.sqrt(viscosity * time)), modes))) + 1
    grid = grid or next((size for size in _GRIDS if size >= needed), _GRIDS[-1])
    if grid < needed:
        raise ValueError(
            f"{grid} grid points cannot resolve viscosity {viscosity}: a state that spans {height:.3g} needs "
            f"{needed} of them; raise the viscosity or the grid"
        )
    return grid, steps or max(400, _rounded(time * height**2 / (2 * viscosity)))


def _rounded(steps: float) -> int:
    """The next power of two, so that many functions share a plan."""
    return 2 ** math.ceil(math.log2(steps)) if steps > 1 else 1


def _march(spectrum: Tensor, viscosity: float, time: float, grid: int, steps: int) -> Tensor:
    """ETDRK4 (Cox and Matthews 2002) for v_t = -nu k^2 v + N(v), N(v) = -(i k / 2) (v^2)^, mean zero."""
    keep = (grid - 1) // 3 + 1  # 2/3 rule: products of kept modes alias onto dropped ones only
    v = torch.nn.functional.pad(spectrum, (0, keep - spectrum.shape[1])).clone()  # (functions, keep)
    v[:, 0] = 0
    k = _wave_numbers(v)
    half, whole, q, f1, f2, f3 = _etdrk4(-viscosity * k**2, time / steps)

    def nonlinear(v: Tensor) -> Tensor:
        square = torch.fft.irfft(v, n=grid, norm="forward") ** 2  # (functions, grid)
        return torch.fft.rfft(square, norm="forward")[:, :keep] * (-0.5j * k)

    for _ in range(steps):
        n = nonlinear(v)
        base = half * v
        a = base + q * n
        n_a = nonlinear(a)
        n_b = nonlinear(base + q * n_a)
        n_c = nonlinear(half * a + q * (2 * n_b - n))
        v = whole * v + f1 * n + f2 * (n_a + n_b) + f3 * n_c
    return v


def _etdrk4(linear: Tensor, step: float) -> tuple[Tensor, ...]:  # (modes,)
    """Weights of ETDRK4 as means over a circle about each point: no cancellation (Kassam, Trefethen 2005)."""
    angles = math.pi * (torch.arange(32, dtype=torch.float64, device=linear.device) + 0.5) / 32
    z = step * linear[:, None] + torch.polar(torch.ones_like(angles), angles)  # (modes, 32)
    e = torch.exp(z)
    weights = (
        (torch.exp(z / 2) - 1) / z,
        (-4 - z + e * (4 - 3 * z + z**2)) / z**3,
        2 * (2 + z + e * (z - 2)) / z**3,
        (-4 - 3 * z - z**2 + e * (4 - z)) / z**3,
    )
    return torch.exp(step * linear / 2), torch.exp(step * linear), *(step * w.mean(1).real for w in weights)


def _check(viscosity: float, time: float) -> None:
    if not (viscosity > 0 and time >= 0):
        raise ValueError(f"viscosity {viscosity} must be positive and time {time} must not be negative")
