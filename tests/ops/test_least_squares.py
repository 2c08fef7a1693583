"""Ridge regression along principal directions, against scikit-learn and against fits that leave samples out."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge

from eclose.ops.least_squares import PrincipalRidge

SIZES = [(40, 7, 3), (12, 30, 2), (2, 5, 1), (5, 5, 4), (31, 31, 2)]  # samples, features, outputs


def data(samples: int, features: int, outputs: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(samples)
    x = 3 + rng.normal(size=(samples, features)) * np.geomspace(1, 0.01, features)
    return x, x @ rng.normal(size=(features, outputs)) + noise * rng.normal(size=(samples, outputs))


def fitted(x: np.ndarray, y: np.ndarray, rank: int = 1000) -> PrincipalRidge:
    return PrincipalRidge(torch.from_numpy(x), torch.from_numpy(y), rank)


def answers(fit: PrincipalRidge, x: np.ndarray) -> np.ndarray:
    return ((torch.from_numpy(x) - fit.mean) @ fit.basis @ fit.weight + fit.bias).numpy()


@pytest.mark.parametrize("sizes", SIZES)
def test_it_is_the_ridge_regression_of_scikit_learn(sizes: tuple[int, int, int]) -> None:
    x, y = data(*sizes)
    fit = fitted(x, y)
    truth = Ridge(alpha=float(fit.penalty)).fit(x, y).predict(x + 1).reshape(y.shape)
    np.testing.assert_allclose(answers(fit, x + 1), truth, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit.answers.numpy(), answers(fit, x), rtol=1e-9)
    torch.testing.assert_close(fit.basis.T @ fit.basis, torch.eye(fit.basis.shape[1], dtype=torch.float64))


@pytest.mark.parametrize("sizes", [(40, 7, 3), (12, 30, 2)])
def test_of_many_directions_the_widest_are_kept(sizes: tuple[int, int, int]) -> None:
    x, y = data(*sizes)
    fit, some = fitted(x, y, rank=4), PCA(4).fit(x)
    truth = Ridge(alpha=float(fit.penalty)).fit(some.transform(x), y)
    np.testing.assert_allclose(answers(fit, x + 1), truth.predict(some.transform(x + 1)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("sizes", [size for size in SIZES if size[0] > 2])
@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0])
def test_the_error_of_left_out_samples_is_that_of_fits_without_them(
    sizes: tuple[int, int, int], penalty: float
) -> None:
    x, y = data(*sizes)
    left = [np.arange(len(x)) != out for out in range(len(x))]
    told = [Ridge(alpha=penalty).fit(x[kept], y[kept]).predict(x[~kept]).reshape(1, -1) for kept in left]
    truth = np.square(y - np.concatenate(told)).mean()
    assert fitted(x, y).left_out_error(torch.tensor(penalty)) == pytest.approx(truth, rel=1e-6)


def test_of_penalties_that_is_taken_by_which_other_samples_are_told_best() -> None:
    rng = np.random.default_rng(0)
    x, weight, noise = rng.normal(size=(60, 50)), rng.normal(size=(50, 1)), 30 * rng.normal(size=(60, 1))
    clear, noisy = fitted(x, x @ weight), fitted(x, x @ weight + noise)
    new = rng.normal(size=(500, 50))
    assert clear.penalty < 1e-6 * 60
    assert np.abs(answers(clear, new) - new @ weight).max() < 1e-4
    least_squares = LinearRegression().fit(x, x @ weight + noise).predict(new)
    assert noisy.penalty > 40
    assert np.square(answers(noisy, new) - new @ weight).mean() < 0.2 * np.square(least_squares - new @ weight).mean()


def test_of_many_samples_some_choose_the_penalty() -> None:
    x, y = data(3000, 5, 2)
    fit, penalty = fitted(x, y), torch.tensor(0.1)
    hat = 1 / 3000 + np.einsum("ij,ij->i", x - x.mean(0), (x - x.mean(0)) @ np.linalg.inv(_gram(x, 0.1)))
    residual = (y - Ridge(alpha=0.1).fit(x, y).predict(x)) / (1 - hat[:, None])
    assert fit.left_out_error(penalty) == pytest.approx(np.square(residual[::12]).mean(), rel=1e-6)


def _gram(x: np.ndarray, penalty: float) -> np.ndarray:
    x = x - x.mean(0)
    return x.T @ x + penalty * np.eye(x.shape[1])


@pytest.mark.parametrize("sizes", [(40, 7, 3), (12, 30, 2)])
def test_a_fit_without_some_samples(sizes: tuple[int, int, int]) -> None:
    x, y = data(*sizes)
    fit, out = fitted(x, y), np.arange(len(x)) % 3 == 1
    along, rest = fit.along.numpy(), y - y.mean(0)
    truth = Ridge(alpha=float(fit.penalty), fit_intercept=False).fit(along[~out], rest[~out]).coef_.T
    np.testing.assert_allclose(fit.weight_without(torch.from_numpy(out)), truth, rtol=1e-5, atol=1e-8)
    nobody = torch.zeros(len(x), dtype=torch.bool)
    torch.testing.assert_close(fit.weight_without(nobody), fit.weight)
    assert not fit.weight_without(~nobody).any()


def test_fits_without_samples_are_finite_where_directions_are_narrow() -> None:
    """Smooth fields, of which a few directions have nearly everything, and the smallest penalty."""
    points = np.linspace(0, 1, 90)
    rng = np.random.default_rng(0)
    x = np.stack([np.exp(-(((points - c) / 0.2) ** 2)) for c in rng.uniform(size=60)])
    fit = fitted(x, np.cumsum(x, 1))
    fit.penalty = 1e-8 * fit.values.mean()
    for out in torch.arange(60).chunk(4):
        gone = torch.zeros(60, dtype=torch.bool)
        gone[out] = True
        assert fit.weight_without(gone).isfinite().all()


@pytest.mark.parametrize("samples", [1, 2, 40])
def test_inputs_that_are_all_the_same(samples: int) -> None:
    y = np.random.default_rng(0).normal(size=(samples, 3))
    fit = fitted(np.full((samples, 6), 7.0), y)
    assert fit.basis.shape == (6, 0)
    np.testing.assert_allclose(answers(fit, np.zeros((2, 6))), np.tile(y.mean(0), (2, 1)))
    assert fit.weight_without(torch.ones(samples, dtype=torch.bool)).shape == (0, 3)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_units_do_not_matter(factor: float) -> None:
    x, y = data(40, 7, 3)
    np.testing.assert_allclose(answers(fitted(factor * x, y), factor * x), answers(fitted(x, y), x), rtol=1e-6)
