"""A network behind a fitted linear map: what the map says of samples it has seen and of others, and what is refused."""

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

from eclose.backbones import backbones, make_backbone
from eclose.backbones.linear_plus import LinearPlus, _quarters
from eclose.errors import ConfigError
from eclose.ops.least_squares import PrincipalRidge
from eclose.signature import Signature
from eclose.spaces import backbone_genotype
from eclose.train.module_hooks import takes_any_sizes

FIELDS = Signature("dense", 2, (5, 4), 3)


class Silent(nn.Module):
    """Corrects nothing, and keeps what it was shown."""

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return x.new_zeros(len(x), 3, *x.shape[2:])


def pairs(samples: int, noise: float = 0.1, signature: Signature = FIELDS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(samples)
    x = 3 + torch.randn(signature.input_shape(samples), generator=generator)
    inputs, outputs = x[0].numel(), math.prod(signature.output_shape(1))
    weight = torch.randn(inputs, outputs, generator=torch.Generator().manual_seed(7)) / inputs**0.5
    y = (x.flatten(1) @ weight + noise * torch.randn(samples, outputs, generator=generator)) * 5 + 1
    return x, y.view(signature.output_shape(samples))


def silent(samples: int, noise: float = 0.1, rank: int = 40) -> tuple[LinearPlus, Tensor, Tensor]:
    """Fitted, without a correction."""
    (x, y), model = pairs(samples, noise), LinearPlus(FIELDS, rank, Silent())
    model.fit_to(x, y)
    return model, x, y


@pytest.mark.parametrize("samples", [2, 5, 31, 90, 400])
def test_the_answer_is_that_of_ridge_regression(samples: int) -> None:
    model, x, y = silent(samples)
    flat, target = x.flatten(1).double().numpy(), y.flatten(1).double().numpy()
    penalty = float(PrincipalRidge(torch.from_numpy(flat), torch.from_numpy(target), 40).penalty)
    new = pairs(50 + samples)[0]
    truth = Ridge(alpha=penalty).fit(flat, target).predict(new.flatten(1).numpy())
    np.testing.assert_allclose(model.eval()(new).flatten(1), truth, rtol=1e-3, atol=1e-3)


def test_in_training_a_sample_is_answered_without_its_quarter() -> None:
    model, x, y = silent(200, noise=1.0)
    flat, target = x.flatten(1).double(), y.flatten(1).double()
    fit = PrincipalRidge(flat, target, 40)
    assert model.across is not None
    quarters = _quarters(fit.along, model.across.double())
    assert torch.bincount(quarters).min() > 25
    got = model.train()(x).flatten(1).double()
    for quarter in range(4):
        out = quarters == quarter
        along, rest = fit.along[~out], target[~out] - target.mean(0)
        truth = Ridge(alpha=float(fit.penalty), fit_intercept=False).fit(along, rest).predict(fit.along[out])
        torch.testing.assert_close(got[out], torch.from_numpy(truth) + target.mean(0), rtol=1e-3, atol=1e-3)


def test_a_network_learns_from_errors_as_large_as_those_to_come() -> None:
    """Of 90 noisy samples with 40 numbers each the map itself explains much that it cannot tell of others."""
    model, x, y = silent(90, noise=1.0)
    (new, wanted), own = pairs(4000, 1.0), model.eval()(x)
    to_come = (model(new) - wanted).square().mean()
    in_training = (model.train()(x) - y).square().mean()
    assert (own - y).square().mean() < 0.7 * to_come
    assert 0.9 * to_come < in_training < 1.7 * to_come  # of three quarters of the samples
    torch.testing.assert_close(model.spread.square().mean(), in_training, rtol=1e-2, atol=0.0)


def test_the_network_sees_input_and_answer_and_corrects_in_units_of_what_is_left() -> None:
    model, x, _ = silent(90)
    answer = model.eval()(x)
    assert isinstance(model.network, Silent)
    assert torch.equal(model.network.seen, torch.cat([x, answer], 1))
    model.network = nn.Conv2d(5, 3, 1)
    nn.init.zeros_(model.network.weight)
    nn.init.ones_(model.network.bias)
    torch.testing.assert_close(model(x), answer + model.spread)
    assert model.spread.shape == (3, 1, 1)


def test_quarters_are_alike_where_samples_are_of_two_kinds_that_are_far_apart() -> None:
    (x, y), model = pairs(400), LinearPlus(FIELDS, 40, Silent())
    x[::2] += 2000
    model.fit_to(x, y)
    assert model.across is not None
    quarters = _quarters((x.flatten(1) - model.mean) @ model.basis, model.across)
    assert torch.bincount(quarters, minlength=4).min() > 60


def test_few_samples_have_one_map() -> None:
    model, x, _ = silent(31)
    assert model.left_out is None
    assert torch.equal(model.train()(x), model.eval()(x))
    assert silent(32)[0].left_out is not None


def test_a_second_fit_forgets_the_first() -> None:
    model, *_ = silent(200)
    x, y = pairs(20)
    model.fit_to(x, y)
    other = LinearPlus(FIELDS, 40, Silent())
    other.fit_to(x, y)
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())
    assert model.left_out is None


def test_constant_inputs_and_targets() -> None:
    model, (x, y) = LinearPlus(FIELDS, 40, Silent()), pairs(50)
    model.fit_to(torch.ones_like(x), y)
    torch.testing.assert_close(model.train()(x), y.mean(0).expand_as(y))
    model.fit_to(x, torch.ones_like(y))
    torch.testing.assert_close(model(x), torch.ones_like(y))
    assert torch.equal(model.spread, torch.ones(3, 1, 1)) or model.spread.max() < 1e-6


def test_maps_of_a_training_are_not_saved() -> None:
    model, x, _ = silent(200)
    other = LinearPlus(FIELDS, 40, Silent())
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.eval()(x), model.eval()(x))
    assert {name.partition(".")[0] for name in model.state_dict()} == {"mean", "basis", "weight", "bias", "spread"}
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))


def test_fields_of_every_dimension_at_any_unit() -> None:
    for space in ((7,), (1, 9), (3, 4, 2)):
        signature = Signature("dense", 1, space, 2)
        model = make_backbone("linear_plus", signature, {"network": "cnn", "width": 4})
        assert isinstance(model, LinearPlus)
        for parameter in model.network.parameters():
            nn.init.zeros_(parameter)
        x, y = pairs(60, 0.0, signature)
        model.fit_to(1e6 * x, 1e-6 * y)
        answer = model.eval()(1e6 * x)
        torch.testing.assert_close(1e6 * answer, y, rtol=1e-2, atol=1e-2)


def test_a_field_that_is_large_has_a_map_of_few_directions_and_samples() -> None:
    signature = Signature("dense", 3, (64, 64), 1)
    options = backbone_genotype("linear_plus", {}, signature).choices["options"]
    assert options == {"network": "fno", "width": options["width"], "rank": 512}
    model = make_backbone("linear_plus", signature, {"network": "cnn", "width": 4})
    assert isinstance(model, LinearPlus)
    assert model.samples_to_fit() == 512
    maps = 4 * model.weight.numel() + model.weight.numel() + model.basis.numel()
    assert maps < 2**24 + 1
    assert LinearPlus(FIELDS, 40, Silent()).samples_to_fit() > 10_000


@pytest.mark.parametrize("name", sorted(set(backbones) - {"linear", "linear_plus", "random_filters"}))
def test_any_network_may_correct_that_fits_fields(name: str) -> None:
    signature = Signature("dense", 1, (12,), 1)
    try:
        make_backbone(name, Signature("dense", 2, (12,), 1), {})
    except ConfigError as error:
        with pytest.raises(ConfigError, match=str(error)[:20]):
            make_backbone("linear_plus", signature, {"network": name})
    else:
        assert make_backbone("linear_plus", signature, {"network": name})(torch.randn(2, 1, 12)).shape == (2, 1, 12)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"network": "fnoo"}, "backbone.network is 'fnoo'; did you mean 'fno'"),
        ({"network": "linear"}, "backbone.network is 'linear'; "),
        ({"network": "os:system"}, "backbone.network is 'os:system'; "),
        ({"width": -1}, "backbone.width is -1, but 'linear_plus' needs it to be at least 0"),
        ({"rank": -1}, "backbone.rank is -1, but 'linear_plus' needs it to be at least 0"),
        ({"network": "lenet", "width": 3}, "backbone.width is 3, but 'lenet' has no width: leave it out"),
    ],
)
def test_mistakes(options: dict[str, object], text: str) -> None:
    refused: list[Callable[[], object]] = [
        lambda: make_backbone("linear_plus", FIELDS, options),
        lambda: backbone_genotype("linear_plus", options, FIELDS),
    ]
    for attempt in refused:
        with pytest.raises(ConfigError) as error:
            attempt()
        assert str(error.value).startswith(text)


def test_it_takes_no_other_sizes_even_if_its_network_does() -> None:
    signature = Signature("dense", 1, (12,), 1)
    assert takes_any_sizes(make_backbone("ccnn", signature, {}))
    assert not takes_any_sizes(make_backbone("linear_plus", signature, {"network": "ccnn"}))
