import math
import warnings

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.train.metrics import better, check_metric, default_metric, make_metric, metrics

LABEL_METRICS = ["accuracy", "error", "nll", "perplexity", "auroc"]


def signature(kind):
    return Signature(kind=kind, channels=1, sizes=(5,), outputs=3)


def labelled(samples, classes, space=(), seed=0, coarse=False):
    """Random scores and labels with something to find; coarse scores have many ties."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(max(classes, 2), (samples, *space), generator=generator)
    scores = 2 * torch.randn(samples, classes, *space, generator=generator, dtype=torch.float64)
    scores += 2 * torch.nn.functional.one_hot(target, max(classes, 2)).movedim(-1, 1)[:, -classes:]
    return (scores.round() if coarse else scores), target


def valued(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(shape, generator=generator, dtype=torch.float64)
    return target + 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64), target


def measure(name, prediction, target, parts=1):
    meter = make_metric(name).meter()
    for p, t in zip(prediction.chunk(parts), target.chunk(parts), strict=True):
        meter.update(p, t)
    return meter.value()


def flat(scores):
    """Every position as a sample."""
    return scores.movedim(1, -1).reshape(-1, scores.shape[1])


@pytest.mark.parametrize("space", [(), (3,), (2, 5)])
@pytest.mark.parametrize("parts", [1, 3])
def test_label_metrics_agree_with_scikit_learn(space, parts):
    scores, target = labelled(31, 4, space)
    truth, probabilities = target.flatten().numpy(), flat(scores).softmax(1).numpy()
    accuracy = oracle.accuracy_score(truth, probabilities.argmax(1))
    nll = oracle.log_loss(truth, probabilities, labels=range(4))
    auroc = oracle.roc_auc_score(truth, probabilities, multi_class="ovr", average="macro")
    wanted = {
        "accuracy": accuracy,
        "error": 1 - accuracy,
        "nll": nll,
        "perplexity": math.exp(nll),
        "auroc": auroc,
    }
    assert 0.3 < accuracy < 0.9
    for name, value in wanted.items():
        assert measure(name, scores, target, parts) == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("shape", [(9, 1), (7, 3), (5, 2, 4, 3)])
@pytest.mark.parametrize("parts", [1, 3])
def test_value_metrics_agree_with_scikit_learn(shape, parts):
    prediction, target = valued(shape)
    a, b = target.reshape(shape[0], -1).numpy(), prediction.reshape(shape[0], -1).numpy()
    wanted = {
        "mse": oracle.mean_squared_error(a, b),
        "mae": oracle.mean_absolute_error(a, b),
        "relative_l2": np.mean(np.linalg.norm(a - b, axis=1) / np.linalg.norm(a, axis=1)),
    }
    for name, value in wanted.items():
        assert measure(name, prediction, target, parts) == pytest.approx(value, rel=1e-12), name


def test_every_sample_weighs_the_same_in_uneven_batches():
    prediction, target = valued((10, 2))
    meter = make_metric("mse").meter()
    for start, end in ((0, 1), (1, 8), (8, 10)):
        meter.update(prediction[start:end], target[start:end])
    assert meter.value() == pytest.approx((prediction - target).square().mean().item(), rel=1e-12)


def test_sums_are_kept_in_double_precision():
    meter = make_metric("mae").meter()
    meter.update(torch.full((1, 1), 2.0**30), torch.zeros(1, 1))
    for _ in range(100):
        meter.update(torch.ones(1, 1), torch.zeros(1, 1))
    assert meter.value() * 101 == pytest.approx(2**30 + 100, abs=1e-4)


@pytest.mark.parametrize("name", list(metrics))
def test_merged_halves_equal_the_whole(name):
    data = labelled(40, 3, coarse=True) if name in LABEL_METRICS else valued((40, 3))
    metric = make_metric(name)
    halves = [metric.meter(), metric.meter()]
    for half, prediction, target in zip(halves, data[0].chunk(2), data[1].chunk(2), strict=True):
        half.update(prediction, target)
    apart = halves[0].value()
    fresh = metric.meter()
    for half in (halves[0], metric.meter(), halves[1]):  # a process without samples changes nothing
        fresh.merge(half.state())
    whole = measure(name, *data)
    assert fresh.value() == pytest.approx(whole, rel=1e-12)
    assert halves[0].value() == apart
    assert apart != pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("name", list(metrics))
def test_states_combine_as_their_kind_says(name):
    data = labelled(40, 3) if name in LABEL_METRICS else valued((40, 3))
    metric = make_metric(name)
    states = []
    for prediction, target in zip(data[0].chunk(4), data[1].chunk(4), strict=True):
        meter = metric.meter()
        meter.update(prediction, target)
        states.append(meter.state())
    combine = torch.cat if metric.name == "auroc" else sum
    fresh = metric.meter()
    fresh.merge([combine(column) for column in zip(*states, strict=True)])
    assert fresh.value() == pytest.approx(measure(name, *data), rel=1e-12)


def test_a_state_summed_in_place_leaves_the_meter_alone():
    meter = make_metric("mse").meter()
    meter.update(*valued((4, 2)))
    before = meter.value()
    meter.state()[0].add_(1)
    assert meter.value() == before


@pytest.mark.parametrize("classes", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_auroc_with_ties(classes, seed):
    scores, target = labelled(60, classes, seed=seed, coarse=True)
    if classes == 1:
        wanted = oracle.roc_auc_score(target, scores[:, 0])
    elif classes == 2:
        wanted = oracle.roc_auc_score(target, scores[:, 1] - scores[:, 0])
    else:
        # rounded, since sums in different orders break ties between equal probabilities
        p = scores.softmax(1).numpy().round(12)
        wanted = np.mean([oracle.roc_auc_score(target == c, p[:, c]) for c in range(classes)])
    assert 0.5 < wanted < 1
    assert measure("auroc", scores, target) == pytest.approx(wanted, rel=1e-12)


def test_auroc_of_given_probabilities_keeps_their_ties():
    table = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.1, 0.3, 0.6]])
    rows = torch.randint(4, (50,), generator=torch.Generator().manual_seed(3))
    target = torch.randint(3, (50,), generator=torch.Generator().manual_seed(4))
    p = table[rows].double()
    wanted = oracle.roc_auc_score(target, p, multi_class="ovr", average="macro")
    assert measure("auroc", p.log(), target) == pytest.approx(wanted, rel=1e-12)


def test_auroc_does_not_saturate():
    confident = torch.tensor([[0.0, 100.0], [0.0, 101.0], [0.0, 102.0], [0.0, 103.0]])
    target = torch.tensor([0, 1, 0, 1])
    assert measure("auroc", confident, target) == 0.75


def test_auroc_skips_absent_classes():
    scores, target = labelled(50, 4)
    kept = target != 2
    scores, target = scores[kept], target[kept]
    p = scores.softmax(1).numpy()
    wanted = np.mean([oracle.roc_auc_score(target == c, p[:, c]) for c in (0, 1, 3)])
    assert measure("auroc", scores, target) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_auroc_is_nan_where_it_is_undefined(classes):
    scores, target = labelled(10, classes)
    assert math.isnan(measure("auroc", scores, torch.ones_like(target)))
    assert not math.isnan(measure("auroc", scores, target))
    scores[3, 0] = math.nan
    assert math.isnan(measure("auroc", scores, target))


def test_one_output_decides_between_two_classes():
    z, target = torch.tensor([[-1.0], [2.0], [0.5], [-3.0]]), torch.tensor([0, 1, 0, 0])
    assert measure("accuracy", z, target) == 0.75
    wanted = oracle.log_loss(target, z[:, 0].double().sigmoid())
    assert measure("nll", z, target) == pytest.approx(wanted, rel=1e-6)


def test_a_network_of_nan_hits_nothing():
    scores, target = torch.full((6, 3), math.nan), torch.tensor([0, 1, 2, 0, 1, 2])
    assert measure("accuracy", scores, target) == 0.0
    assert measure("error", scores, target) == 1.0
    assert math.isnan(measure("nll", scores, target))


def test_hopeless_perplexity_is_infinite():
    scores = torch.tensor([[0.0, 2000.0]])
    assert measure("perplexity", scores, torch.tensor([0])) == math.inf


@pytest.mark.parametrize("name", list(metrics))
def test_nothing_seen_is_nan(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(make_metric(name).meter().value())


def test_meters_keep_no_graph():
    prediction, target = valued((4, 2))
    meter = make_metric("mse").meter()
    meter.update(prediction.requires_grad_(), target)
    assert not meter.state()[0].requires_grad


@pytest.mark.parametrize("name", list(metrics))
def test_meters_of_one_metric_are_independent(name):
    data = labelled(20, 3) if name in LABEL_METRICS else valued((20, 3))
    metric = make_metric(name)
    metric.meter().update(*data)
    assert metric.name == name
    assert math.isnan(metric.meter().value())


def test_goals():
    assert {name for name in metrics if make_metric(name).goal == "max"} == {"accuracy", "auroc"}


@pytest.mark.parametrize(
    ("goal", "a", "b", "wanted"),
    [
        ("max", 2.0, 1.0, True),
        ("max", 1.0, 2.0, False),
        ("min", 1.0, 2.0, True),
        ("min", 2.0, 1.0, False),
        ("max", 1.0, 1.0, False),
        ("min", 1.0, 1.0, False),
        ("max", math.nan, 1.0, False),
        ("min", math.nan, math.nan, False),
        ("min", 1.0, math.nan, True),
        ("max", -math.inf, math.nan, True),
        ("min", 1e300, math.inf, True),
    ],
)
def test_better(goal, a, b, wanted):
    assert better(goal, a, b) is wanted


def test_defaults_judge_their_kind():
    kinds = ("classification", "segmentation", "regression", "dense")
    names = [default_metric(signature(kind)) for kind in kinds]
    assert names == ["accuracy", "accuracy", "mse", "relative_l2"]
    for kind, name in zip(kinds, names, strict=True):
        check_metric(name, signature(kind))


def test_unfit_metrics_are_refused():
    with pytest.raises(ConfigError, match="'auroc' cannot judge a dense task; these can: mse, mae, relative_l2"):
        check_metric("auroc", signature("dense"))
    with pytest.raises(ConfigError, match="classification task; these can: accuracy, error, nll"):
        check_metric("mse", signature("classification"))
    with pytest.raises(ConfigError, match="unknown metric 'acuracy'; did you mean 'accuracy'"):
        check_metric("acuracy", signature("dense"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", list(metrics))
def test_updates_do_not_wait_for_the_gpu(name):
    data = labelled(40, 3) if name in LABEL_METRICS else valued((40, 3))
    prediction, target = (part.cuda() for part in data)
    meter = make_metric(name).meter()
    torch.cuda.set_sync_debug_mode("error")
    try:
        meter.update(prediction, target)
        meter.update(prediction, target)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert meter.value() == pytest.approx(measure(name, *data), rel=1e-9)
