"""From which layer a mixture starts: a convolution, a pooling, a skip."""

from torch import nn

from eclose.ops.conv_layers import Conv, padding_of
from eclose.ops.mixture.geometry import Window, window
from eclose.ops.mixture.operation import CONVOLUTIONS, OWN, Mixture

Pool = nn.MaxPool1d | nn.MaxPool2d | nn.MaxPool3d | nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d

_CONV: dict[int, type[Conv]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_MAX: dict[type[nn.Module], int] = {nn.MaxPool1d: 1, nn.MaxPool2d: 2, nn.MaxPool3d: 3}
_AVERAGE: dict[type[nn.Module], int] = {nn.AvgPool1d: 1, nn.AvgPool2d: 2, nn.AvgPool3d: 3}


def mixture_of_conv(conv: Conv, *, perturb: float = 0.1) -> Mixture:
    """Around a convolution, which stays one of the operations with its own weights.

    A convolution that is none of the usual ones (7 taps, say) is added to them.
    """
    if not isinstance(conv.weight, nn.Parameter) or not isinstance(conv.bias, nn.Parameter | None):
        raise ValueError("the weight of the convolution is computed, not a parameter: remove the parametrisation")
    axes = len(conv.kernel_size)
    windows = []
    for place, (taps, dilation, stride) in enumerate(zip(conv.kernel_size, conv.dilation, conv.stride, strict=True)):
        windows.append(window(taps, dilation, stride, padding_of(conv, place)))
    shape = {name: ((taps,) * axes, (dilation,) * axes) for name, (taps, dilation) in CONVOLUTIONS.items()}
    start = next((name for name, own in shape.items() if own == (conv.kernel_size, conv.dilation)), OWN)
    convolutions = _convolutions(
        axes,
        conv.in_channels,
        conv.out_channels,
        groups=conv.groups,
        bias=conv.bias is not None,
        padding_mode=conv.padding_mode,
        device=conv.weight.device,
        dtype=conv.weight.dtype,
    )
    return Mixture(windows, {**convolutions, start: conv}, start, perturb=perturb)


def mixture_of_pool(pool: Pool, channels: int, *, perturb: float = 0.1) -> Mixture:
    """Around a pooling; it starts as the pooling of three points of the same kind and stride."""
    axes = {**_MAX, **_AVERAGE}[type(pool)]
    if pool.ceil_mode:
        raise ValueError("it rounds its size up (ceil_mode), which the other operations do not")
    if getattr(pool, "return_indices", False):
        raise ValueError("it returns indices, which the other operations do not have")
    if getattr(pool, "divisor_override", None) or getattr(pool, "dilation", 1) not in (1, (1,) * axes):
        raise ValueError("it has a divisor or a dilation of its own, which pooling of three points does not")
    windows = []
    for place in range(axes):
        taps, stride, padding, dilation = (
            each if isinstance(each, int) else tuple(each)[place]
            for each in (pool.kernel_size, pool.stride, pool.padding, getattr(pool, "dilation", 1))
        )
        windows.append(window(taps, dilation, stride, (padding, padding)))
    start = "max_pool3" if type(pool) in _MAX else "average_pool3"
    return Mixture(windows, _convolutions(axes, channels, channels, bias=False), start, perturb=perturb)


def mixture_of_skip(channels: tuple[int, int], axes: int, stride: int = 1, *, perturb: float = 0.1) -> Mixture:
    """Around a skip from ``channels[0]`` to ``channels[1]`` channels that keeps every ``stride``-th point."""
    windows = [Window(stride, 0, -1)] * axes
    return Mixture(windows, _convolutions(axes, *channels, bias=False), "identity", perturb=perturb)


def _convolutions(axes: int, c_in: int, c_out: int, **options: object) -> dict[str, Conv]:
    return {
        name: _CONV[axes](c_in, c_out, taps, dilation=dilation, **options)  # type: ignore[arg-type]
        for name, (taps, dilation) in CONVOLUTIONS.items()
    }
