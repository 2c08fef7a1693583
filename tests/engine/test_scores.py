"""Both scores against slow transcriptions in double precision, and what they make of broken networks."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from torch import Tensor, nn

from eclose.engine.scores import effective_rank, score
from eclose.train import Objective
from eclose.train.losses import make_loss


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def network(outputs: int, *after: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, outputs), *after]
    return nn.Sequential(*layers).double()


def samples(count: int = 11) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    x, y = torch.randn(count, 5, generator=rng).double(), 3 + 2 * torch.randn(count, 2, generator=rng).double()
    return x, y, torch.arange(count) % 4


def cross_entropy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    """Of class scores with mean 0 a class and mean square 1, sample by sample."""
    values = model(x).detach().numpy()
    values = values - values.mean(0)
    values = values / math.sqrt((values**2).mean())
    return float(np.mean([-math.log(np.exp(v)[c] / np.exp(v).sum()) for v, c in zip(values, labels, strict=True)]))


def squares(model: nn.Module, x: Tensor, y: Tensor, unit: np.ndarray) -> float:
    """Mean square in units of the target, of predictions with its mean and spread."""
    values, targets = model(x).detach().numpy(), y.numpy()
    values = values - values.mean(0)
    values = values / math.sqrt((values**2).mean())
    deviation = targets - targets.mean(0)
    values = values * math.sqrt((deviation**2).mean()) + targets.mean(0)
    return float((((values - targets) / unit) ** 2).mean())


def differences(model: nn.Module, loss: object) -> float:
    """Log of the summed gradient norms, by central differences in every weight."""
    total, step = 0.0, 1e-6
    for parameter in model.parameters():
        squared = 0.0
        flat = parameter.detach().view(-1)
        for place in range(len(flat)):
            value = float(flat[place])
            sides = []
            for side in (step, -step):
                flat[place] = value + side
                sides.append(loss())  # type: ignore[operator]
            flat[place] = value
            squared += ((sides[0] - sides[1]) / (2 * step)) ** 2
        total += math.sqrt(squared)
    return math.log(total)


def test_gradient_of_class_scores() -> None:
    x, _, labels = samples()
    model = network(4)
    found = score(model, Objective(make_loss("cross_entropy", {}), None), x, labels)["gradient"]
    assert found == pytest.approx(differences(model, lambda: cross_entropy(model, x, labels)), abs=1e-6)


def test_gradient_of_values() -> None:
    x, y, _ = samples()
    model, unit = network(2), torch.tensor([[0.5, 4.0]]).double()
    found = score(model, Objective(make_loss("mse", {}), unit), x, y)["gradient"]
    assert found == pytest.approx(differences(model, lambda: squares(model, x, y, unit.numpy())), abs=1e-6)


@pytest.mark.parametrize("factor", [1e-4, 3e5])
def test_how_large_predictions_are_does_not_matter(factor: float) -> None:
    x, _, labels = samples()
    objective = Objective(make_loss("cross_entropy", {}), None)
    plain, scaled = (score(network(4, *after), objective, x, labels) for after in ((), (Times(factor),)))
    assert scaled == pytest.approx(plain)


def test_kernel_of_what_enters_the_last_layer() -> None:
    x, _, labels = samples()
    model = network(4, nn.Tanh())
    features = model[:4](x).detach()
    found = score(model, Objective(make_loss("cross_entropy", {}), None), x, labels)["kernel"]
    assert found == effective_rank(features)
    assert 1 < effective_rank(features) < 3


@pytest.mark.parametrize("shape", [(2, 1), (7, 1), (5, 3, 2), (3, 11), (13, 13), (1, 4)])
def test_effective_rank_by_singular_values(shape: tuple[int, ...]) -> None:
    features = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    matrix = features.double().flatten(1).numpy()
    squares = np.linalg.svd(matrix - matrix.mean(0), compute_uv=False) ** 2
    wanted = math.exp(scipy.stats.entropy(squares)) if shape[0] > 1 else 0.0
    assert effective_rank(features) == pytest.approx(wanted, abs=1e-9)


def test_equal_directions_have_their_number_as_rank() -> None:
    signs = torch.tensor(scipy.linalg.hadamard(8)[:, 1:6])  # five centred, orthogonal columns of equal length
    assert effective_rank(signs) == pytest.approx(5)
    assert effective_rank(1e4 + signs[:, :1].float()) == 1, "rounding is no direction"


def test_what_differs_by_rounding_only_is_the_same() -> None:
    alike = torch.full((6, 40), 1 / 3) + 1e-8 * torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    assert len(alike.unique()) > 1
    assert effective_rank(alike) == 0
    assert math.isnan(effective_rank(torch.full((4, 3), math.nan)))


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (nn.Softmax(-1), {"gradient": None, "kernel": 0.0}),  # one class: 1 for every sample
        (Times(math.inf), {"gradient": None, "kernel": None}),
    ],
)
def test_networks_that_tell_nothing(last: nn.Module, wanted: dict[str, float | None]) -> None:
    x, _, labels = samples()
    body = nn.Linear(5, 1).double()
    model = nn.Sequential(body, last, nn.Linear(1, 4).double())
    assert score(model, Objective(make_loss("cross_entropy", {}), None), x, labels) == wanted


def test_one_sample_has_no_score() -> None:
    x, _, labels = samples(1)
    found = score(network(4), Objective(make_loss("cross_entropy", {}), None), x, labels)
    assert found == {"gradient": None, "kernel": 0.0}
