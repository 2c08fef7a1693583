"""XD-operations (Roberts et al. 2021, Definition 3.2): convolutions whose Fourier transforms are trained."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from eclose.ops.kaleidoscope.sizes import LARGEST, stages
from eclose.ops.precision import full_precision
from eclose.ops.xd.architecture import Architecture, Matrices
from eclose.ops.xd.convolution import convolution, untrained
from eclose.ops.xd.geometry import Axis, plan_axis
from eclose.ops.xd.merged import merged
from eclose.ops.xd.orders import evaluate, orders_of
from eclose.ops.xd.planner import plan
from eclose.ops.xd.starts import Conv, Pool, conv_axes, grown_weight, pool_axes, response_of, tap_value
from eclose.ops.xd.terms import Terms

POOLS = {nn.AvgPool1d: 1, nn.AvgPool2d: 2, nn.AvgPool3d: 3}


class XD(nn.Module):
    """``y_i = sum_j Real(K diag(C_ij (L w_ij + b)) M x_j) + bias_i``, on 1, 2 or 3 axes.

    K, L and M are Kronecker products of one Kaleidoscope matrix an axis, shared by all channels; b is a complex
    number for every frequency (in natural order), C a real gate for every pair of channels. They are the
    ``architecture``; ``weight`` and ``bias`` are those of the operation that this one starts as.

    ``order`` names an order of evaluation; without it the cheapest one for the shapes at hand is taken. With
    ``recompute`` only the input is kept for the backward pass. ``causal``: output p of the last axis sees
    inputs up to p (p s with stride s) only, whatever the architecture becomes. ``path`` is where the operation stands
    in a network, for messages.
    """

    def __init__(
        self,
        weight: nn.Parameter,  # (c_out, c_in / groups, *kernels)
        axes: Sequence[Axis],
        architecture: Architecture,
        *,
        bias: nn.Parameter | None = None,  # (c_out,)
        groups: int = 1,
        causal: bool = False,
        order: str | None = None,
        recompute: bool = True,
    ) -> None:
        super().__init__()
        usable = orders_of(len(axes), causal=causal)
        if order is not None and order not in usable:
            kind = " of a causal operation" if causal else " on several axes" if order == "merged" else ""
            raise ValueError(f"{order!r} is no order of evaluation{kind}; there are {', '.join(usable)}")
        if causal and axes[-1].mode != "zeros":
            raise ValueError(f"causal operations pad with zeros; {axes[-1].mode} padding shows the future")
        self.axes, self.groups, self.order, self.recompute, self.causal = tuple(axes), groups, order, recompute, causal
        self.in_channels, self.out_channels = weight.shape[1] * groups, weight.shape[0]
        self.weight, self.bias = weight, bias
        self.architecture = architecture.to(weight.device)
        self.path = ""

    @classmethod
    def from_conv(
        cls,
        conv: Conv,
        input_size: int | Sequence[int],
        *,
        depth: tuple[int, int, int] = (1, 1, 1),
        bias: bool = True,
        gates: bool = True,
        causal: bool = False,
        max_kernel: int | None = None,
        paper: bool = False,
        largest: int = LARGEST,
        fewest: bool = False,
        order: str | None = None,
        recompute: bool = True,
    ) -> "XD":
        """The same function as ``conv`` on inputs of ``input_size`` (one number, or one for every axis).

        ``weight`` and ``bias`` are the parameters of ``conv`` themselves; with ``max_kernel`` the weight is a copy
        with zeros on both sides, up to so many taps. ``bias`` and ``gates`` say whether there are b and C.
        Transforms have no prime factor above ``largest``, and a stage for every prime factor, or as few as possible
        with ``fewest``; with ``paper`` their sizes are powers of two. ``causal`` leaves out taps that see the future.
        """
        if not isinstance(conv, Conv):
            raise ValueError(f"only Conv1d, Conv2d and Conv3d start an XD-operation, not {type(conv).__name__}")
        if not isinstance(conv.weight, nn.Parameter) or not isinstance(conv.bias, nn.Parameter | None):
            raise ValueError("the weight of the convolution is computed, not a parameter: remove the parametrisation")
        axes = conv_axes(conv, input_size, max_kernel=max_kernel, paper=paper, largest=largest)
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
            grown_weight(conv, max_kernel),
            axes,
            architecture,
            bias=conv.bias,
            groups=conv.groups,
            causal=causal,
            order=order,
            recompute=recompute,
        )

    @classmethod
    def from_avg_pool(
        cls,
        pool: Pool,
        channels: int,
        input_size: int | Sequence[int],
        *,
        depth: tuple[int, int, int] = (1, 1, 1),
        gates: bool = True,
        paper: bool = False,
        largest: int = LARGEST,
        order: str | None = None,
    ) -> "XD":
        """The same function as an average pooling of ``channels``: L = 0, b the transform of the pooling kernel.

        Each channel sees itself alone (groups), and has a weight of the kernel's size that counts once L does.
        """
        if type(pool) not in POOLS:
            raise ValueError(f"only AvgPool1d, AvgPool2d and AvgPool3d are average pooling, not {type(pool).__name__}")
        axes = pool_axes(pool, input_size, axes=POOLS[type(pool)], paper=paper, largest=largest)
        return cls._from_response(channels, axes, tap_value(pool, axes), depth, gates, largest, order)

    @classmethod
    def from_identity(
        cls,
        channels: int,
        input_size: Sequence[int],
        *,
        stride: int = 1,
        scale: float = 1.0,
        depth: tuple[int, int, int] = (1, 1, 1),
        gates: bool = True,
        paper: bool = False,
        largest: int = LARGEST,
        order: str | None = None,
    ) -> "XD":
        """A skip: every ``stride``-th point of every channel, times ``scale``; zero with ``scale=0``."""
        axes = [plan_axis(size, 1, stride=stride, paper=paper, largest=largest) for size in input_size]
        return cls._from_response(channels, axes, scale, depth, gates, largest, order)

    @classmethod
    def _from_response(
        cls,
        channels: int,
        axes: Sequence[Axis],
        value: float,
        depth: tuple[int, int, int],
        gates: bool,
        largest: int,
        order: str | None,
    ) -> "XD":
        weight = torch.empty(channels, 1, *[axis.kernel for axis in axes])
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5))  # as torch's convolutions
        architecture = Architecture(
            axes,
            (channels, 1),
            [stages(axis.transform, largest) for axis in axes],
            depth=depth,
            gates=gates,
            response=response_of(axes, value),
            dtype=torch.promote_types(weight.dtype, torch.float32),
        )
        return cls(nn.Parameter(weight), axes, architecture, groups=channels, order=order)

    def arch_parameters(self) -> Iterator[nn.Parameter]:
        """Entries of K, L and M, and b and C: not the weights."""
        return self.architecture.parameters()

    def forward(self, x: Tensor) -> Tensor:  # (batch, c_in, *sizes)
        """``(batch, c_out, *outs)``; the batch may be missing."""
        self._check(x)
        if x.dim() == len(self.axes) + 1:
            return self(x.unsqueeze(0)).squeeze(0)
        axes = self._axes_for(x.shape[2:])
        if self.architecture.frozen_at_start():
            return convolution(x, self._seen(self.weight), self.bias, axes, self.groups)
        if not all(axis.fits for axis in axes):
            return self._unfitting(x, axes)
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with full_precision(kind):  # small matrices are made in their own precision
            order = self.order or self.planned(x, axes)
            if order == "merged":
                entries, form = self.architecture.merged_form(axes[0])
                y = merged(self.terms(x.to(dtype), axes, entries), form, recompute=self.recompute)
            else:
                y = evaluate(order, self.terms(x.to(dtype), axes), recompute=self.recompute)
            return y if self.bias is None else y + self.bias.to(dtype).view(-1, *[1] * len(axes))

    def terms(self, x: Tensor, axes: Sequence[Axis], entries: Matrices | None = None) -> Terms:
        """All that the output is computed from, in the precision of ``x``; with ``entries`` in place of matrices."""
        arch, dtype = self.architecture, x.dtype
        weight: Tensor = self.weight
        if arch.C is not None:
            weight = weight * arch.C.view(*arch.C.shape, *[1] * len(axes))
        bias = arch.bias()
        gates: Tensor | None = arch.C if bias is not None else None
        outer, filters, inner = entries or ([m.to(dtype) for m in part] for part in arch.matrices(axes))
        bias, gates = (None if term is None else term.to(dtype) for term in (bias, gates))
        mask = axes[-1].causal(x.device).to(dtype) if self.causal else None
        return Terms(x, weight.to(dtype), bias, gates, outer, filters, inner, self.groups, mask)

    def planned(self, x: Tensor, axes: Sequence[Axis]) -> str:
        """The order of evaluation that is cheapest for an input."""
        bias = self.architecture.b is not None
        # A traced program serves every batch, so its order must not depend on this one.
        batch = 16 if torch.compiler.is_compiling() else len(x)
        shape = (batch, self.in_channels, self.out_channels, self.groups)
        return plan(*shape, axes, x.device.type, bias=bias, causal=self.causal)

    def extra_repr(self) -> str:
        """Channels, kernel, sizes and transforms."""
        kernel, sizes, transforms = zip(*[(axis.kernel, axis.size, axis.transform) for axis in self.axes], strict=True)
        told = f"kernel={kernel}, sizes={sizes}, transforms={transforms}, depth={self.architecture.depth}"
        return f"{self.in_channels}, {self.out_channels}, {told}, groups={self.groups}"

    def _axes_for(self, sizes: Sequence[int]) -> list[Axis]:
        pairs = zip(self.axes, sizes, strict=True)
        try:
            return [axis if axis.size == size else axis.at(size) for axis, size in pairs]
        except ValueError as error:
            raise ValueError(self._told(str(error))) from None

    def _unfitting(self, x: Tensor, axes: Sequence[Axis]) -> Tensor:
        """The plain convolution, which has any size, while the operation still is one."""
        planned, size = next((p, axis.size) for p, axis in zip(self.axes, axes, strict=True) if not axis.fits)
        reason = self._told(planned.misfit(size))
        if not self.architecture.at_start():
            raise ValueError(f"{reason}: build the operation for size {size}")
        y = convolution(x, self._seen(self.weight), self.bias, axes, self.groups)
        reason = f"{reason}: its architecture cannot learn from it; freeze it, or build the operation for size {size}"
        return untrained(y, self.arch_parameters(), reason)

    def _told(self, text: str) -> str:
        return f"{self.path}: {text}" if self.path else text

    def _seen(self, weight: Tensor) -> Tensor:
        """The weight without the taps that a causal operation masks."""
        axis = self.axes[-1]
        past = axis.left // axis.dilation + 1
        if not self.causal or past >= axis.kernel:
            return weight
        return nn.functional.pad(weight[..., :past], (0, axis.kernel - past))

    def _check(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise ValueError(
                self._told(f"an XD-operation takes real floating-point inputs, not {x.dtype}: convert the input first")
            )
        axes = len(self.axes)
        if x.dim() not in (axes + 1, axes + 2) or x.shape[-1 - axes] != self.in_channels:
            expected = f"(batch, {self.in_channels}, {', '.join(str(axis.size) for axis in self.axes)})"
            raise ValueError(self._told(f"an input of shape {tuple(x.shape)} given; expected {expected}"))
