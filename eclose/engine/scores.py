"""Scores of a network that was never trained, from one batch of training samples; larger is more promising.

``gradient``: log sum over all parameters of ``|d loss / d parameter|``, the gradient norm of Abdelfattah et al. (2021),
of predictions that are first given the mean and spread of the targets: how large they happen to be at the start says
nothing of a network, but would decide the norm.

``kernel``: effective rank (Roy and Vetterli 2007) of the kernel ``F F^T`` of the samples, F the centred features that
enter the last layer: exp of the entropy of its eigenvalues. As in Mellor et al. (2021), a network that tells few
samples of a batch apart scores low; their codes of ReLUs need ReLUs, this needs a last layer.
"""

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from eclose.train import Objective

SCORES = ("gradient", "kernel")
_ROUNDING = 1e-5  # relative spread over a batch below which all samples have the same values

Scores = dict[str, float | None]  # None: it cannot be computed, which is the lowest


def score(model: nn.Module, objective: Objective, x: Tensor, y: Tensor) -> Scores:
    """Both scores of a newly initialised model, by one pass forwards and back."""
    model.train()
    with _last_features(model) as features:
        losses = objective(nn.Sequential(model, _Aligned(y)), x, y)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(losses.mean(), parameters, allow_unused=True)
    norms = torch.stack([gradient.norm() for gradient in gradients if gradient is not None])
    values = {"gradient": float(norms.double().sum().log()), "kernel": effective_rank(features[-1].detach())}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def effective_rank(features: Tensor) -> float:
    """Of the centred kernel of samples ``(batch, *any)``: between 0 (all alike) and the samples less one."""
    values = features.flatten(1).double()
    centred = values - values.mean(0)
    if not _differ(values, centred):
        return 0.0 if bool(values.isfinite().all()) else math.nan
    eigenvalues = torch.linalg.eigvalsh((centred @ centred.T).cpu())
    shares = eigenvalues[eigenvalues > _ROUNDING**2 * eigenvalues.sum()]
    return float(torch.special.entr(shares / shares.sum()).sum().exp())


class _Aligned(nn.Module):
    """Predictions with the mean and spread that targets have over the batch; class scores get 0 and 1."""

    def __init__(self, y: Tensor) -> None:
        super().__init__()
        self.y = y if y.is_floating_point() else None

    def forward(self, x: Tensor) -> Tensor:
        """Same shape; no numbers where all samples get the same prediction."""
        centred = x - x.mean(0)
        unit = centred / _spread(centred) if _differ(x, centred) else centred * math.nan
        if self.y is None:
            return unit
        mean = self.y.mean(0)
        return unit * _spread(self.y - mean) + mean


def _spread(centred: Tensor) -> Tensor:
    return centred.square().mean().sqrt()


def _differ(values: Tensor, centred: Tensor) -> bool:
    """Whether samples differ by more than rounding."""
    return bool(_spread(centred) > _ROUNDING * _spread(values))


@contextlib.contextmanager
def _last_features(model: nn.Module) -> Iterator[list[Tensor]]:
    """A list whose last entry, after a pass, is what entered the last layer that has parameters of its own."""
    entered: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        entered[:] = inputs[:1]

    layers = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
    handles = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        yield entered
    finally:
        for handle in handles:
            handle.remove()
