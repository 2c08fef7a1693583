"""XD-operations (Roberts et al. 2021, Definition 3.2): convolutions whose Fourier transforms are trained."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from eclose.ops.conv_layers import Conv
from eclose.ops.kernels import traced
from eclose.ops.precision import full_precision
from eclose.ops.xd.architecture import Architecture
from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.evaluation import ORDERS, evaluate, orders_of
from eclose.ops.xd.evaluation.batching import Maker, give, passing
from eclose.ops.xd.evaluation.inputs import Terms
from eclose.ops.xd.evaluation.merged.order import Merged
from eclose.ops.xd.evaluation.planner import plan
from eclose.ops.xd.evaluation.prepare import GatedTaps, Prepared
from eclose.ops.xd.gates import gated_bias
from eclose.ops.xd.options import Options
from eclose.ops.xd.starts.computed_weights import adopt, as_parameter
from eclose.ops.xd.starts.convolution import Transposed, conv_start, transposed_start
from eclose.ops.xd.starts.fourier import fno_start
from eclose.ops.xd.starts.graph import graph_start
from eclose.ops.xd.starts.plain_layer import plain_layer, untrained
from eclose.ops.xd.starts.pooling import Pool, pool_start, skip_start
from eclose.ops.xd.starts.start import Layout, Start


class XD(nn.Module):
    """``y_i = sum_j Real(K diag(C_ij (L w_ij + b)) M x_j) + bias_i``, on 1, 2 or 3 axes.

    K, L and M are Kronecker products of one Kaleidoscope matrix an axis, shared by all channels; b is a complex
    number for every frequency (in natural order), C a gate, real or complex, for every pair of channels. They are the
    ``architecture``; ``weight`` and ``bias`` are those of the operation that this one starts as, and ``layout`` takes
    the weight from there to ``(c_out, c_in / groups, *kernels)``. ``tap``: what all taps of the start are where the
    weight does not count yet.

    ``order`` names an order of evaluation; without it the cheapest one for the shapes at hand is taken. With
    ``recompute`` only the input, and a small spectrum, is kept for the backward pass. ``causal``: along the last axis
    no output sees farther ahead than the last tap of the start, whatever the architecture becomes. ``path`` is where
    the operation stands in a network, for messages.
    """

    def __init__(
        self,
        weight: nn.Parameter,
        axes: Sequence[Axis],
        architecture: Architecture,
        *,
        bias: nn.Parameter | None = None,  # (c_out,)
        groups: int = 1,
        layout: Layout | None = None,
        tap: float | None = None,
        causal: bool = False,
        order: str | None = None,
        recompute: bool = True,
    ) -> None:
        super().__init__()
        usable = orders_of(axes, causal=causal)
        if order is not None and order not in usable:
            kind = " of a causal operation" if causal else " of this operation" if order in ("merged", "flat") else ""
            raise ValueError(f"{order!r} is no order of evaluation{kind}; there are {', '.join(usable)}")
        if causal and axes[-1].mode != "zeros":
            raise ValueError(f"causal operations pad with zeros; {axes[-1].mode} padding shows the future")
        self.axes, self.groups, self.order, self.recompute, self.causal = tuple(axes), groups, order, recompute, causal
        self.weight, self.bias, self.layout, self.tap = weight, bias, layout, tap
        self.out_channels, inputs = self.taps().shape[:2]
        self.in_channels = inputs * groups
        self.architecture = architecture.to(weight.device)
        self.traced_orders = {kind: self._plan(16, axes, kind) for kind in ("cpu", "cuda")}
        self.path = ""

    @classmethod
    def from_conv(
        cls,
        conv: Conv,
        input_size: int | Sequence[int],
        *,
        max_kernel: int | None = None,
        causal: bool = False,
        **options: Any,
    ) -> "XD":
        """The same function as ``conv`` on inputs of ``input_size`` (one number, or one for every axis).

        ``weight`` and ``bias`` are the parameters of ``conv`` themselves, or computed from them as there (weight
        norm); with ``max_kernel`` the weight is a copy with zeros on both sides, up to so many taps; that of a
        ``causal`` operation grows into the past. ``options``, here and below, are :class:`Options`.
        """
        told = Options(**options)
        return cls._from(conv_start(conv, input_size, max_kernel, causal, told), told, causal=causal)

    @classmethod
    def from_transposed(
        cls, conv: Transposed, input_size: int | Sequence[int], *, max_kernel: int | None = None, **options: Any
    ) -> "XD":
        """The same function as a transposed convolution, in all else as :meth:`from_conv`."""
        return cls._from(transposed_start(conv, input_size, max_kernel, told := Options(**options)), told)

    @classmethod
    def from_fno(cls, weight: nn.Parameter, input_size: int | Sequence[int], **options: Any) -> "XD":
        """The same function as a layer of the Fourier neural operator, ``irfft(weight * rfft(x))``.

        ``weight`` is ``(c_in, c_out, *kept, 2)``, pairs for the lowest frequencies: those from 0 and then those below
        0 of every axis, but only the former of the last one. Transforms have the size of the input.
        """
        return cls._from(fno_start(weight, input_size, told := Options(**options)), told)

    @classmethod
    def from_graph(cls, conv: nn.Conv1d, matrix: Tensor, **options: Any) -> "XD":  # (nodes, nodes)
        """The graph convolution ``conv(x G^T)`` with a ``conv`` of one tap; G is fixed at the start, then it moves.

        M has at least 6 blocks; the transform has the size of the graph, or its number of edges where that is larger.
        """
        return cls._from(graph_start(conv, matrix, told := Options(**options)), told)

    @classmethod
    def from_avg_pool(
        cls,
        pool: Pool,
        channels: int,
        input_size: int | Sequence[int],
        *,
        dtype: torch.dtype | None = None,
        fixed: bool = False,
        **options: Any,
    ) -> "XD":
        """The same function as an average pooling of ``channels``: L = 0, b the transform of the pooling kernel.

        Each channel sees itself alone (groups), and has a weight of the kernel's size that counts once L does.
        ``fixed`` windows belong to this size of input; others are refused.
        """
        told = Options(**options)
        return cls._from(pool_start(pool, channels, input_size, dtype, told, fixed=fixed), told)

    @classmethod
    def from_identity(
        cls,
        channels: int,
        input_size: Sequence[int],
        *,
        stride: int = 1,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> "XD":
        """A skip: every ``stride``-th point of every channel, times ``scale``; zero with ``scale=0``."""
        return cls._from(skip_start(channels, input_size, stride, scale, dtype, told := Options(**options)), told)

    @classmethod
    def _from(cls, start: Start, told: Options, *, causal: bool = False) -> "XD":
        operation = cls(
            as_parameter(start.weight),
            start.axes,
            start.architecture,
            bias=None if start.bias is None else as_parameter(start.bias),
            groups=start.groups,
            layout=start.layout,
            tap=start.tap,
            causal=causal,
            order=told.order,
            recompute=told.recompute,
        )
        return operation if start.layer is None else adopt(operation, start.layer)

    def arch_parameters(self) -> Iterator[nn.Parameter]:
        """Entries of K, L and M, and b and C: not the weights."""
        return self.architecture.parameters()

    def share(self, architecture: Architecture) -> None:
        """Have the K, L and M of another operation: one operation for several layers, each with weights of its own.

        A layer with a smaller input uses those rows and columns of them that it needs.
        """
        if len(architecture.axes) != len(self.axes) or self.architecture.C is not None:
            raise ValueError("operations that are shared have equally many axes, and no gates")
        transforms = [axis.transform for axis in architecture.axes]
        axes = tuple(replace(axis, transform=n) for axis, n in zip(self.axes, transforms, strict=True))
        if not all(axis.fits for axis in axes):
            needed = tuple(axis.needed for axis in self.axes)
            raise ValueError(f"transforms of size {tuple(transforms)} are too small for a layer that needs {needed}")
        self.axes, self.architecture = axes, architecture
        self.traced_orders = {kind: self._plan(16, axes, kind) for kind in ("cpu", "cuda")}

    def taps(self) -> Tensor:
        """The weight, ``(c_out, c_in / groups, *kernels)``."""
        return self.weight if self.layout is None else self.layout(self.weight)

    def forward(self, x: Tensor) -> Tensor:  # (batch, c_in, *sizes)
        """``(batch, c_out, *outs)``; the batch may be missing."""
        self._check(x)
        if x.dim() == len(self.axes) + 1:
            return self.forward(x.unsqueeze(0)).squeeze(0)  # not twice through hooks
        axes = self._axes_for(x.shape[2:])
        if not traced() and not len(x):  # nothing to transform, and gradients of zero
            y = plain_layer(x, self._seen(self.weight), self.bias, axes, self.groups)
            return y + sum(0 * parameter.sum() for parameter in self.arch_parameters())
        if self.architecture.frozen_at_start():
            return plain_layer(x, self._seen(self.weight), self.bias, axes, self.groups)
        if not all(axis.fits for axis in axes):
            return self._unfitting(x, axes)
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        with full_precision(kind):  # small matrices are made in their own precision
            # Spectra of usual signals are beyond the range of float16.
            inner = torch.float32 if dtype == torch.float16 else dtype
            y = self._evaluated(x.to(inner), axes, self.order or self.planned(x, axes)).to(dtype)
            if self.bias is None:
                return y
            # One for every sample: its derivative is summed up along rows first, which is several times as fast.
            return y + self.bias.to(dtype).view(-1, *[1] * len(axes)).expand(y.shape[0], -1, *[-1] * len(axes))

    def _evaluated(self, x: Tensor, axes: Sequence[Axis], order: str) -> Tensor:
        if order == "merged":
            entries, geometry = self.architecture.prepared_merged(axes[0])
            return evaluate(Merged(geometry), self.terms(x, axes, entries), recompute=self.recompute)
        terms = self.terms(x, axes, self.architecture.prepared(order, axes))
        if order == "flat":
            y = evaluate(ORDERS["frequency"], terms, recompute=self.recompute)
            return y.unflatten(2, [axis.out for axis in axes])
        return evaluate(ORDERS[order], terms, recompute=self.recompute)

    def terms(self, x: Tensor, axes: Sequence[Axis], prepared: Prepared) -> Terms:
        """All that the output is computed from."""
        arch, dtype = self.architecture, x.dtype
        joint = prepared.filters[0].shape[-1] if prepared.joint else 0
        weight = self._gated(GatedTaps(axes[-1].pairs, joint, arch.b is not None))
        bias = gates = None
        if prepared.joint:
            x = x.flatten(2)
        elif (spectrum := arch.bias()) is not None:
            bias, gates = gated_bias(spectrum, None if arch.C is None else arch.C.to(dtype))
        mask = axes[-1].causal(x.device).to(dtype) if self.causal else None
        matrices = (prepared.outer, prepared.filters, prepared.inner, prepared.shifts)
        return Terms(x, weight.to(dtype), bias, gates, *matrices, self.groups, mask)

    def _gated(self, form: GatedTaps) -> Tensor:
        gates = self.architecture.C
        if self.moving or (gates is None and form.joint in (0, math.prod(self.weight.shape[2:]))):
            return form.of(self.taps(), gates)
        taps: Tensor = give(self, form, keep=False)
        return taps

    @property
    def moving(self) -> bool:
        """Whether the weight is computed, or a hook may write to it: it counts as it is when it is used."""
        return "weight" not in self._parameters or len(self._forward_pre_hooks) > 0

    @classmethod
    def one_pass(cls, operations: Sequence["XD"]) -> AbstractContextManager[None]:
        """See ``train/module_hooks.py``: operations alike make all that they need of their parameters at once."""
        return passing(makers_alike(operations))

    def likeness(self) -> Hashable:
        """Operations that are equal in this need the same of their parameters for inputs of one shape."""
        architecture = self.architecture
        entries = architecture.entries()
        tensors = [*entries, architecture.C, self._parameters.get("weight")]
        trained = [None if tensor is None else (tensor.requires_grad, tensor.dtype) for tensor in tensors]
        shape = (self.axes, self.in_channels, self.out_channels, self.groups, self.causal, self.order)
        return architecture.geometry, shape, architecture.gates, entries[0].device, *trained

    def made(self, makers: Sequence["XD"], wish: Any) -> list[Tensor]:
        """Weights with their gates, as the form that is wished for has them, of operations like this one."""
        gates: list[Tensor] = [maker.architecture.C for maker in makers if maker.architecture.C is not None]
        taps = [maker.taps() for maker in makers]
        if len(makers) == 1:
            return [wish.of(taps[0], *gates)]
        return [*wish.of(torch.cat(taps), torch.cat(gates) if gates else None).chunk(len(makers))]

    def entries(self) -> list[Tensor]:
        """The weight, and C."""
        return [self.weight] if self.architecture.C is None else [self.weight, self.architecture.C]

    def planned(self, x: Tensor, axes: Sequence[Axis]) -> str:
        """The order of evaluation that is cheapest for an input."""
        kind = x.device.type
        if traced():  # a traced program serves every batch, and the planner cannot be traced
            return self.traced_orders.get(kind, self.traced_orders["cuda"])
        return self._plan(len(x), axes, kind)

    def _plan(self, batch: int, axes: Sequence[Axis], kind: str) -> str:
        bias, gates = self.architecture.b is not None, self.architecture.gates
        shape = (batch, self.in_channels, self.out_channels, self.groups)
        depth = self.architecture.depth
        return plan(*shape, tuple(axes), kind, bias=bias, gates=gates, causal=self.causal, depth=depth)

    def extra_repr(self) -> str:
        """Channels, kernel, sizes and transforms."""
        kernel, sizes, transforms = zip(*[(axis.kernel, axis.size, axis.transform) for axis in self.axes], strict=True)
        told = f"kernel={kernel}, sizes={sizes}, transforms={transforms}, depth={self.architecture.depth}"
        gates = ", gates=complex" if self.architecture.complex_gates else ""
        return f"{self.in_channels}, {self.out_channels}, {told}, groups={self.groups}{gates}"

    def _axes_for(self, sizes: Sequence[int]) -> tuple[Axis, ...]:
        pairs = zip(self.axes, sizes, strict=True)
        try:
            return tuple(axis if axis.size == size else axis.at(size) for axis, size in pairs)
        except ValueError as error:
            raise ValueError(self._told(str(error))) from None

    def _unfitting(self, x: Tensor, axes: Sequence[Axis]) -> Tensor:
        """The plain convolution, which has any size, while the operation still is one."""
        planned, size = next((p, axis.size) for p, axis in zip(self.axes, axes, strict=True) if not axis.fits)
        reason = self._told(planned.misfit(size))
        if not self.architecture.at_start():
            raise ValueError(f"{reason}: build the operation for size {size}")
        y = plain_layer(x, self._seen(self.weight), self.bias, axes, self.groups)
        reason = f"{reason}: its architecture cannot learn from it; freeze it, or build the operation for size {size}"
        return untrained(y, self.arch_parameters(), reason)

    def _told(self, text: str) -> str:
        return f"{self.path}: {text}" if self.path else text

    def _seen(self, weight: Tensor) -> Tensor:
        """The weight of the plain convolution: ``tap`` everywhere where the weight does not count yet."""
        # Every process of several has a gradient of the weight, though it is zero.
        return weight if self.tap is None else self.tap + 0 * weight

    def _check(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise ValueError(
                self._told(f"an XD-operation takes real floating-point inputs, not {x.dtype}: convert the input first")
            )
        axes = len(self.axes)
        if x.dim() not in (axes + 1, axes + 2) or x.shape[-1 - axes] != self.in_channels:
            expected = f"(batch, {self.in_channels}, {', '.join(str(axis.size) for axis in self.axes)})"
            raise ValueError(self._told(f"an input of shape {tuple(x.shape)} given; expected {expected}"))


def makers_alike(operations: Iterable[XD]) -> list[list[Maker]]:
    """Groups of architectures, which make matrices, and of operations, which make weights with their gates."""
    alike: dict[Hashable, list[XD]] = defaultdict(list)
    for operation in operations:
        alike[operation.likeness()].append(operation)
    matrices: list[list[Maker]] = [[*dict.fromkeys(one.architecture for one in group)] for group in alike.values()]
    weights: list[list[Maker]] = [[one for one in group if not one.moving] for group in alike.values()]
    return matrices + weights
