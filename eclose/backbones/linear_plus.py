"""A linear map of the whole input, and a network that corrects its answer.

Fields whose answers are nearly linear in all of the input, as in tomography, deblurring or diffusion, cost a network
much to learn and a least-squares fit nothing. So the map is fitted in closed form before the training, which leaves it
as it is. The network sees the input and the map's answer, and learns what is left.
"""

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from eclose.backbones.defaults import default_backbone
from eclose.backbones.factory import backbones, make_backbone
from eclose.backbones.needs import need_at_least
from eclose.errors import ConfigError, Unsuited
from eclose.ops.least_squares import PrincipalRidge, not_zero
from eclose.ops.precision import all_digits
from eclose.registry import nearest
from eclose.signature import Signature

_RANK = 1024  # directions of the input that the map sees at most
_NUMBERS = 2**24  # of the map and of those of the folds together
_HELD = 2**23  # numbers of inputs and outputs that are fitted together
_SAMPLES = 1024  # that are fitted where inputs have more numbers than that
_FOLDS = 4
_SLABS = 100.0  # in the spread of the samples
_FEWEST = 8 * _FOLDS  # samples that are divided into folds
_NOT_BEHIND = ("linear", "random_filters", "linear_plus")  # nothing is left for them to learn


class LinearPlus(nn.Module):
    """``linear(x) + spread * network(x, linear(x))``; ``spread`` is that of what the linear map leaves.

    A map has seen the answers of the samples it was fitted to, and is nearer to them than to others. A network that
    learns from such answers trusts them too much. In training a sample's answer therefore comes from a map that was
    fitted without the quarter of the samples in which it is. Thin slabs across one random direction belong to the
    quarters in turn: a sample's quarter follows from itself, and nobody has to know its number. Wide directions of the
    samples count little more than others: along one of them alone, all samples may lie in a few places.
    """

    any_sizes = False
    mean: Tensor
    basis: Tensor
    weight: Tensor
    bias: Tensor
    spread: Tensor
    left_out: Tensor | None
    across: Tensor | None

    def __init__(self, signature: Signature, rank: int, network: nn.Module) -> None:
        super().__init__()
        inputs, outputs = _numbers(signature)
        self.shape = signature.output_shape(1)[1:]
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("basis", torch.zeros(inputs, rank))  # orthonormal directions, the widest first
        self.register_buffer("weight", torch.zeros(rank, outputs))
        self.register_buffer("bias", torch.zeros(outputs))
        self.register_buffer("spread", torch.ones(signature.outputs, *(1 for _ in signature.sizes)))
        # Of a training alone: (quarters, rank, outputs), the map without each of them; (rank,), the way across slabs.
        self.register_buffer("left_out", None, persistent=False)
        self.register_buffer("across", None, persistent=False)
        self.network = network

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs, *space)``."""
        with all_digits(x.device.type):
            along = (x.flatten(1) - self.mean) @ self.basis
            answer = (self._honest(along) if self.training else along @ self.weight) + self.bias
        answer = answer.view(x.shape[0], *self.shape)
        correction: Tensor = self.network(torch.cat([x, answer], 1))
        return answer + self.spread * correction

    def _honest(self, along: Tensor) -> Tensor:  # (batch, rank)
        """``(batch, outputs)``: of every sample from the map that was fitted without its quarter."""
        if self.left_out is None or self.across is None:
            return along @ self.weight
        answers = torch.einsum("br,kro->bko", along, self.left_out)
        return answers[torch.arange(along.shape[0], device=along.device), _quarters(along, self.across)]

    def samples_to_fit(self) -> int:
        """How many samples a fit takes into account."""
        inputs, outputs = len(self.mean), len(self.bias)
        most = max(2, _HELD // (inputs + outputs))
        return most if inputs <= _SAMPLES else min(most, _SAMPLES)

    @torch.no_grad()
    def fit_to(self, x: Tensor, y: Tensor) -> None:  # (samples, channels, *space), (samples, outputs, *space)
        """Ridge regression on the principal directions of x; of penalties that with the smallest left-out error."""
        y = y.flatten(1).double()
        fit = PrincipalRidge(x.flatten(1).double(), y, self.basis.shape[1])
        for name in ("mean", "basis", "weight", "bias"):
            _put(getattr(self, name), getattr(fit, name))
        self.left_out, self.across = None, None
        answers = fit.answers if len(y) < _FEWEST else self._fit_without_quarters(fit)
        left = (y - answers).view(len(y), *self.shape).transpose(0, 1).flatten(1)
        self.spread.copy_(not_zero(left.square().mean(1).sqrt()).view_as(self.spread))

    def _fit_without_quarters(self, fit: PrincipalRidge) -> Tensor:
        """The maps of a training; to each sample the answer of the one without it: ``(samples, outputs)``."""
        across = torch.randn(fit.along.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        across /= fit.values.sqrt().sqrt()  # not more: narrow directions are rounded
        across *= _SLABS / not_zero((fit.along @ across).square().mean().sqrt())
        self.across = self.weight.new_zeros(len(self.weight))
        self.left_out = self.weight.new_zeros(_FOLDS, *self.weight.shape)
        _put(self.across, across)
        answers, quarters = fit.answers, _quarters(fit.along, across)
        for quarter, weight in enumerate(self.left_out):
            out = quarters == quarter
            without = fit.weight_without(out)
            _put(weight, without)
            answers[out] = fit.bias + fit.along[out] @ without
        return answers


def _quarters(along: Tensor, across: Tensor) -> Tensor:  # (samples, rank), (rank,)
    """``(samples,)``, 0 to 3. Rounding may move a sample at the edge of a slab, one of many thousand."""
    return (along @ across).floor().remainder(_FOLDS).long()


def _put(buffer: Tensor, values: Tensor) -> None:
    """Into the first of its rows and columns; there is nothing in others."""
    buffer.zero_()
    buffer[tuple(slice(size) for size in values.shape)] = values.to(buffer)


def _effective(signature: Signature, *, network: str, width: int, rank: int) -> dict[str, Any]:
    if signature.kind != "dense" or signature.tokens:
        raise Unsuited(
            "backbone 'linear_plus' gives numbers at every position of a field of numbers, and this is a "
            f"{signature.kind} task{' of tokens' if signature.tokens else ''}: choose {default_backbone(signature)}"
        )
    need_at_least("linear_plus", 0, width=width, rank=rank)
    network = network or default_backbone(signature)
    known = [name for name in backbones if name not in _NOT_BEHIND]
    if network not in known:
        raise ConfigError(f"backbone.network is '{network}'; {nearest(network, known)}")
    member, seen = backbones[network], _seen(signature)
    if width and "width" not in member.options:
        raise ConfigError(f"backbone.width is {width}, but '{network}' has no width: leave it out")
    if "width" in member.options:
        options = member.complete({"width": width} if width else {}, "backbone")
        width = (member.effective(seen, **options) if member.effective else options)["width"]
    inputs, outputs = _numbers(signature)
    most = min(_RANK, inputs, max(1, _NUMBERS // (inputs + (1 + _FOLDS) * outputs)))
    return {"network": network, "width": width, "rank": min(rank or most, inputs)}


@backbones.register("linear_plus", effective=_effective)
def linear_plus(signature: Signature, *, network: str = "", width: int = 0, rank: int = 0) -> nn.Module:
    """A fitted linear map of the whole input, corrected by a network: for fields that are nearly linear in others.

    ``network``: the one that corrects; empty: the usual one. ``width`` of 0 is that of this network. ``rank``:
    directions of the input that the map sees; 0 is as many as there are, at most 1024, fewer of large fields.
    """
    options = _effective(signature, network=network, width=width, rank=rank)
    name, wide = options["network"], {"width": options["width"]} if options["width"] else {}
    return LinearPlus(signature, options["rank"], make_backbone(name, _seen(signature), wide))


def _seen(signature: Signature) -> Signature:
    """What the network sees: the input and the answer of the map."""
    return dataclasses.replace(signature, channels=signature.channels + signature.outputs)


def _numbers(signature: Signature) -> tuple[int, int]:
    """Of an input and of an answer."""
    return math.prod(signature.input_shape(1)), math.prod(signature.output_shape(1))
