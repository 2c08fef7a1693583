"""What a training makes small: functions ``(prediction, target) -> (batch,)``, one value a sample.

The training loss is the mean over samples. Because no loss averages over the batch itself, slices of a batch
(several devices, accumulated gradients) can be weighted exactly by their number of samples.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from eclose.errors import ConfigError
from eclose.registry import Registry
from eclose.signature import KINDS, Signature

Loss = Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> (batch,)

losses = Registry("loss")

LABEL_KINDS = ("classification", "segmentation")
VALUE_KINDS = ("regression", "dense")

_SERVES = {
    "cross_entropy": LABEL_KINDS,
    **dict.fromkeys(("mse", "mae", "relative_l2", "huber"), VALUE_KINDS),
}


@losses.register("cross_entropy")
def cross_entropy(prediction: Tensor, target: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of class scores, mean over positions: ``-sum_c q_c log softmax(prediction)_c``.

    ``q`` is ``1 - label_smoothing`` on the label plus ``label_smoothing / classes`` everywhere. Of samples that are
    mixed the target is the probability of every class.
    """
    # prediction (batch, classes, *space), target (batch, *space) or (batch, classes, *space) -> (batch,)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ConfigError(f"label_smoothing is {label_smoothing}, but must lie between 0 and 1")
    scores = class_scores(prediction)
    target = target if target.ndim == scores.ndim else target.long()
    values = functional.cross_entropy(scores, target, reduction="none", label_smoothing=label_smoothing)
    return _mean_of_sample(values)


@losses.register("mse")
def mse(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean squared error: ``mean (prediction - target)^2``."""
    # both (batch, outputs, *space) -> (batch,)
    return _mean_of_sample(_difference(prediction, target).square())


@losses.register("mae")
def mae(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean absolute error: ``mean |prediction - target|``."""
    # both (batch, outputs, *space) -> (batch,)
    return _mean_of_sample(_difference(prediction, target).abs())


@losses.register("relative_l2")
def relative_l2(prediction: Tensor, target: Tensor, *, floor: float = 1e-8) -> Tensor:
    """Relative error in the 2-norm: ``|prediction - target| / max(|target|, floor)``, norms over a sample."""
    # both (batch, outputs, *space) -> (batch,)
    if not 0.0 <= floor < math.inf:
        raise ConfigError(f"floor is {floor}, but must be at least 0 and finite")
    difference = _difference(prediction, target)
    return _norm(difference) / _norm(target.to(difference.dtype)).clamp_min(floor)


@losses.register("huber")
def huber(prediction: Tensor, target: Tensor, *, delta: float = 1.0) -> Tensor:
    """Huber loss, mean of ``d^2 / 2`` where ``|d| <= delta`` and ``delta (|d| - delta / 2)`` beyond."""
    # both (batch, outputs, *space) -> (batch,)
    if not 0.0 < delta < math.inf:
        raise ConfigError(f"delta is {delta}, but must be above 0 and finite")
    difference = _difference(prediction, target)
    return _mean_of_sample(
        functional.huber_loss(difference, torch.zeros_like(difference), reduction="none", delta=delta)
    )


def make_loss(name: str, options: Mapping[str, Any]) -> Loss:
    """The loss ``name`` with its options set."""
    member = losses[name]
    return partial(member.make, **member.complete(options, "loss"))


def default_loss(signature: Signature) -> str:
    """Name of the loss that a kind of task is usually trained with."""
    if signature.labels:
        return "cross_entropy"
    return "relative_l2" if signature.kind == "dense" else "mse"


def check_loss(name: str, signature: Signature) -> None:
    """Refuse a loss that cannot serve the kind of task."""
    refuse_unfit(losses, name, _SERVES, signature, "serve")


def refuse_unfit(
    registry: Registry, name: str, kinds: Mapping[str, tuple[str, ...]], signature: Signature, verb: str
) -> None:
    """Refuse a member that is not made for the kind of task; one without an entry in ``kinds`` is for all."""
    if signature.kind not in kinds.get(registry[name].name, KINDS):
        able = ", ".join(other for other in registry if signature.kind in kinds.get(other, KINDS))
        raise ConfigError(f"{registry.role} '{name}' cannot {verb} a {signature.kind} task; these can: {able}")


def class_scores(prediction: Tensor) -> Tensor:
    """One score a class; a single output ``z`` is the log-odds of class 1, hence the scores ``(0, z)``."""
    # (batch, classes or 1, *space) -> (batch, classes or 2, *space)
    scores = _wide(prediction)
    return torch.cat((torch.zeros_like(scores), scores), dim=1) if scores.shape[1] == 1 else scores


def _wide(values: Tensor) -> Tensor:
    """At least single precision: predictions made under autocast are too coarse to be summed."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _difference(prediction: Tensor, target: Tensor) -> Tensor:
    """``prediction - target`` without broadcasting: (batch, 1) against (batch,) would be (batch, batch)."""
    if prediction.shape != target.shape:
        shapes = f"prediction {tuple(prediction.shape)} and target {tuple(target.shape)}"
        raise ValueError(f"{shapes} must have the same shape")
    return _wide(prediction) - target


def _mean_of_sample(values: Tensor) -> Tensor:
    """Mean over all axes but the first."""
    # (batch, *rest) -> (batch,)
    return values.flatten(1).mean(1) if values.ndim > 1 else values


def _norm(values: Tensor) -> Tensor:
    """2-norm of a sample, with derivatives zero (to every order) where it vanishes.

    ``torch.linalg.vector_norm`` is safe to first order only, and a bilevel step differentiates twice.
    """
    # (batch, *rest) -> (batch,)
    squares = values.reshape(values.shape[0], -1).square().sum(1)
    zero = squares == 0
    return squares.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)
