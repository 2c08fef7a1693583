"""What orders take of weights and gates, ``C_ij w_ij``, of many operations at once: as more outputs of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eclose.ops.xd.evaluation.bias_tap import with_gates
from eclose.ops.xd.gates import gated


@dataclass(frozen=True)
class GatedTaps:
    """Weights times C; ``pairs``: see :func:`gated`.

    ``joint``: all axes are one, and there are so many taps, C behind those of the weight where there is b.
    """

    pairs: bool
    joint: int
    bias: bool

    def of(self, weight: Tensor, gates: Tensor | None = None) -> Tensor:  # (c_out, c_in / groups, *kernels)
        """Those of one operation."""
        found = weight if gates is None else gated(weight, gates, pairs=self.pairs)
        return with_gates(found.flatten(2), gates, self.bias, self.joint) if self.joint else found

    def of_each(self, weights: Sequence[Tensor], gates: Sequence[Tensor]) -> list[Tensor]:
        """Those of operations alike, which may be without gates."""
        if len(weights) == 1:
            return [self.of(weights[0], *gates)]
        return [*_Each.apply(self, len(weights), *weights, *gates)]


class _Each(torch.autograd.Function):
    """Keeps nothing but its inputs. Operations that were left out of a pass get no derivatives, rather than zeros."""

    @staticmethod
    def forward(ctx: Any, form: GatedTaps, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        # Torch, asked to save them, would refuse a change of any, even of one that was used in its new state only.
        ctx.form, ctx.count, ctx.tensors = form, count, tensors
        ctx.versions = [tensor._version for tensor in tensors]
        ctx.set_materialize_grads(False)
        return _together(form, count, tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        saved, again = ctx.tensors, torch.is_grad_enabled()
        given = {place: cotangent for place, cotangent in enumerate(cotangents) if cotangent is not None}
        found: list[Tensor | None] = [None] * len(saved)
        if not given:
            return None, None, *found
        places = [start + place for start in range(0, len(saved), ctx.count) for place in given]
        if any(saved[place]._version != ctx.versions[place] for place in places):
            raise RuntimeError("a weight or C was written to between a forward pass and its backward pass: do it after")
        with torch.enable_grad():
            views = [_view(saved[place], again) for place in places]
            outputs = _together(ctx.form, len(given), views)
        slopes = torch.autograd.grad(outputs, views, [*given.values()], create_graph=again)
        for place, slope in zip(places, slopes, strict=True):
            found[place] = slope
        return None, None, *found


def _together(form: GatedTaps, count: int, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """As many weights, and as many gates behind them if there are any, as those of one operation."""
    weight, *gates = (torch.cat([*tensors[start : start + count]]) for start in range(0, len(tensors), count))
    return form.of(weight, *gates).chunk(count)


def _view(tensor: Tensor, again: bool) -> Tensor:
    """With a derivative of its own, which can be differentiated again where that is asked for."""
    return tensor.view_as(tensor) if again and tensor.requires_grad else tensor.detach().requires_grad_()
