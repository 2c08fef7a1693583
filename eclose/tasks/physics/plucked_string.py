r"""A string between two walls on a bed that stiffens: \(u_{tt} = u_{xx} - s u^3\), \(u(0) = u(1) = 0\), in float64.

The learning problem is \(u_0 \mapsto u(\cdot, t)\) for a string that is let go from rest. Without the bed (s = 0) waves
run to the walls and come back upside down: at time 1 the string has the shape \(-u_0(1 - x)\). No convolution mirrors
its input, and the bed makes the map nonlinear. A shape is held as its sine coefficients,

    u(x) = sum_{k=1}^{m} c_k sin(pi k x),

and sampled at the middle of cells, x = (j + 1/2) / points, so that the mirror image lies on the same points.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

_DRAWN = 24  # modes of a drawn shape
MODES = 96  # modes of the solution: the cube of a shape has three times as many, and they interact
STEP = 0.005  # the longest time step
_CHUNK = 256  # shapes at a time, so that progress can be told

# Forest and Ruth (1990): three leapfrog steps whose errors of third order cancel
_LONG = 1 / (2 - 2 ** (1 / 3))
_SUBSTEPS = (_LONG, 1 - 2 * _LONG, _LONG)


def sample_initial(count: int, generator: torch.Generator) -> Tensor:
    r"""Sine coefficients \(c_k \sim N(0, \sigma_k^2)\), \(\sigma_k \propto 1 / (1 + k^2 / 9)\); mean square 1."""
    k = torch.arange(1, _DRAWN + 1, dtype=torch.float64)
    deviation = 1 / (1 + k**2 / 9)
    deviation = deviation * math.sqrt(2) / deviation.norm()
    return deviation * torch.randn(count, _DRAWN, generator=generator, dtype=torch.float64)  # (count, _DRAWN)


def solve(shape: Tensor, *, stiffness: float, time: float) -> Tensor:  # (shapes, modes)
    """Sine coefficients (shapes, MODES) at `time` of strings let go from rest: Galerkin, exact in the linear part."""
    if not (stiffness >= 0 and time >= 0):
        raise ValueError(f"stiffness {stiffness} and time {time} must not be negative")
    c = torch.nn.functional.pad(shape, (0, MODES - shape.shape[1]))  # (shapes, MODES)
    frequency = math.pi * torch.arange(1, MODES + 1, dtype=torch.float64)
    steps = max(1, math.ceil(time / STEP))
    # A cube of MODES modes has 3 MODES; on so many points none of them is taken for one of the first MODES.
    nodes = torch.arange(1, 2 * MODES + 1, dtype=torch.float64) / (2 * MODES + 1)
    sines = torch.sin(frequency[:, None] * nodes)  # (MODES, nodes)
    back = sines.T * (2 / (2 * MODES + 1))
    velocity = torch.zeros_like(c)
    for _ in range(steps):
        for substep in _SUBSTEPS:
            dt = substep * time / steps
            c, velocity = _swing(c, velocity, frequency, dt / 2)
            velocity = velocity - dt * stiffness * (c @ sines) ** 3 @ back
            c, velocity = _swing(c, velocity, frequency, dt / 2)
    return c


def evaluate(coefficients: Tensor, points: int) -> Tensor:  # (shapes, modes) -> (shapes, points)
    """The heights at the middle of `points` cells."""
    k = torch.arange(1, coefficients.shape[1] + 1, dtype=torch.float64)
    middle = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    return coefficients @ torch.sin(math.pi * k[:, None] * middle)


def generate(
    count: int,
    points: int,
    *,
    seed: int,
    stiffness: float = 3.0,
    time: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Shapes at time 0 and at `time`; `progress(done, total)` after each chunk.

    The same seed gives the same shapes at every resolution, and the first shapes of a larger `count`.
    """
    generator = torch.Generator().manual_seed(seed)
    initial, final = [], []
    for start in range(0, count, _CHUNK):
        # Whole chunks are drawn: torch draws other numbers for another size.
        shape = sample_initial(_CHUNK, generator)[: count - start]
        initial.append(evaluate(shape, points))
        final.append(evaluate(solve(shape, stiffness=stiffness, time=time), points))
        if progress is not None:
            progress(min(start + _CHUNK, count), count)
    return torch.cat(initial), torch.cat(final)


def _swing(c: Tensor, velocity: Tensor, frequency: Tensor, dt: float) -> tuple[Tensor, Tensor]:
    """Every mode of the string alone is a pendulum: its exact motion over `dt`."""
    cosine, sine = torch.cos(frequency * dt), torch.sin(frequency * dt)
    return c * cosine + velocity * sine / frequency, velocity * cosine - c * frequency * sine
