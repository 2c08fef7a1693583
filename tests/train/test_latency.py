"""The clock of a forward pass, held against networks that take a known time."""

import time

import torch
from torch import Tensor, nn

from eclose.train import measure_latency


class Sleeps(nn.Module):
    """Takes ``seconds[n]`` at call n, and the last one ever after."""

    def __init__(self, *seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.calls = 0
        self.seen: set[tuple[bool, bool, torch.dtype]] = set()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(self.seconds[min(self.calls, len(self.seconds) - 1)])
        self.calls += 1
        y: Tensor = self.layer(x)
        self.seen.add((self.training, y.requires_grad, y.dtype))
        return y


X = torch.ones(3, 2)


def test_it_is_the_time_of_a_pass_in_milliseconds() -> None:
    assert 10 <= measure_latency(Sleeps(0.01), X) < 40
    assert 30 <= measure_latency(Sleeps(0.03), X) < 90


def test_the_first_passes_do_not_count() -> None:
    assert measure_latency(Sleeps(0.1, 0.1, 0.1, 0.001), X) < 50


def test_it_is_the_median() -> None:
    now_and_then = [0.0, 0.0, 0.0, *([0.001, 0.001, 0.12] * 40)]
    assert 1 <= measure_latency(Sleeps(*now_and_then), X) < 50


def test_a_slow_network_is_passed_a_few_times_a_quick_one_often() -> None:
    slow, quick = Sleeps(0.05), Sleeps(0.0)
    measure_latency(slow, X)
    measure_latency(quick, X)
    assert slow.calls == 8
    assert quick.calls > 50


def test_it_runs_as_in_evaluation_and_leaves_no_trace() -> None:
    model = nn.Sequential(Sleeps(0.0), nn.BatchNorm1d(2), nn.Dropout())
    model[2].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    measure_latency(model, X, "bfloat16")
    assert model[0].seen == {(False, False, torch.bfloat16)}
    assert [module.training for module in model] == [True, True, False]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
