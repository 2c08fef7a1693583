"""State-space layers against what scipy discretises and runs step by step."""

import numpy as np
import pytest
import torch
from scipy.signal import cont2discrete, dlsim

from eclose.ops.state_space import STATES, StateSpace, causal_convolution


def moved(layer: StateSpace) -> StateSpace:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator))
    return layer


def simulated(layer: StateSpace, feature: int, u: np.ndarray) -> np.ndarray:
    """One feature as a real system: every eigenvalue with its conjugate is a turning block of two."""
    decay, frequency = layer.log_decay[feature].exp(), layer.frequency[feature]
    a, c = np.zeros((2 * STATES, 2 * STATES)), np.zeros((1, 2 * STATES))
    b = np.tile([[1.0], [0.0]], (STATES, 1))
    for state in range(STATES):
        turn = [[-decay[state], -frequency[state]], [frequency[state], -decay[state]]]
        block = slice(2 * state, 2 * state + 2)
        a[block, block] = torch.tensor(turn).numpy()
        real, imaginary = layer.output[:, feature, state]
        c[0, block] = 2 * float(real), -2 * float(imaginary)
    step = float(layer.log_step[feature].exp())
    system = cont2discrete((a, b, c, layer.skip[feature].reshape(1, 1).numpy()), step, method="zoh")
    later = (*system[:2], system[2] @ system[0], system[3] + system[2] @ system[1], step)
    return dlsim(later, u)[1][:, 0]  # `later`: outputs see the input of their own step


@pytest.mark.parametrize("tokens", [1, 2, 7, 30])
def test_against_scipy(tokens: int) -> None:
    with torch.no_grad():
        layer = moved(StateSpace(3).double())
        x = torch.randn(1, tokens, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        y = layer(x)[0]
        for feature in range(3):
            np.testing.assert_allclose(y[:, feature], simulated(layer, feature, x[0, :, feature].numpy()), atol=1e-10)


def test_copies() -> None:
    """Layers side by side, on one input and on inputs of their own."""
    shared, apart = moved(StateSpace(4, 3, shared=True).double()), StateSpace(4, 3).double()
    apart.load_state_dict(shared.state_dict())
    x = torch.randn(2, 9, 4, dtype=torch.float64)
    torch.testing.assert_close(shared(x), apart(x.unsqueeze(1).expand(-1, 3, -1, -1)))
    for number in range(3):
        alone = StateSpace(4).double()
        state = {name: values[:, number] if name == "output" else values[number] for name, values in _state(shared)}
        alone.load_state_dict(state)
        torch.testing.assert_close(shared(x)[:, number], alone(x))


def _state(layer: StateSpace) -> list[tuple[str, torch.Tensor]]:
    return list(layer.state_dict().items())


def test_causal_convolution() -> None:
    x, kernel = torch.randn(2, 3, 11, dtype=torch.float64), torch.randn(3, 11, dtype=torch.float64)
    truth = np.stack([[np.convolve(row, taps)[:11] for row, taps in zip(each, kernel, strict=True)] for each in x])
    np.testing.assert_allclose(causal_convolution(x, kernel), truth, atol=1e-12)


def test_small_steps_stay_exact() -> None:
    """The input matrix of a short step is a difference of nearly equal numbers, not computed as one."""
    layer = StateSpace(2)
    with torch.no_grad():
        layer.log_step.fill_(-16)
        torch.testing.assert_close(layer.kernel(5).double(), layer.double().kernel(5), rtol=1e-5, atol=0)


def test_half_precision() -> None:
    layer, x = StateSpace(4), torch.randn(2, 9, 4)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x.bfloat16())
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, layer(x.bfloat16().float()).bfloat16())
