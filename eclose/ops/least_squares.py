"""Ridge regression in closed form: every penalty from one eigendecomposition.

Of few features one weight each; of many those of their principal directions.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

# In units of the mean eigenvalue of the features' covariance.
RIDGE_PENALTIES = (1e2, 1.0, 1e-2, 1e-4, 1e-6, 1e-8)


def not_zero(spread: Tensor) -> Tensor:
    """1 where nothing varies."""
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def spectrum(x: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Eigenvalues and vectors of the smaller one of ``x x^T`` and ``x^T x``, and whether it is the first."""
    dual = len(x) < x.shape[1]
    values, vectors = torch.linalg.eigh(x @ x.T if dual else x.T @ x)
    return values.clamp_min(0), vectors, dual


def mean_or_one(eigenvalues: Tensor) -> Tensor:
    """The mean of eigenvalues that are not below zero; 1 for features that never change."""
    mean = eigenvalues.mean()
    return mean if mean > 0 else torch.ones_like(mean)


def ridge(x: Tensor, y: Tensor) -> Iterator[Tensor]:  # (n, features), (n, outputs), both float64 and centred
    """For every penalty the weights ``(features, outputs)``."""
    values, vectors, dual = spectrum(x)
    target = vectors.T @ (y if dual else x.T @ y)
    unit = mean_or_one(values)
    for penalty in RIDGE_PENALTIES:
        weights = vectors @ (target / (values + penalty * unit)[:, None])
        yield x.T @ weights if dual else weights


_SLIGHT = 1e-5  # of the spread in the first direction: what varies less is rounding
_JUDGES = 256  # samples by which a penalty is chosen
_PENALTIES = tuple(10.0**-k for k in range(-2, 9))  # in units of the mean eigenvalue


class PrincipalRidge:
    """``answer = (x - mean) basis weight + bias``, fitted to all samples; of penalties that which is the best.

    The best is that by which samples are told best that are left out, one at a time.
    """

    def __init__(self, x: Tensor, y: Tensor, rank: int) -> None:  # (n, features), (n, outputs), both float64
        self.mean, self.bias = x.mean(0), y.mean(0)
        x, self._y = x - self.mean, y - self.bias
        self.values, self.basis = _directions(x, rank)  # (directions,), (features, directions)
        self.along = x @ self.basis
        self._product, unit = self.along.T @ self._y, mean_or_one(self.values)
        self.penalty = min((unit * each for each in _PENALTIES), key=self.left_out_error)
        self.weight = self._product / (self.values + self.penalty)[:, None]

    @property
    def answers(self) -> Tensor:
        """``(n, outputs)``, to the samples themselves."""
        return self.along @ self.weight + self.bias

    def weight_without(self, out: Tensor) -> Tensor:  # (n,), bool
        """The weights of a fit that leaves some samples out; means, directions and penalty stay.

        ``(diag(values) + penalty - gone^T gone)^-1 kept^T y``. The penalty is far above the rounding of the rest.
        """
        gone, kept = self.along[out], self.along[~out]
        gram = torch.diag(self.values + self.penalty) - gone.T @ gone
        return torch.cholesky_solve(kept.T @ self._y[~out], torch.linalg.cholesky(gram))

    def left_out_error(self, penalty: Tensor) -> float:
        """Mean square of ``residual / (1 - leverage)``: of samples, each by a fit without it."""
        every = slice(None, None, -(-len(self.along) // _JUDGES))
        factors, along = 1 / (self.values + penalty), self.along[every]
        leverage = along.square() @ factors + 1 / len(self.along)
        residual = self._y[every] - along @ (factors[:, None] * self._product)
        return float((residual.square().mean(1) / (1 - leverage).clamp_min(1e-9).square()).mean())


def _directions(x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues of ``x^T x`` and orthonormal vectors ``(features, directions)``, the largest first."""
    values, vectors, dual = spectrum(x)
    kept = values > _SLIGHT**2 * values[-1]
    values, vectors = (each[..., kept].flip(-1)[..., :most] for each in (values, vectors))
    return values, x.T @ vectors / values.sqrt() if dual else vectors
