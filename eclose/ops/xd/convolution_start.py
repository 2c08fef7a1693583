"""From which weight and geometry an XD-operation starts that is a convolution or a transposed one."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from eclose.ops.padding import padding_of
from eclose.ops.xd.geometry import Axis, Mode, plan_axis
from eclose.ops.xd.options import Options
from eclose.ops.xd.start import Start, architecture_of, each
from eclose.ops.xd.transposed import plan_transposed, transposed_taps

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


def conv_start(conv: Conv, input_size: int | Sequence[int], max_kernel: int | None, options: Options) -> Start:
    """A convolution with up to ``max_kernel`` taps."""
    if not isinstance(conv, Conv):
        raise ValueError(f"only Conv1d, Conv2d and Conv3d start an XD-operation, not {type(conv).__name__}")
    axes = _conv_axes(conv, input_size, max_kernel, options)
    weight = _grown_weight(conv, max_kernel)
    return Start(weight, axes, architecture_of(weight, axes, options), conv.bias, conv.groups, layer=conv)


def transposed_start(
    conv: Transposed, input_size: int | Sequence[int], max_kernel: int | None, options: Options
) -> Start:
    """A transposed convolution with up to ``max_kernel`` taps."""
    if not isinstance(conv, Transposed):
        raise ValueError(f"only ConvTranspose1d, 2d and 3d are transposed convolutions, not {type(conv).__name__}")
    axes = _transposed_axes(conv, input_size, max_kernel, options)
    weight, layout = _grown_weight(conv, max_kernel), partial(transposed_taps, groups=conv.groups)
    architecture = architecture_of(layout(weight), axes, options)
    return Start(weight, axes, architecture, conv.bias, conv.groups, layout, layer=conv)


def _conv_axes(conv: Conv, input_size: int | Sequence[int], max_kernel: int | None, options: Options) -> list[Axis]:
    """The axes of a convolution; taps up to ``max_kernel`` come on both sides, and padding with them."""
    axes = []
    for place, size in enumerate(each(input_size, len(conv.kernel_size), "input sizes")):
        kernel, dilation = conv.kernel_size[place], conv.dilation[place]
        padding = padding_of(conv, place)
        before, after = _grown(kernel, max_kernel)
        axes.append(
            plan_axis(
                size,
                kernel + before + after,
                stride=conv.stride[place],
                dilation=dilation,
                padding=(padding[0] + before * dilation, padding[1] + after * dilation),
                mode=_mode(conv.padding_mode),
                paper=options.paper,
                largest=options.largest,
            )
        )
    return axes


def _transposed_axes(
    conv: Transposed, input_size: int | Sequence[int], max_kernel: int | None, options: Options
) -> list[Axis]:
    """The axes of a transposed convolution; taps up to ``max_kernel`` come on both sides, and are cut off there."""
    axes: list[Axis] = []
    for place, size in enumerate(each(input_size, len(conv.kernel_size), "input sizes")):
        kernel, dilation, padding = conv.kernel_size[place], conv.dilation[place], conv.padding[place]
        assert isinstance(padding, int)
        before, after = _grown(kernel, max_kernel)
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


def _grown_weight(conv: Conv | Transposed, max_kernel: int | None) -> Tensor:
    """The weight of the convolution itself; a new parameter, with zeros around, where the kernel grows."""
    ends = [end for kernel in reversed(conv.kernel_size) for end in _grown(kernel, max_kernel)]
    if not any(ends):
        return conv.weight
    if not isinstance(conv.weight, nn.Parameter):
        raise ValueError(f"its weight is computed and cannot grow to {max_kernel} taps: leave out max_kernel")
    return nn.Parameter(nn.functional.pad(conv.weight.detach(), ends), requires_grad=conv.weight.requires_grad)


def _grown(kernel: int, max_kernel: int | None) -> tuple[int, int]:
    if max_kernel is not None and max_kernel < 1:
        raise ValueError(f"a kernel cannot grow to {max_kernel} taps: max_kernel is at least 1")
    more = 0 if max_kernel is None else max(0, max_kernel - kernel)
    return more // 2, more - more // 2


def _mode(given: str) -> Mode:
    return given  # type: ignore[return-value]  # checked where the axis is planned
