"""From which weight and geometry an XD-operation starts that is a convolution or a transposed one."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from eclose.ops.conv_layers import Conv, padding_of
from eclose.ops.xd.axes.axis import Axis, Mode, plan_axis
from eclose.ops.xd.axes.transposed import plan_transposed, transposed_taps
from eclose.ops.xd.options import Options
from eclose.ops.xd.starts.start import Start, architecture_of, each

Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
FurtherTaps = list[tuple[int, int]]
"""Taps that come before and after those of the convolution, on every axis."""


def conv_start(
    conv: Conv, input_size: int | Sequence[int], max_kernel: int | None, causal: bool, options: Options
) -> Start:
    """A convolution with up to ``max_kernel`` taps; those of a causal one come from the past."""
    if not isinstance(conv, Conv):
        raise ValueError(f"only Conv1d, Conv2d and Conv3d start an XD-operation, not {type(conv).__name__}")
    ends = _grown(conv, max_kernel, causal)
    axes = _conv_axes(conv, input_size, ends, options)
    weight = _grown_weight(conv, ends)
    return Start(weight, axes, architecture_of(weight, axes, options), conv.bias, conv.groups, layer=conv)


def transposed_start(
    conv: Transposed, input_size: int | Sequence[int], max_kernel: int | None, options: Options
) -> Start:
    """A transposed convolution with up to ``max_kernel`` taps."""
    if not isinstance(conv, Transposed):
        raise ValueError(f"only ConvTranspose1d, 2d and 3d are transposed convolutions, not {type(conv).__name__}")
    ends = _grown(conv, max_kernel)
    axes = _transposed_axes(conv, input_size, ends, options)
    weight, layout = _grown_weight(conv, ends), partial(transposed_taps, groups=conv.groups)
    architecture = architecture_of(layout(weight), axes, options)
    return Start(weight, axes, architecture, conv.bias, conv.groups, layout, layer=conv)


def _conv_axes(conv: Conv, input_size: int | Sequence[int], ends: FurtherTaps, options: Options) -> list[Axis]:
    """The axes of a convolution; padding comes with further taps."""
    sizes = each(input_size, len(conv.kernel_size), "input sizes")
    return [_conv_axis(conv, place, size, *ends[place], options) for place, size in enumerate(sizes)]


def _conv_axis(conv: Conv, place: int, size: int, before: int, after: int, options: Options) -> Axis:
    kernel, dilation = conv.kernel_size[place], conv.dilation[place]
    padding = padding_of(conv, place)
    try:
        return plan_axis(
            size,
            kernel + before + after,
            stride=conv.stride[place],
            dilation=dilation,
            padding=(padding[0] + before * dilation, padding[1] + after * dilation),
            mode=_mode(conv.padding_mode),
            paper=options.paper,
            largest=options.largest,
        )
    except ValueError as error:
        if not before + after:
            raise
        raise ValueError(f"{kernel} taps cannot grow to {kernel + before + after}: {error}") from None


def _transposed_axes(
    conv: Transposed, input_size: int | Sequence[int], ends: FurtherTaps, options: Options
) -> list[Axis]:
    """The axes of a transposed convolution; what further taps add to the output is cut off."""
    axes: list[Axis] = []
    for place, size in enumerate(each(input_size, len(conv.kernel_size), "input sizes")):
        kernel, dilation, padding = conv.kernel_size[place], conv.dilation[place], conv.padding[place]
        assert isinstance(padding, int)
        before, after = ends[place]
        axes.append(
            plan_transposed(
                size,
                kernel + before + after,
                stride=conv.stride[place],
                dilation=dilation,
                cut=(padding + before * dilation, padding - conv.output_padding[place] + after * dilation),
                largest=options.factor,
            )
        )
    return axes


def _grown_weight(conv: Conv | Transposed, ends: FurtherTaps) -> Tensor:
    """The weight of the convolution itself; a new parameter, with zeros around, where the kernel grows."""
    if not any(before + after for before, after in ends):
        return conv.weight
    if not isinstance(conv.weight, nn.Parameter):
        raise ValueError("its weight is computed and cannot grow: leave out max_kernel")
    zeros = [end for both in reversed(ends) for end in both]
    return nn.Parameter(nn.functional.pad(conv.weight.detach(), zeros), requires_grad=conv.weight.requires_grad)


def _grown(conv: Conv | Transposed, max_kernel: int | None, causal: bool = False) -> FurtherTaps:
    """Taps up to ``max_kernel`` come on both sides; along the last axis of a causal operation, before the others."""
    if max_kernel is not None and max_kernel < 1:
        raise ValueError(f"a kernel cannot grow to {max_kernel} taps: max_kernel is at least 1")
    more = [max(0, (max_kernel or 0) - kernel) for kernel in conv.kernel_size]
    ends = [(taps // 2, taps - taps // 2) for taps in more]
    return [*ends[:-1], (more[-1], 0)] if causal else ends


def _mode(given: str) -> Mode:
    return given  # type: ignore[return-value]  # checked where the axis is planned
