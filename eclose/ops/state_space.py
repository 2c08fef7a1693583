"""Diagonal state-space layers (S4D: Gu et al. 2022), run as one long convolution."""

import math

import torch
from torch import Tensor, nn

from eclose.ops.precision import full_precision

STATES = 8  # pairs of complex conjugates for every feature
STEPS = (0.001, 0.1)  # of new layers, log-uniform
DECAY = 0.5  # of new layers


class StateSpace(nn.Module):
    r"""\(s' = \Lambda s + u,\ y = 2 Re(C s) + D u\) along tokens, for every feature on its own.

    \(\Lambda\) is diagonal with negative real part; ``STATES`` eigenvalues stand for as many conjugate pairs. Features
    have a step size of their own, and inputs are held over a step. With ``copies`` there are so many layers side by
    side, on inputs of their own or on one that they share.
    """

    undecayed = ("log_step", "log_decay", "frequency")

    def __init__(self, features: int, copies: int = 1, shared: bool = False) -> None:
        super().__init__()
        lead = (copies, features) if copies > 1 else (features,)
        self.shared = shared
        low, high = map(math.log, STEPS)
        self.log_step = nn.Parameter(low + (high - low) * torch.rand(lead))
        self.log_decay = nn.Parameter(torch.full((*lead, STATES), math.log(DECAY)))
        self.frequency = nn.Parameter((math.pi * torch.arange(STATES)).repeat(*lead, 1))
        self.output = nn.Parameter(torch.randn(2, *lead, STATES))  # C, real and imaginary parts
        self.skip = nn.Parameter(torch.ones(lead))  # D

    def forward(self, x: Tensor) -> Tensor:  # (batch, [copies,] tokens, features)
        """The same shape, with an axis of copies where they shared their input."""
        if self.shared:
            x = x.unsqueeze(1)
        with full_precision(x.device.type):
            u = x.to(torch.promote_types(x.dtype, self.skip.dtype)).transpose(-1, -2)
            y = causal_convolution(u, self.kernel(u.shape[-1])) + self.skip.unsqueeze(-1) * u
        return y.transpose(-1, -2).to(x.dtype)

    def kernel(self, tokens: int) -> Tensor:
        r"""\(2 Re \sum_n C_n \bar B_n e^{l \Delta \Lambda_n}\) for l from 0, ``([copies,] features, tokens)``."""
        step = self.log_step.exp().unsqueeze(-1)
        decay = self.log_decay.exp()
        rate, angle = -decay * step, self.frequency * step  # of one step
        # (e^(rate + i angle) - 1) / (-decay + i frequency), exact for small steps
        real = rate.expm1() * angle.cos() - 2 * (angle / 2).sin().square()
        imaginary = rate.exp() * angle.sin()
        size = decay.square() + self.frequency.square()
        held = (self.frequency * imaginary - decay * real) / size, (-decay * imaginary - self.frequency * real) / size
        c, d = self.output
        real, imaginary = c * held[0] - d * held[1], c * held[1] + d * held[0]
        time = torch.arange(tokens, device=step.device)
        turned = angle.unsqueeze(-1) * time  # ([copies,] features, states, tokens)
        waves = real.unsqueeze(-1) * turned.cos() - imaginary.unsqueeze(-1) * turned.sin()
        return 2 * (waves * (rate.unsqueeze(-1) * time).exp()).sum(-2)


def causal_convolution(x: Tensor, kernel: Tensor) -> Tensor:  # (..., tokens), twice
    """``y_t = sum over l of kernel_l x_(t-l)`` by FFT, twice as long as the signal so that nothing wraps around."""
    tokens = x.shape[-1]
    spectrum = torch.fft.rfft(x, 2 * tokens) * torch.fft.rfft(kernel, 2 * tokens)
    return torch.fft.irfft(spectrum, 2 * tokens)[..., :tokens]
