import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from eclose.errors import ConfigError
from eclose.signature import Signature
from eclose.train.losses import check_loss, class_scores, default_loss, losses, make_loss, relative_l2

VALUE_LOSSES = ["mse", "mae", "relative_l2", "huber"]
SHAPES = [(4, 1), (3, 5), (2, 3, 7), (1, 2, 5, 3), (2, 1, 2, 3, 5)]


def signature(kind, outputs=3):
    return Signature(kind=kind, channels=1, sizes=(5,), outputs=outputs)


def values(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def slow_value(name, prediction, target):
    """One sample, element by element, as the docstrings have it."""
    p, t = prediction.flatten().tolist(), target.flatten().tolist()
    d = [a - b for a, b in zip(p, t, strict=True)]
    if name == "mse":
        return sum(e * e for e in d) / len(d)
    if name == "mae":
        return sum(abs(e) for e in d) / len(d)
    if name == "huber":
        return sum(e * e / 2 if abs(e) <= 1 else abs(e) - 0.5 for e in d) / len(d)
    return math.sqrt(sum(e * e for e in d)) / math.sqrt(sum(e * e for e in t))


@pytest.mark.parametrize("name", VALUE_LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_value_losses_per_sample(name, shape):
    prediction, target = 2 * values(shape, 1), values(shape, 2)
    got = losses[name].make(prediction, target)
    assert got.shape == (shape[0],)
    wanted = [slow_value(name, p, t) for p, t in zip(prediction, target, strict=True)]
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=torch.float64))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("space", [(), (7,), (3, 5), (2, 3, 2)])
def test_cross_entropy_per_sample(smoothing, space):
    prediction = values((4, 3, *space))
    target = torch.randint(3, (4, *space), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    got = make_loss("cross_entropy", {"label_smoothing": smoothing})(prediction, target)
    assert got.shape == (4,)
    log_p = prediction.log_softmax(1)
    wanted_q = torch.full_like(log_p, smoothing / 3)
    wanted_q.scatter_add_(1, target.long().unsqueeze(1), torch.full_like(log_p[:, :1], 1 - smoothing))
    wanted = -(wanted_q * log_p).sum(1).reshape(4, -1).mean(1)
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("space", [(), (5,), (3, 4)])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities_is_the_mean_over_labels(smoothing, space):
    scores = torch.randn(4, 3, *space, dtype=torch.float64, requires_grad=True)
    shares = torch.rand(4, 3, *space, dtype=torch.float64).softmax(1)
    got = losses["cross_entropy"].make(scores, shares, label_smoothing=smoothing)
    wanted = 0
    for label in range(3):
        each = functional.cross_entropy(
            scores, torch.full((4, *space), label), reduction="none", label_smoothing=smoothing
        )
        wanted = wanted + (shares[:, label] * each).flatten(1).mean(1) if space else wanted + shares[:, label] * each
    torch.testing.assert_close(got, wanted)
    mine, theirs = (torch.autograd.grad(value.sum(), scores, retain_graph=True)[0] for value in (got, wanted))
    torch.testing.assert_close(mine, theirs)


def test_single_output_is_the_log_odds_of_class_one():
    z, target = values((6, 1)), torch.tensor([0, 1, 1, 0, 1, 0])
    got = losses["cross_entropy"].make(z, target)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(z[:, 0], target.double(), reduction="none")
    torch.testing.assert_close(got, wanted)
    assert class_scores(z).shape == (6, 2)


@pytest.mark.parametrize("name", VALUE_LOSSES)
def test_mean_over_samples_is_independent_of_slicing(name):
    prediction, target = values((7, 2, 5), 3), values((7, 2, 5), 4)
    whole = losses[name].make(prediction, target).mean()
    parts = [losses[name].make(prediction[s], target[s]) for s in (slice(0, 2), slice(2, 7))]
    torch.testing.assert_close(sum(part.mean() * len(part) for part in parts) / 7, whole)


@pytest.mark.parametrize("name", VALUE_LOSSES)
def test_value_gradients(name):
    prediction, target = values((3, 2, 3), 5).requires_grad_(), values((3, 2, 3), 6)
    assert gradcheck(lambda p: losses[name].make(p, target), prediction)
    assert gradgradcheck(lambda p: losses[name].make(p, target), prediction)


@pytest.mark.parametrize("space", [(), (4,)])
@pytest.mark.parametrize("classes", [1, 3])
def test_cross_entropy_gradients(space, classes):
    prediction = values((3, classes, *space), 7).requires_grad_()
    target = torch.arange(3 * math.prod(space)).reshape(3, *space) % max(classes, 2)
    loss = make_loss("cross_entropy", {"label_smoothing": 0.1})
    assert gradcheck(lambda p: loss(p, target), prediction)


def test_relative_l2_derivatives_vanish_where_the_difference_does():
    target = values((2, 3), 8)
    prediction = target.clone()
    prediction[1] += 1.0  # the other sample must not suffer
    prediction.requires_grad_()
    loss = relative_l2(prediction, target)
    assert loss[0] == 0
    (first,) = torch.autograd.grad(loss.sum(), prediction, create_graph=True)
    (second,) = torch.autograd.grad((first * values((2, 3), 9)).sum(), prediction)
    assert torch.equal(first[0], torch.zeros(3, dtype=torch.float64))
    assert torch.equal(second[0], torch.zeros(3, dtype=torch.float64))
    assert second[1].abs().sum() > 0
    torch.testing.assert_close(first[1].detach(), torch.ones(3).double() / math.sqrt(3) / target[1].norm())


def test_relative_l2_of_a_zero_target_is_finite():
    prediction = torch.ones(2, 4, requires_grad=True)
    loss = relative_l2(prediction, torch.zeros(2, 4))
    torch.testing.assert_close(loss, torch.full((2,), 2.0 / 1e-8))
    loss.sum().backward()
    assert prediction.grad is not None
    assert prediction.grad.isfinite().all()
    assert torch.equal(relative_l2(torch.zeros(1, 4), torch.zeros(1, 4)), torch.zeros(1))


@pytest.mark.parametrize("name", VALUE_LOSSES)
def test_half_precision_predictions_are_widened(name):
    prediction = values((3, 1000), 10).bfloat16()
    target = values((3, 1000), 11).bfloat16()
    got = losses[name].make(prediction, target)
    assert got.dtype is torch.float32
    torch.testing.assert_close(got.double(), losses[name].make(prediction.double(), target.double()))


@pytest.mark.parametrize("name", VALUE_LOSSES)
def test_shapes_never_broadcast(name):
    with pytest.raises(ValueError, match=r"prediction \(4, 1\) and target \(4,\) must have the same shape"):
        losses[name].make(torch.zeros(4, 1), torch.zeros(4))


def test_defaults_serve_their_kind():
    kinds = ("classification", "segmentation", "regression", "dense")
    names = [default_loss(signature(kind)) for kind in kinds]
    assert names == ["cross_entropy", "cross_entropy", "mse", "relative_l2"]
    for kind, name in zip(kinds, names, strict=True):
        check_loss(name, signature(kind))


def test_unfit_losses_are_refused():
    with pytest.raises(ConfigError, match=r"'mse' cannot serve a classification task; .* cross_entropy$"):
        check_loss("mse", signature("classification"))
    with pytest.raises(ConfigError, match="dense task; these can: mse, mae, relative_l2, huber"):
        check_loss("cross_entropy", signature("dense"))
    with pytest.raises(ConfigError, match="unknown loss 'hubber'; did you mean 'huber'"):
        check_loss("hubber", signature("dense"))


def test_options_are_checked():
    with pytest.raises(ConfigError, match="loss: 'mse' has no option 'delta'"):
        make_loss("mse", {"delta": 1.0})
    with pytest.raises(ConfigError, match="label_smoothing is 1.5, but must lie between 0 and 1"):
        make_loss("cross_entropy", {"label_smoothing": 1.5})(torch.zeros(1, 2), torch.zeros(1))
    with pytest.raises(ConfigError, match="delta is 0.0, but must be above 0"):
        make_loss("huber", {"delta": 0.0})(torch.zeros(1, 2), torch.zeros(1, 2))
    wide = make_loss("huber", {"delta": 3})(torch.full((1, 1), 2.0), torch.zeros(1, 1))
    assert wide.item() == 2.0
