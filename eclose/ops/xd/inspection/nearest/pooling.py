"""The nearest skip and average pooling: what the part of an operation without weights does."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from eclose.ops.xd.axes.axis import Axis
from eclose.ops.xd.inspection.linear_map import LinearMap
from eclose.ops.xd.inspection.nearest.convolution import TIE
from eclose.ops.xd.inspection.nearest.named_operation import Named, spoken
from eclose.ops.xd.inspection.nearest.reading import Reading, reading

Window = tuple[int, int]  # its first place and its number of places


def pooling(linear_map: LinearMap) -> list[Named]:
    """The skip, and the window of any size at any place, with a scale, that comes nearest if that is another one."""
    if not linear_map.free:
        return []
    last = len(linear_map.axes) - 1
    # Pooling pads with zeros; round a circle it need not pad.
    axes = [axis if axis.mode == "circular" else replace(axis, mode="zeros") for axis in linear_map.axes]
    looks = [reading(axis, causal=linear_map.causal and place == last) for place, axis in enumerate(axes)]
    kernel = _mean_kernel(linear_map, looks)
    skip = [(0, 1)] * len(looks)
    best = _best(kernel, looks)
    return [_named(linear_map, kernel, looks, windows) for windows in ([skip] if best == skip else [skip, best])]


def _named(linear_map: LinearMap, kernel: Tensor, looks: Sequence[Reading], windows: Sequence[Window]) -> Named:
    square = 1.0
    for place, (look, window) in enumerate(zip(looks, windows, strict=True)):
        columns = _columns(look, window)
        kernel = kernel.index_select(place, columns)
        square *= look.counts[columns].sum().item()
    product = kernel.sum().item()
    sizes, firsts = [size for _, size in windows], [first for first, _ in windows]
    # The distance of the free part to product / square times the window.
    free = math.sqrt(max(0.0, linear_map.free**2 - product**2 / square)) if square else linear_map.free
    scale = math.prod(sizes) * product / square if square else 0.0
    if math.prod(sizes) == 1:
        told = f"shifted by {spoken(firsts)}" if any(firsts) else ""
        return Named("skip", told, {"shift": tuple(firsts), "scale": scale}, linear_map.residual(free=free))
    parameters = {"kernel": tuple(sizes), "padding": tuple(-first for first in firsts), "scale": scale}
    return Named("average pooling", f"of size {spoken(sizes)}", parameters, linear_map.residual(free=free))


def _mean_kernel(linear_map: LinearMap, looks: Sequence[Reading]) -> Tensor:
    """``(*places)``: inner products of the free part with every shift of the signal."""
    assert linear_map.bias is not None
    kernel = linear_map.bias
    for axis, look, outer, inner in zip(linear_map.axes, looks, linear_map.outer, linear_map.inner, strict=True):
        kernel = torch.tensordot(kernel, _correlations(axis, look, outer, inner), dims=([0], [0]))  # axes rotate
    return kernel.real


def _correlations(axis: Axis, look: Reading, outer: Tensor, inner: Tensor) -> Tensor:
    """``(n, places)``: ``sum_p K[p, f] M[f, p s + r]`` for every place r, by fast transforms."""
    starts, places = axis.stride * torch.arange(axis.out), look.sources.shape[1]
    length = look.period or axis.size + places + int(starts[-1])  # long enough for nothing to wrap round
    spread = torch.zeros(length, len(inner), dtype=outer.dtype).index_add_(0, starts % length, outer)
    spectrum = torch.fft.fft(inner, length, dim=1) * torch.fft.fft(spread.conj(), dim=0).mH
    return torch.fft.ifft(spectrum, dim=1)[:, (look.first + torch.arange(places)) % length]


def _best(kernel: Tensor, looks: Sequence[Reading]) -> list[Window]:
    """Windows that hold most energy: from the largest single place on, axis by axis until nothing changes."""
    highest = torch.unravel_index(kernel.abs().argmax(), kernel.shape)
    windows = [(int(place) + look.first, 1) for place, look in zip(highest, looks, strict=True)]
    for _ in range(10):
        before = list(windows)
        for axis, look in enumerate(looks):
            line = kernel
            for place, (other, window) in enumerate(zip(looks, windows, strict=True)):
                if place != axis:
                    line = line.index_select(place, _columns(other, window)).sum(place, keepdim=True)
            windows[axis] = _window(line.flatten(), look)
        if windows == before:
            break
    return [(_near(first, look.period), size) for (first, size), look in zip(windows, looks, strict=True)]


def _window(line: Tensor, look: Reading) -> Window:  # (places,)
    """The smallest of the windows of one axis that hold most energy."""
    count = len(line)
    laps = 2 if look.period else 1
    sums, counts = ((x.repeat(laps).cumsum(0)) for x in (line, look.counts.double()))
    sums, counts = (torch.cat([x.new_zeros(1), x]) for x in (sums, counts))
    first, size = torch.arange(count).unsqueeze(1), 1 + torch.arange(count)
    end = first + size
    usable = end <= laps * count
    end = end.clamp(max=laps * count)
    energy = (sums[end] - sums[first]).square() / (counts[end] - counts[first]).clamp(min=1)
    energy = torch.where(usable, energy, 0)
    place, width = (energy >= TIE * energy.max()).nonzero().unbind(1)
    chosen = width.argmin()
    return int(place[chosen]) + look.first, int(width[chosen]) + 1


def _columns(look: Reading, window: Window) -> Tensor:
    first, size = window
    columns = look.columns(first + torch.arange(size))
    return columns[columns < look.sources.shape[1]]


def _near(first: int, period: int | None) -> int:
    return first if period is None else (first + period // 2) % period - period // 2
