r"""Darcy flow \(-\nabla \cdot (a \nabla u) = f\) on the unit square, u = 0 on its edge, solved in float64.

The learning problem is a -> u for f = 1 and a two-valued permeability: 12 where a draw from
\(N(0, (-\Delta + 9 I)^{-2})\) with Neumann boundary is not negative, 3 elsewhere (FNO, section 5.2).

Discretisation: second-order differences on the n x n nodes i / (n - 1), the boundary among them; the
coefficient of a face is the arithmetic mean of its two nodes, as in the FNO authors' solver. (Theirs draws
the field at cell centres and splines it to the nodes and back; here the nodes are evaluated directly.)

Solver: conjugate gradients in float64, preconditioned by one float32 multigrid cycle. The grid is halved
while it can be; the last one is solved by three Chebyshev steps on the sine transform's exact inverse of the
Laplacian, whose quotient with the operator lies within [min a, max a]. The sine transform alone would do on
any grid, but at 421 x 421 it takes three times as long.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

_MODES = 420  # cosine modes per axis of a drawn field, as many as 421 nodes have intervals
CHUNK = 4  # functions at a time: their working set at 421 x 421 stays in a 32 MiB cache
_ITERATIONS = 100  # a contrast of 4 takes about 13


def sample_coefficient(count: int, points: int, generator: torch.Generator) -> Tensor:
    r"""Draw the permeability, 12 or 3, at the nodes of a points x points grid.

    The field under the threshold is a cosine series: in the orthonormal basis e_k1(x) e_k2(y) with e_0 = 1
    and e_k(x) = sqrt(2) cos(pi k x) the coefficients are independent with standard deviation
    1 / (pi^2 (k1^2 + k2^2) + 9), the constant one zero. The same generator state gives the same functions
    whatever `points`.
    """
    basis, deviation = _series(points)
    coefficient = torch.empty(count, points, points, dtype=torch.float64)
    for i in range(count):
        noise = torch.randn(_MODES, _MODES, generator=generator, dtype=torch.float64)
        coefficient[i] = torch.where(basis @ (noise * deviation) @ basis.T >= 0, 12.0, 3.0)
    return coefficient  # (count, points, points)


def solve(
    coefficient: Tensor,  # (functions, n, n)
    right_hand_side: float | Tensor = 1.0,  # a number, (n, n) or (functions, n, n)
    tolerance: float = 1e-8,
) -> Tensor:
    """Solution at the nodes, (functions, n, n), with |f - A u| <= tolerance |f| at the inner nodes.

    For the coefficients drawn here the relative error of the discrete solution is a thousandth of
    `tolerance`, and the discretisation's own error is about 2e-3 at 421 x 421.
    """
    _check(coefficient)
    a = coefficient.to(torch.float64)
    f = torch.as_tensor(right_hand_side, dtype=torch.float64, device=a.device).expand_as(a)
    chunks = zip(a.split(CHUNK), f.split(CHUNK), strict=True)
    return torch.cat([_conjugate_gradients(_Operator.of(a), _inside(f), tolerance) for a, f in chunks])


def generate(
    count: int,
    points: int,
    *,
    seed: int,
    grid: int = 421,
    tolerance: float = 1e-6,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Permeabilities and solutions at points x points nodes; `progress(done, total)` after each chunk.

    The equation is solved on a grid of at least `grid` nodes a side that contains the wanted nodes: 421
    itself for 421, 211, 141, 106, 85, 71, 61, 43, 36, 31, ... points, 505 for 64, 509 for 128. The same seed
    gives the same permeabilities at every resolution, and the first ones of a larger `count`; the solutions
    are the same numbers on the same grid, and differ by the discretisation error on another.
    """
    if points < 3:
        raise ValueError(f"{points} points a side leave nothing between the boundaries; 3 is the least")
    stride = max(1, math.ceil((grid - 1) / (points - 1)))
    if stride > 1 and stride * (points - 1) % 2 == 1:
        stride += 1  # multigrid on a slightly finer grid beats a grid that cannot be halved
    nodes = stride * (points - 1) + 1
    generator = torch.Generator().manual_seed(seed)
    coefficient = torch.empty(count, points, points, dtype=torch.float64)  # (count, points, points)
    solution = torch.empty_like(coefficient)  # (count, points, points)
    for start in range(0, count, CHUNK):
        rows = slice(start, min(start + CHUNK, count))
        a = sample_coefficient(rows.stop - start, nodes, generator)
        coefficient[rows] = a[:, ::stride, ::stride]
        solution[rows] = solve(a, tolerance=tolerance)[:, ::stride, ::stride]
        if progress is not None:
            progress(rows.stop, count)
    return coefficient, solution


@lru_cache(maxsize=1)
def _series(points: int) -> tuple[Tensor, Tensor]:
    """The cosine basis at the nodes, (points, _MODES), and the coefficients' deviations, (_MODES, _MODES)."""
    k = torch.arange(_MODES, dtype=torch.float64)
    basis = torch.cos(math.pi * torch.linspace(0, 1, points, dtype=torch.float64)[:, None] * k)
    basis[:, 1:] *= math.sqrt(2)
    deviation = 1 / (math.pi**2 * (k[:, None] ** 2 + k**2) + 9)
    deviation[0, 0] = 0
    return basis, deviation


def _check(coefficient: Tensor) -> None:
    shape = tuple(coefficient.shape)
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 3:
        raise ValueError(f"coefficient of shape {shape}: it must be (functions, n, n) with n of at least 3")
    if not bool((coefficient > 0).all()):
        raise ValueError(f"coefficient as low as {coefficient.min().item()}: it must be positive everywhere")


class _Operator(NamedTuple):
    """-div(a grad u) on one grid of n x n nodes, by the coefficients of its faces divided by h^2."""

    down: Tensor  # (functions, n - 1, n - 2), between nodes (i, j) and (i + 1, j)
    right: Tensor  # (functions, n - 2, n - 1), between nodes (i, j) and (i, j + 1)

    @staticmethod
    def of(a: Tensor) -> "_Operator":  # (functions, n, n)
        down = a[:, 1:, 1:-1] + a[:, :-1, 1:-1]
        right = a[:, 1:-1, 1:] + a[:, 1:-1, :-1]
        weight = (a.shape[1] - 1) ** 2 / 2
        return _Operator(down * weight, right * weight)

    @property
    def nodes(self) -> int:
        return self.down.shape[1] + 1

    def apply(self, u: Tensor) -> Tensor:  # (functions, n, n) with zero boundary -> (functions, n - 2, n - 2)
        flux = u[:, 1:, 1:-1] - u[:, :-1, 1:-1]
        flux *= self.down  # in place throughout: fresh memory costs more here than the arithmetic
        out = flux[:, :-1] - flux[:, 1:]
        flux = u[:, 1:-1, 1:] - u[:, 1:-1, :-1]
        flux *= self.right
        out += flux[:, :, :-1]
        out -= flux[:, :, 1:]
        return out

    def diagonal(self) -> Tensor:  # (functions, n - 2, n - 2)
        return self.down[:, :-1] + self.down[:, 1:] + self.right[:, :, :-1] + self.right[:, :, 1:]

    def coarse(self) -> "_Operator":
        """Every second node: resistances in a row add (harmonic mean), neighbouring rows share the flow."""
        down = 1 / (1 / self.down[:, 0::2] + 1 / self.down[:, 1::2])
        right = 1 / (1 / self.right[:, :, 0::2] + 1 / self.right[:, :, 1::2])
        return _Operator(_weighted(down, 2) / 8, _weighted(right, 1) / 8)


class _Multigrid:
    """Symmetric V-cycle in float32: a damped Jacobi step before and after, Chebyshev on the coarsest grid."""

    def __init__(self, operator: _Operator) -> None:
        self.levels = list(_coarsened(_Operator(*(faces.float() for faces in operator))))
        self.damped = [0.8 / level.diagonal() for level in self.levels[:-1]]
        n = self.levels[-1].nodes
        j = torch.arange(1, n - 1, dtype=torch.float64, device=operator.down.device)
        eigenvalues = 4 * (n - 1) ** 2 * torch.sin(math.pi * j / (2 * (n - 1))) ** 2
        self.sine = (math.sqrt(2 / (n - 1)) * torch.sin(math.pi * j[:, None] * j / (n - 1))).float()
        self.inverse = (1 / (eigenvalues[:, None] + eigenvalues)).float()
        faces = torch.cat([face.flatten(1) for face in self.levels[-1]], 1) / (n - 1) ** 2
        self.low, self.high = faces.amin(1)[:, None, None], faces.amax(1)[:, None, None]  # (functions, 1, 1)

    def __call__(self, r: Tensor) -> Tensor:  # (functions, n - 2, n - 2) -> (functions, n, n)
        return self._cycle(0, r.float())

    def _cycle(self, depth: int, r: Tensor) -> Tensor:
        if depth == len(self.damped):
            return self._coarsest(r)
        level, damped = self.levels[depth], self.damped[depth]
        u = r.new_zeros(r.shape[0], level.nodes, level.nodes)
        torch.mul(damped, r, out=_inside(u))
        _add_prolonged(u, self._cycle(depth + 1, _restrict(r - level.apply(u))))
        _inside(u).addcmul_(damped, r - level.apply(u))
        return u

    def _coarsest(self, r: Tensor) -> Tensor:
        """Three Chebyshev steps for an operator whose quotient with the Laplacian is in [low, high]."""
        level = self.levels[-1]
        centre = (self.high + self.low) / 2  # (functions, 1, 1)
        radius = ((self.high - self.low) / 2).clamp(min=1e-3 * centre)  # a constant coefficient would give 0
        rho = radius / centre
        step = self._inverse_laplacian(r) / centre
        u = r.new_zeros(r.shape[0], level.nodes, level.nodes)
        _inside(u).copy_(step)
        for _ in range(2):
            rho, last = 1 / (2 * centre / radius - rho), rho
            step = rho * last * step + 2 * rho / radius * self._inverse_laplacian(r - level.apply(u))
            _inside(u).add_(step)
        return u

    def _inverse_laplacian(self, r: Tensor) -> Tensor:
        return self.sine @ ((self.sine @ r @ self.sine) * self.inverse) @ self.sine


def _coarsened(operator: _Operator) -> Iterator[_Operator]:
    yield operator
    while operator.nodes % 2 == 1 and operator.nodes > 64:
        operator = operator.coarse()
        yield operator


def _inside(u: Tensor) -> Tensor:
    return u[:, 1:-1, 1:-1]


def _weighted(x: Tensor, axis: int) -> Tensor:
    """x[0] + 2 x[1] + x[2], x[2] + 2 x[3] + x[4], ...: twice the transpose of linear interpolation."""
    x = x.transpose(axis, 1)
    out = x[:, 0:-2:2] + x[:, 2::2]
    return out.add_(x[:, 1:-1:2], alpha=2).transpose(axis, 1)


def _restrict(r: Tensor) -> Tensor:  # (functions, 2 m + 1, 2 m + 1) -> (functions, m, m)
    return _weighted(_weighted(r, 1), 2).div_(16)


def _add_prolonged(u: Tensor, coarse: Tensor) -> None:  # (functions, 2 m - 1, 2 m - 1), (functions, m, m)
    between = (coarse[:, :-1] + coarse[:, 1:]).div_(2)
    u[:, ::2, ::2] += coarse
    u[:, 1::2, ::2] += between
    u[:, ::2, 1::2].add_(coarse[:, :, :-1] + coarse[:, :, 1:], alpha=0.5)
    u[:, 1::2, 1::2].add_(between[:, :, :-1] + between[:, :, 1:], alpha=0.5)


def _conjugate_gradients(operator: _Operator, f: Tensor, tolerance: float) -> Tensor:
    """Solve for f at the inner nodes. A converged function stands still, so its company does not matter."""

    def dot(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum((1, 2), keepdim=True)  # (functions, 1, 1)

    precondition = _Multigrid(operator)
    r = f.clone()  # (functions, n - 2, n - 2)
    u = r.new_zeros(r.shape[0], operator.nodes, operator.nodes)  # (functions, n, n)
    direction = torch.zeros_like(u)
    enough = tolerance**2 * dot(r, r)
    last = torch.ones_like(enough)
    for _ in range(_ITERATIONS):
        active = dot(r, r) > enough
        if not bool(active.any()):
            r = f - operator.apply(u)  # the recurrence for r may have drifted away from the truth
            active, last = dot(r, r) > enough, torch.full_like(last, math.inf)
            if not bool(active.any()):
                return u
        z = precondition(r)
        size = dot(r, _inside(z))
        direction.mul_(torch.where(active, size / last, 0)).add_(z)
        q = operator.apply(direction)
        length = torch.where(active, size / dot(_inside(direction), q), 0)
        u.addcmul_(length, direction)
        r.addcmul_(length, q, value=-1)
        last = size
    reached = (dot(r, r) / dot(f, f)).sqrt().max().item()
    raise ValueError(
        f"relative residual {reached:.1e} after {_ITERATIONS} iterations, wanted {tolerance:.1e}: raise the "
        "tolerance or lower the coefficient's contrast"
    )
