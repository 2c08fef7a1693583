"""The linear model against scikit-learn and against linear truths, on awkward sizes."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from eclose.backbones.linear import FEATURES, Linear, window_of
from eclose.backbones.linear import linear as linear_map
from eclose.engine.predictors import fit_predictors
from eclose.engine.predictors.linear import principal_input, whole_input
from eclose.engine.predictors.regression import LOGISTIC_PENALTIES, logistic
from eclose.errors import ConfigError
from eclose.ops.least_squares import RIDGE_PENALTIES, ridge
from eclose.signature import Signature
from eclose.tasks import Task
from eclose.train.metrics import make_metric
from tests.engine.predictors.tasks import metric_of, normal, task


def linear(made: Task, metric: str = "") -> float:
    judge = make_metric(metric) if metric else metric_of(made)
    (predictor,) = [each for each in fit_predictors(made, judge) if each.name == "linear model"]
    test = predictor.tested(made, judge).test
    assert test is not None
    return test


@pytest.mark.parametrize("samples", [8, 40])
def test_ridge_is_the_least_squares_solution_with_a_penalty(samples: int) -> None:
    x, y = torch.from_numpy(normal(samples, 20)), torch.from_numpy(normal(samples, 3, seed=1))
    eigenvalues = torch.linalg.svdvals(x).square()
    for penalty, weight in zip(RIDGE_PENALTIES, ridge(x, y), strict=True):
        strength = penalty * eigenvalues.sum() / min(samples, 20)
        truth = torch.linalg.solve(x.T @ x + strength * torch.eye(20), x.T @ y)
        torch.testing.assert_close(weight, truth, rtol=1e-4, atol=1e-6)


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    x = normal(300, 6) * [1, 3, 0.1, 1, 1, 1]
    x -= x.mean(0)
    labels = (x @ normal(6, 4, seed=2) + 0.5 * normal(300, 4, seed=3)).argmax(1)
    unit = float(np.linalg.eigvalsh(x.T @ x / 300).mean())
    found = list(logistic(torch.from_numpy(x), torch.from_numpy(labels), 4))
    for penalty, (weight, bias) in list(zip(LOGISTIC_PENALTIES, found, strict=True))[:3]:
        truth = LogisticRegression(C=1 / (300 * penalty * unit), tol=1e-8, max_iter=5000).fit(x, labels)
        mine = torch.softmax(torch.from_numpy(x) @ weight + bias, 1).numpy()
        assert np.abs(mine - truth.predict_proba(x)).max() < 0.02


@pytest.mark.parametrize("space", [(1,), (13,), (5, 6), (3, 4, 2)])
def test_what_is_linear_is_found(space: tuple[int, ...]) -> None:
    x = 1e3 + 5 * normal(400, 2, *space)
    flat = x.reshape(400, -1)
    y = flat @ normal(flat.shape[1], 3, seed=1)
    assert linear(task(x, y)) < 1e-4 * y.var()
    assert linear(task(x, (flat - 1e3) @ normal(flat.shape[1], seed=2) > 0, kind="classification")) > 0.75


def test_a_map_of_whole_fields_and_a_filter() -> None:
    x = normal(60, 1, 20)
    assert linear(task(x, x[..., ::-1].copy())) < 0.2, "each position depends on a far one"
    few = normal(20, 1, 64)
    assert linear(task(few, np.roll(few, 1, -1) - few)) < 0.1, "few samples: one filter"


@pytest.mark.parametrize("space", [(24,), (9, 8), (5, 4, 6)])
def test_segmentation_by_a_filter(space: tuple[int, ...]) -> None:
    x = normal(40, 2, *space)
    y = (x[:, 0] - x[:, 1] > 0).astype(np.int64)
    assert linear(task(x, y)) > 0.9


def test_tokens() -> None:
    x = np.random.default_rng(0).integers(0, 9, (300, 12))
    assert linear(task(x, (x == 3).sum(1).clip(0, 2), tokens=True)) > 0.95
    assert linear(task(x, (x == 3).sum(1) * 2.0, tokens=True)) < 1e-6
    assert linear(task(x, x // 3, tokens=True)) == 1.0
    assert linear(task(x, x * 0.5 + 1, tokens=True)) < 1e-3


def test_large_inputs_are_pooled() -> None:
    for signature in (
        Signature("classification", 1, (100_003,), 2),
        Signature("classification", 3, (224, 224), 2),
        Signature("classification", 5000, (7, 1), 2),
        Signature("regression", 2, (64, 64, 64), 1),
    ):
        network = linear_map(signature)
        assert isinstance(network, Linear)
        features = network.features
        assert FEATURES / 3 < features.count <= FEATURES
        assert features(torch.randn(1, signature.channels, *signature.sizes)).shape == (1, features.count)
    x = np.repeat(normal(80, 1, 40), 50, axis=2)  # 2,000 points, of which blocks of 50 are equal
    assert linear(task(x, x[:, 0, 0] + x[:, 0, -1])) < 1e-2


def test_many_tokens_share_a_column() -> None:
    x = np.arange(60 * 50).reshape(60, 50)
    made = task(x, x[:, :1] * 1.0, tokens=True)
    fitted = next(iter(whole_input(made)))
    assert isinstance(fitted, Linear)
    assert fitted.features.count == len(fitted.weight) == FEATURES
    shares = fitted.features(torch.from_numpy(x[:2]))
    torch.testing.assert_close(shares.sum(1), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("length", [2, 7])
def test_pairs_and_places_are_those_of_a_slow_count(length: int) -> None:
    signature = Signature("classification", 1, (length,), 2, vocabulary=5)
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 5, (4, length)))
    pairs, places = (linear_map(signature, reads=reads) for reads in ("pairs", "places"))
    assert isinstance(pairs, Linear)
    assert isinstance(places, Linear)
    for row, shares, where in zip(x.tolist(), pairs.features(x), places.features(x), strict=True):
        count = [0.0] * 25
        for one, other in zip(row, row[1:], strict=False):
            count[5 * one + other] += 1 / (length - 1)
        np.testing.assert_allclose(shares, count)
        assert where.view(length, 5).argmax(1).tolist() == row
        assert where.sum() == length


def test_rare_pairs_share_a_column_and_rare_tokens_of_a_place_do() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random((200, 30)) < 0.7, rng.integers(0, 9, (200, 30)), rng.integers(0, 100, (200, 30)))
    made = {network.options["reads"]: network for network in whole_input(task(x, x[:, 0] % 2, tokens=True))}
    assert {reads: network.options["columns"] for reads, network in made.items()} == {
        "shares": 100,
        "pairs": FEATURES,
        "places": FEATURES // 30,
    }
    column = made["places"].state_dict()["features.column"]
    assert sorted(column[:9].tolist()) == list(range(9))
    assert (column[9:] >= 9).all()


def test_what_follows_a_token_and_where_it_stands() -> None:
    x = np.random.default_rng(0).integers(0, 6, (400, 11))
    together = ((x[:, :-1] == 2) & (x[:, 1:] == 5)).any(1)
    assert linear(task(x, together, tokens=True, kind="classification")) > 0.9
    assert linear(task(x, x[:, 4] // 2, tokens=True)) > 0.95
    assert linear(task(x, x[:, 4] * 1.5 - x[:, 9], tokens=True)) < 1e-6


@pytest.mark.parametrize(
    ("signature", "reads", "message"),
    [
        ((1,), "pairs", "backbone.reads is 'pairs', but must be one of: shares, places"),
        ((2000,), "places", "backbone.reads is 'places', but must be one of: shares, pairs"),
        ((), "pairs", "backbone.reads is for one answer to a sequence of tokens: leave it out"),
    ],
)
def test_readings_that_do_not_suit(signature: tuple[int, ...], reads: str, message: str) -> None:
    tokens = Signature("classification", 1, signature, 2, vocabulary=9) if signature else None
    with pytest.raises(ConfigError, match=message):
        linear_map(tokens or Signature("classification", 1, (8,), 2), reads=reads)


def test_windows_are_bounded_and_fit_the_field() -> None:
    assert window_of(Signature("dense", 1, (1000,), 1)) == (255,)
    assert window_of(Signature("dense", 1, (64, 3), 1)) == (15, 5)
    assert window_of(Signature("dense", 3, (16, 16, 16), 1)) == (3, 3, 3)
    assert window_of(Signature("dense", 4000, (16,), 1)) == (1,)
    assert np.isfinite(linear(task(normal(20, 1500, 6), normal(20, 6))))


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_units_do_not_matter(factor: float) -> None:
    x = normal(60, 1, 16)
    plain, scaled = linear(task(x, np.roll(x, 1, -1))), linear(task(factor * x, factor * np.roll(x, 1, -1)))
    assert scaled == pytest.approx(plain, rel=1e-2, abs=1e-4)


def test_constant_inputs_and_targets() -> None:
    assert linear(task(np.ones((30, 1, 8)), np.arange(30) % 2)) >= 0
    assert linear(task(np.ones((30, 1, 8)), np.ones((30, 8)))) == pytest.approx(0, abs=1e-6)


def test_large_fields_by_their_principal_directions() -> None:
    """More weights than a map from everywhere to everywhere may have, and fewer directions than points."""
    modes = normal(30, 2500, seed=1)
    x, mirrored = normal(200, 30), modes[:, ::-1]
    made = task((5 + x @ modes).reshape(200, 1, 50, 50), (2 - x @ mirrored).reshape(200, 50, 50))
    (model,) = principal_input(made)
    assert isinstance(model, Linear)
    assert model.basis is not None
    assert model.basis.shape == (2500, 30)
    assert linear(made) < 1e-3
    again = linear_map(made.signature, **model.options)
    again.load_state_dict(model.state_dict())
    given, _ = made.test.take(torch.arange(3)) if made.test else (torch.zeros(3, 1, 50, 50), None)
    assert torch.equal(again(given), model(given))


def test_large_fields_that_never_change_have_no_directions() -> None:
    made = task(np.ones((30, 1, 50, 50)), normal(30, 50, 50))
    assert list(principal_input(made)) == []
    assert np.isfinite(linear(made))
