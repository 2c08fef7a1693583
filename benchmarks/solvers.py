"""Functions per second of the solvers that generate the physics tasks, at the papers' resolutions."""

import time

import torch

from benchmarks.runner import Entry
from eclose.tasks.physics import burgers, darcy

COUNT = 1000


def check(device: torch.device) -> str:
    """Resolutions sample the same functions, and the equations hold."""
    u0, u1 = burgers.generate(3, 1024, seed=7, viscosity=0.01)
    again = burgers.generate(3, 64, seed=7, viscosity=0.01)
    torch.testing.assert_close(u1[:, ::16], again[1])
    # 1024 samples of the initial field see its finest modes as a mean of about 1e-6.
    assert float((u0.mean(1) - u1.mean(1)).abs().max()) < 1e-5, "the mean of a periodic field is conserved"
    a, p = darcy.generate(2, 85, seed=7)
    assert set(a.unique().tolist()) == {3.0, 12.0}
    assert float(p[:, 0].abs().max()) == 0.0
    return "resolutions agree, the mean is conserved, boundary values are zero"


def measure(device: torch.device) -> list[str]:
    """Seconds for a thousand functions, once each, on the CPU."""
    lines = ["| task | seconds for 1000 functions |", "|---|---|"]
    for points, viscosity in ((256, 0.01), (1024, 0.01), (8192, 0.01), (8192, 0.1)):
        begun = time.perf_counter()
        burgers.generate(COUNT, points, seed=0, viscosity=viscosity)
        lines.append(f"| burgers, {points} points, viscosity {viscosity} | {time.perf_counter() - begun:.1f} |")
    for points in (85, 421):
        begun = time.perf_counter()
        darcy.generate(COUNT, points, seed=0)
        lines.append(f"| darcy, solved at 421 x 421, {points} x {points} kept | {time.perf_counter() - begun:.1f} |")
    return [*lines, "", "Goal: about a minute or less."]


ENTRY = Entry("solvers", "Generating the physics tasks", check, measure)
