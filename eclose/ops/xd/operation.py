"""XD-operations (Roberts et al. 2021, Definition 3.2): convolutions whose Fourier transforms are trained."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.sizes import LARGEST, stages
from eclose.ops.precision import full_precision
from eclose.ops.xd.architecture import Architecture
from eclose.ops.xd.convolution import convolution
from eclose.ops.xd.geometry import Axis, plan_axis, same_padding
from eclose.ops.xd.orders import ORDERS, evaluate
from eclose.ops.xd.terms import Terms

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d


class XD(nn.Module):
    """``y_i = sum_j Real(K diag(C_ij (L w_ij + b)) M x_j) + bias_i``, on 1, 2 or 3 axes.

    K, L and M are Kronecker products of one Kaleidoscope matrix an axis, shared by all channels; b is a complex
    number for every frequency (in natural order), C a real gate for every pair of channels. They are the
    ``architecture``; ``weight`` and ``bias`` are those of the operation that this one starts as.
    """

    def __init__(
        self,
        weight: nn.Parameter,  # (c_out, c_in / groups, *kernels)
        axes: Sequence[Axis],
        architecture: Architecture,
        *,
        bias: nn.Parameter | None = None,  # (c_out,)
        groups: int = 1,
        order: str | None = None,
        recompute: bool = True,
    ) -> None:
        super().__init__()
        if order is not None and order not in ORDERS:
            raise ValueError(f"{order!r} is no order of evaluation; there are {', '.join(ORDERS)}")
        self.axes, self.groups, self.order, self.recompute = tuple(axes), groups, order, recompute
        self.in_channels, self.out_channels = weight.shape[1] * groups, weight.shape[0]
        self.weight, self.bias = weight, bias
        self.architecture = architecture.to(weight.device)

    @classmethod
    def from_conv(
        cls,
        conv: Conv,
        input_size: int | Sequence[int],
        *,
        depth: tuple[int, int, int] = (1, 1, 1),
        bias: bool = True,
        gates: bool = True,
        paper: bool = False,
        largest: int = LARGEST,
        fewest: bool = False,
        order: str | None = None,
        recompute: bool = True,
    ) -> "XD":
        """The same function as ``conv`` on inputs of ``input_size`` (one number, or one for every axis).

        ``weight`` and ``bias`` are the parameters of ``conv`` themselves. ``bias`` and ``gates`` say whether there
        are b and C. Transforms have no prime factor above ``largest``, and a stage for every prime factor, or as few
        as possible with ``fewest``; with ``paper`` their sizes are powers of two.
        """
        if not isinstance(conv, Conv):
            raise ValueError(f"only Conv1d, Conv2d and Conv3d start an XD-operation, not {type(conv).__name__}")
        if not isinstance(conv.weight, nn.Parameter) or not isinstance(conv.bias, nn.Parameter | None):
            raise ValueError("the weight of the convolution is computed, not a parameter: remove the parametrisation")
        axes = []
        for place, size in enumerate(_sizes(input_size, len(conv.kernel_size))):
            kernel, dilation = conv.kernel_size[place], conv.dilation[place]
            if conv.padding == "same":
                padding = same_padding(kernel, dilation)
            else:
                padding = (0, 0) if isinstance(conv.padding, str) else (conv.padding[place],) * 2
            axes.append(
                plan_axis(
                    size,
                    kernel,
                    stride=conv.stride[place],
                    dilation=dilation,
                    padding=padding,
                    mode=conv.padding_mode,
                    paper=paper,
                    largest=largest,
                )
            )
        architecture = Architecture(
            axes,
            (conv.out_channels, conv.in_channels // conv.groups),
            [stages(axis.transform, largest, fewest=fewest and not paper) for axis in axes],
            depth=depth,
            bias=bias,
            gates=gates,
            dtype=torch.promote_types(conv.weight.dtype, torch.float32),
        )
        return cls(
            conv.weight, axes, architecture, bias=conv.bias, groups=conv.groups, order=order, recompute=recompute
        )

    def arch_parameters(self) -> Iterator[nn.Parameter]:
        """Entries of K, L and M, and b and C: not the weights."""
        return self.architecture.parameters()

    def forward(self, x: Tensor) -> Tensor:  # (batch, c_in, *sizes)
        """``(batch, c_out, *outs)``; the batch may be missing."""
        self._check(x)
        if x.dim() == len(self.axes) + 1:
            return self(x.unsqueeze(0)).squeeze(0)
        if self.architecture.frozen_at_start():
            return convolution(x, self.weight, self.bias, self.axes, self.groups)
        axes = [
            axis if axis.size == size else axis.resized(size) for axis, size in zip(self.axes, x.shape[2:], strict=True)
        ]
        order = self.order or "frequency"
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with full_precision(kind):  # small matrices are made in their own precision
            y = evaluate(order, self.terms(x.to(dtype), axes), recompute=self.recompute)
            return y if self.bias is None else y + self.bias.to(dtype).view(-1, *[1] * len(axes))

    def terms(self, x: Tensor, axes: Sequence[Axis]) -> Terms:
        """All that the output is computed from, in the precision of ``x``."""
        arch, dtype = self.architecture, x.dtype
        weight: Tensor = self.weight
        if arch.C is not None:
            weight = weight * arch.C.view(*arch.C.shape, *[1] * len(axes))
        bias = arch.bias()
        gates: Tensor | None = arch.C if bias is not None else None
        outer, filters, inner = ([matrix.to(dtype) for matrix in part] for part in arch.matrices(axes))
        bias, gates = (None if term is None else term.to(dtype) for term in (bias, gates))
        return Terms(x, weight.to(dtype), bias, gates, outer, filters, inner, self.groups)

    def extra_repr(self) -> str:
        """Channels, kernel, sizes and transforms."""
        kernel, sizes, transforms = zip(*[(axis.kernel, axis.size, axis.transform) for axis in self.axes], strict=True)
        told = f"kernel={kernel}, sizes={sizes}, transforms={transforms}, depth={self.architecture.depth}"
        return f"{self.in_channels}, {self.out_channels}, {told}, groups={self.groups}"

    def _check(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise ValueError(
                f"an XD-operation takes real floating-point inputs, not {x.dtype}: convert the input first"
            )
        axes = len(self.axes)
        if x.dim() not in (axes + 1, axes + 2) or x.shape[-1 - axes] != self.in_channels:
            raise ValueError(
                f"an input of shape {tuple(x.shape)} given; expected (batch, {self.in_channels}, "
                f"{', '.join(str(axis.size) for axis in self.axes)})"
            )


def _sizes(given: int | Sequence[int], axes: int) -> tuple[int, ...]:
    sizes = (given,) * axes if isinstance(given, int) else tuple(given)
    if len(sizes) != axes:
        raise ValueError(f"{len(sizes)} input sizes given for {axes} axes: {sizes}")
    return sizes
