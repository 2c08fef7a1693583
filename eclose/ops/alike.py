"""Operations alike, each with an input of its own, run together: ``x`` is ``(batch, edges, channels, *space)``.

A searched network has the same small operations on many edges. Each of them would cost its launches on a GPU, and each
would read the whole input. Here all convolutions of one point that look at an input are one product, all norms behind
them one norm. What follows is small, and done for all edges at once.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Reading(NamedTuple):
    """A convolution of one point that looks at the input; where there is a norm, it and a ReLU follow."""

    conv: nn.Module
    norm: nn.Module | None

    @property
    def outputs(self) -> int:
        """Channels."""
        return len(self.weight)

    @property
    def weight(self) -> Tensor:
        """``(outputs, inputs)``."""
        return self.conv.get_parameter("weight").flatten(1)

    @property
    def stride(self) -> tuple[int, ...]:
        """Where it leaves out points, the norm does not see them."""
        return cast(tuple[int, ...], self.conv.stride)

    @property
    def strides(self) -> bool:
        """Whether it leaves out points."""
        return max(self.stride) > 1


def run(sorts: Sequence[Sequence[nn.Module]], x: Tensor) -> list[Tensor]:
    """What several sorts of operations give, one operation of each sort on every edge: ``(batch, edges, ...)`` each.

    An operation takes part if it has ``readings()`` and ``from_readings(operations, outputs, x)``.
    """
    together = [sort for sort in sorts if hasattr(sort[0], "readings")]
    read = _read([[operation.readings() for operation in sort] for sort in together], x)  # type: ignore[operator]
    given = {id(sort): _given(sort, outputs, x) for sort, outputs in zip(together, read, strict=True)}
    return [given[id(sort)] if id(sort) in given else _one_by_one(sort, x) for sort in sorts]


def stacked(layers: Sequence[nn.Module]) -> Tensor:
    """The weights of convolutions of one point: ``(layers, outputs, inputs)``."""
    return torch.stack([layer.get_parameter("weight").flatten(1) for layer in layers])


def _given(sort: Sequence[nn.Module], outputs: list[Tensor], x: Tensor) -> Tensor:
    first: Any = sort[0]
    output: Tensor = first.from_readings(sort, outputs, x)
    return output


def _one_by_one(sort: Sequence[nn.Module], x: Tensor) -> Tensor:
    return torch.stack([operation(own) for operation, own in zip(sort, x.unbind(1), strict=True)], dim=1)


def _read(sorts: list[list[list[Reading]]], x: Tensor) -> list[list[Tensor]]:
    """``sorts[sort][edge][reading]``; outputs of every sort by its readings: ``(batch, edges, outputs, *space)``."""
    readings = [list(own) for sort in sorts for own in zip(*sort, strict=True)]  # each of all edges
    if not readings:
        return [[] for _ in sorts]
    first = [own for own in readings if own[0].norm is not None and not own[0].strides]
    others = [own for own in readings if own not in first]
    sizes = [own[0].outputs for own in first]
    weights = [own[edge].weight for edge in range(x.shape[1]) for own in (*first, *others)]
    product = torch.cat(weights).unflatten(0, (x.shape[1], -1)) @ x.flatten(3)
    normal, *rest = product.split([sum(sizes), *(own[0].outputs for own in others)], dim=2)
    outputs = {id(own): _finished(own, part.unflatten(3, x.shape[3:])) for own, part in zip(others, rest, strict=True)}
    if first:
        norms = [own[edge].norm for edge in range(x.shape[1]) for own in first]
        normal = _normalised(norms, normal.unflatten(3, x.shape[3:]))
        outputs |= {id(own): part for own, part in zip(first, normal.split(sizes, dim=2), strict=True)}
    in_order = iter([outputs[id(own)] for own in readings])
    return [[next(in_order) for _ in sort[0]] for sort in sorts]


def _finished(own: list[Reading], x: Tensor) -> Tensor:
    """A reading whose norm, if it has one, is not that of the others."""
    if own[0].strides:
        x = x[tuple(slice(None, None, step) for step in (1, 1, 1, *own[0].stride))]
    if own[0].norm is None:
        return x
    return _normalised([each.norm for each in own], x)


def _normalised(norms: Sequence[nn.Module | None], x: Tensor) -> Tensor:
    """Batch norms of channels side by side, edge by edge, and a ReLU.

    Norms with parameters, and those that several processes share, run one by one.
    """
    own = [norm for norm in norms if norm is not None]
    sizes, first, flat = [len(norm.get_buffer("running_mean")) for norm in own], own[0], x.flatten(1, 2)
    if not isinstance(first, _NORMS) or first.affine:
        parts = [norm(part) for norm, part in zip(own, flat.split(sizes, dim=1), strict=True)]
        return torch.cat(parts, dim=1).relu().view(x.shape)
    kept = [[norm.get_buffer(name) for norm in own] for name in ("running_mean", "running_var")]
    mean, variance = (torch.cat(each) for each in kept)
    momentum = 0.0 if first.momentum is None else first.momentum
    y = F.batch_norm(flat, mean, variance, None, None, first.training, momentum, first.eps)
    if first.training:
        torch._foreach_copy_([*kept[0], *kept[1]], [*mean.split(sizes), *variance.split(sizes)])
    return y.relu().view(x.shape)
