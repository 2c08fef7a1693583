import math
import warnings

import pytest
import torch
from torch.optim import lr_scheduler

from eclose.errors import ConfigError
from eclose.train.schedules import rate, schedules

FREE = {"constant": {}, "linear": {}, "cosine": {}, "restarts": {}, "step": {"every": 7}, "piecewise": {}}


def torch_rates(make, epochs):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = make(optimiser)
    rates = []
    for _ in range(epochs):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
    return rates


@pytest.mark.parametrize(
    ("name", "options", "make"),
    [
        ("step", {"factor": 0.3, "every": 7}, lambda o: lr_scheduler.StepLR(o, 7, gamma=0.3)),
        ("step", {"every": 1.0}, lambda o: lr_scheduler.StepLR(o, 1, gamma=0.5)),
        (
            "step",
            {"factor": 0.1, "milestones": [10, 30, 31]},
            lambda o: lr_scheduler.MultiStepLR(o, [10, 30, 31], gamma=0.1),
        ),
        ("cosine", {}, lambda o: lr_scheduler.CosineAnnealingLR(o, 50)),
        ("cosine", {"final": 0.2}, lambda o: lr_scheduler.CosineAnnealingLR(o, 50, eta_min=0.2)),
        ("linear", {"final": 0.1}, lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=50)),
        ("constant", {}, lambda o: lr_scheduler.ConstantLR(o, 1.0)),
        ("restarts", {}, lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 10)),
        (
            "restarts",
            {"period": 3, "multiply": 2, "final": 0.1},
            lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.1),
        ),
    ],
)
def test_same_rates_as_torch_at_whole_epochs(name, options, make):
    wanted = torch_rates(make, 50)
    got = [rate(name, epoch, 50, 0, options) for epoch in range(50)]
    assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("multiply", [1, 2, 3])
def test_same_restarts_as_torch_within_epochs(multiply):
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimiser, 5, T_mult=multiply)
    for step in range(640):
        progress = step / 16
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch wants to see optimiser steps
            schedule.step(progress)
        wanted = optimiser.param_groups[0]["lr"]
        got = rate("restarts", progress, 40, 0, {"period": 5, "multiply": multiply})
        assert got == pytest.approx(wanted, abs=1e-9), progress


def test_the_schedule_of_lenet_in_the_xd_paper():
    """200 epochs: 100 at 0.01, 50 at 0.005, 50 at 0.001."""
    options = {"milestones": [100, 150], "values": [0.5, 0.1]}
    rates = [0.01 * rate("piecewise", epoch, 200, 0, options) for epoch in range(200)]
    assert rates == pytest.approx([0.01] * 100 + [0.005] * 50 + [0.001] * 50)


def test_warm_up_rises_then_the_schedule_runs_over_the_rest():
    assert rate("cosine", 0.0, 20, 4, {}) == 0.0
    assert rate("cosine", 1.0, 20, 4, {}) == 0.25
    assert rate("cosine", 3.0, 20, 4, {"final": 0.1}) == 0.75
    for epoch in range(4, 20):
        assert rate("cosine", epoch, 20, 4, {}) == rate("cosine", epoch - 4, 16, 0, {})
    assert rate("cosine", 12, 20, 4, {}) == pytest.approx(0.5)
    assert rate("cosine", 20, 20, 4, {}) == pytest.approx(0.0)
    assert rate("step", 9, 20, 4, {"milestones": [6]}) == 1.0
    assert rate("step", 10, 20, 4, {"milestones": [6]}) == 0.5


def test_a_training_shorter_than_its_warm_up_only_rises():
    assert [rate("cosine", epoch, 2, 4, {}) for epoch in (0, 1, 2)] == [0.0, 0.25, 0.5]


@pytest.mark.parametrize("name", list(schedules))
@pytest.mark.parametrize("warmup", [0, 2.5])
def test_rates_are_factors(name, warmup):
    rates = [rate(name, step / 10, 10, warmup, FREE[name]) for step in range(101)]
    assert all(0.0 <= value <= 1.0 for value in rates)
    assert rate(name, warmup, 10, warmup, FREE[name]) == 1.0


@pytest.mark.parametrize("name", list(schedules))
def test_no_epochs_left(name):
    assert rate(name, 3, 3, 3, FREE[name]) == 1.0


@pytest.mark.parametrize("every", [0.1, 0.3, 0.7])
def test_parts_of_epochs_are_not_lost_to_rounding(every):
    for count in range(40):
        progress = count * every
        assert rate("step", progress, 40, 0, {"every": every}) == 0.5**count
        assert rate("restarts", progress, 40, 0, {"period": every}) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "step",
            {},
            "needs either 'every' .* or 'milestones' .*, but every is 0.0 and milestones are \\[\\]",
        ),
        ("step", {"every": 3, "milestones": [4]}, "needs either 'every'"),
        ("step", {"every": -1}, "schedule.every is -1.0, but must be a finite number of at least 0.001"),
        ("step", {"every": 1e-9}, "schedule.every is 1e-09"),
        ("step", {"every": math.nan}, "schedule.every is nan"),
        ("step", {"every": 1, "factor": -1}, "schedule.factor is -1.0, but must be a finite number of at least 0"),
        ("step", {"every": 1, "factor": math.inf}, "schedule.factor is inf"),
        ("step", {"milestones": ["ten"]}, "milestones are \\['ten'\\], but must be numbers of epochs"),
        ("step", {"milestones": [math.nan]}, "milestones are \\[nan\\]"),
        ("restarts", {"period": 0}, "schedule.period is 0.0, but must be a finite number of at least 0.001"),
        ("restarts", {"period": 1e-300}, "schedule.period is 1e-300"),
        ("restarts", {"multiply": 0.5}, "schedule.multiply is 0.5, but must be a finite number of at least 1"),
        ("restarts", {"multiply": math.inf}, "schedule.multiply is inf"),
        ("restarts", {"final": -1}, "schedule.final is -1.0"),
        ("linear", {"final": math.nan}, "schedule.final is nan"),
        ("cosine", {"final": -0.1}, "schedule.final is -0.1"),
        ("piecewise", {"milestones": [3], "values": ["a"]}, r"schedule.values\[0\] is 'a'"),
        ("piecewise", {"milestones": [3], "values": [True]}, r"schedule.values\[0\] is True"),
        ("piecewise", {"milestones": [3, 4], "values": [1, -1]}, r"schedule.values\[1\] is -1"),
        ("piecewise", {"milestones": ["a", 4], "values": [1, 1]}, r"milestones are \['a', 4\]"),
        ("piecewise", {"milestones": [3]}, "rising 'milestones' and as many 'values'"),
        ("piecewise", {"milestones": [3, 2], "values": [0.5, 0.1]}, "rising 'milestones'"),
        ("cosine", {"finale": 0.0}, "no option 'finale'; did you mean 'final'"),
        ("cosinus", {}, "unknown schedule 'cosinus'; did you mean 'cosine'"),
    ],
)
def test_bad_settings_show_at_the_start(name, options, message):
    with pytest.raises(ConfigError, match=message):
        rate(name, 0, 10, 2, options)


def test_a_rate_beyond_all_numbers_is_refused():
    with pytest.raises(ConfigError, match=r"schedule.factor is 1e\+300, whose power 10 is too large"):
        rate("step", 10, 10, 0, {"every": 1, "factor": 1e300})


def test_a_warm_up_by_share_begins_at_a_tenth_and_scales_with_the_training():
    for total in (1, 30):
        rates = [rate("cosine", total * share, total, 0, {}, warmup=0.1) for share in (0.0, 0.05, 0.1, 0.55, 1.0)]
        assert rates == pytest.approx([0.1, 0.55, 1.0, 0.5, 0.0])
    assert rate("constant", 1, 10, 0, {}, warmup=1.0) == pytest.approx(0.19)
