"""Random changes of samples that leave their meaning: whole batches at once, on their own device.

An augmentation is a function ``(x, draw, fill) -> x`` of a batch and of uniform random numbers ``draw``, one
for each sample and space axis. The numbers come from a generator on the CPU and become whole positions
or seeds there, so that every device changes a sample in the same way.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from eclose.errors import ConfigError
from eclose.registry import Registry

augmentations = Registry("augmentation")

Fill = Tensor | float | None  # a value, or one a channel, as 0, the mean of standardised data; None: a sample's own

_LARGEST = 2**31  # positions


@augmentations.register("crop")
def crop(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, padding: int = 4, share: float = 0.0) -> Tensor:
    """Shift by up to ``padding`` along each space axis: pad with ``fill``, cut out the old size at random.

    ``share``, where given, is the padding as a part of each axis: long signals are shifted further.
    """
    # x (batch, channels, *space), draw (batch, axes)
    _check_positions("crop", "padding", padding)
    batch, _, *space = x.shape
    reach = _positions("crop", padding, share, space)  # (axes,)
    shift = _below(draw, 2 * reach + 1) - reach  # (batch, axes)
    source = torch.zeros((batch, 1), dtype=torch.long, device=x.device)  # (batch, positions), flat in space
    inside = torch.ones((batch, 1), dtype=torch.bool, device=x.device)
    for size, offset in zip(space, _to(shift, x).unbind(1), strict=True):
        index = torch.arange(size, device=x.device) + offset[:, None]  # (batch, size)
        source = (source[:, :, None] * size + index.clamp(0, size - 1)[:, None]).flatten(1)
        inside = (inside[:, :, None] & ((index >= 0) & (index < size))[:, None]).flatten(1)
    moved = x.flatten(2).gather(2, source[:, None].expand(-1, x.shape[1], -1)).view(x.shape)
    return torch.where(inside.view(batch, 1, *space), moved, _filling(fill, x))


@augmentations.register("flip")
def flip(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, probability: float = 0.5) -> Tensor:
    """Mirror along the last axis, with ``probability``."""
    # x (batch, channels, *space), draw (batch, axes)
    if not 0.0 <= probability <= 1.0:
        raise ConfigError(f"augmentation 'flip': probability is {probability}, but must lie between 0 and 1")
    chosen = _to(draw[:, 0] < probability, x).view(-1, *[1] * (x.ndim - 1))
    return torch.where(chosen, x.flip(-1), x)


@augmentations.register("cutout")
def cutout(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, size: int = 16, share: float = 0.0) -> Tensor:
    """Set a cube of side ``size``, centred anywhere and clipped at the border, to ``fill`` (DeVries 2017).

    ``share``, where given, is the side as a part of each axis.
    """
    # x (batch, channels, *space), draw (batch, axes)
    _check_positions("cutout", "size", size)
    batch, _, *space = x.shape
    sides = _positions("cutout", size, share, space)  # (axes,)
    corner = _below(draw, torch.tensor(space)) - sides // 2  # (batch, axes)
    hole = torch.ones((batch, 1), dtype=torch.bool, device=x.device)  # (batch, positions), flat in space
    for length, side, start in zip(space, sides.tolist(), _to(corner, x).unbind(1), strict=True):
        distance = torch.arange(length, device=x.device) - start[:, None]  # (batch, length)
        hole = (hole[:, :, None] & ((distance >= 0) & (distance < side))[:, None]).flatten(1)
    return torch.where(hole.view(batch, 1, *space), _filling(fill, x), x)


@augmentations.register("scale")
def scale(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, strength: float = 0.2) -> Tensor:
    """Multiply the distance from ``fill`` by a factor between ``1 - strength`` and ``1 + strength``."""
    # x (batch, channels, *space), draw (batch, axes)
    _check_strength("scale", strength)
    factor = _to(1 + strength * (2 * draw[:, 0] - 1), x).view(-1, *[1] * (x.ndim - 1)).float()
    middle = _filling(fill, x)
    return _as_type(middle + (x - middle.float()) * factor, x)


@augmentations.register("jitter")
def jitter(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, strength: float = 0.1) -> Tensor:
    """Add noise to every point: ``strength`` times the deviation of its channel in this sample."""
    # x (batch, channels, *space), draw (batch, axes)
    _check_strength("jitter", strength)
    if not len(x):  # the share of a process in a small batch
        return x
    values = x.float()
    deviation = values.flatten(2).std(2, correction=0).view(*x.shape[:2], *[1] * (x.ndim - 2))
    return _as_type(values + strength * deviation * _noise(x, draw), x)


@augmentations.register("mix")
def mix(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, strength: float = 0.5) -> Tensor:
    """``(1 - s) x + s x'`` with the sample beside it, where ``s`` is uniform up to ``strength`` (mixup, Zhang 2018).

    Samples 0 and 1 of a batch are mixed with one another, so are 2 and 3; a last one without a partner stays.
    """
    # x (batch, ...), draw (batch, axes)
    _check_strength("mix", strength)
    return blended(x, strength * draw[:, 0], _beside(x, fill))


@augmentations.register("patch")
def patch(x: Tensor, draw: Tensor, fill: Fill = 0.0, *, share: float = 1.0) -> Tensor:
    """A cube of the sample beside it, in the same place (CutMix, Yun 2019).

    Its part of all points is uniform up to ``share``. Pairs are those of ``mix``.
    """
    # x (batch, channels, *space), draw (batch, axes)
    sides, corner = _patches(draw, x.shape[2:], share)
    inside = torch.ones((len(x), 1), dtype=torch.bool, device=x.device)  # (batch, positions), flat in space
    bounds = _to(torch.stack((corner, corner + sides)), x).unbind(2)
    for length, (first, last) in zip(x.shape[2:], bounds, strict=True):
        place = torch.arange(length, device=x.device)  # (length,)
        inside = (inside[:, :, None] & ((place >= first[:, None]) & (place < last[:, None]))[:, None]).flatten(1)
    return torch.where(inside.view(len(x), 1, *x.shape[2:]), _beside(x, fill), x)


def _patches(draw: Tensor, space: Sequence[int], share: float) -> tuple[Tensor, Tensor]:
    """Sides and corners of the cubes, on the CPU. High digits of a number choose the place, low ones the size."""
    # -> (batch, axes) each
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"augmentation 'patch': share is {share}, but must lie between 0 and 1")
    sizes = torch.tensor(space)
    part = (share * (draw[:, :1] * 2**20 % 1)) ** (1 / len(space))  # of each axis
    sides = (part * sizes).round().long()
    return sides, _below(draw, sizes - sides + 1)


def partner_share(name: str, draw: Tensor, space: Sequence[int], options: Mapping[str, float]) -> Tensor:
    """How much of its partner every sample has."""
    # -> (batch,)
    if name == "mix":
        return options["strength"] * draw[:, 0]
    return _patches(draw, space, options["share"])[0].prod(1) / math.prod(space)


def _partners(x: Tensor) -> Tensor:
    """The sample beside each; itself for a last one that has none."""
    partner = torch.arange(len(x), device=x.device) ^ 1
    return torch.where(partner < len(x), partner, partner ^ 1)


def _beside(x: Tensor, fill: Fill) -> Tensor:
    """The sample beside each. With the mean and the deviation of every channel of this one where ``fill`` is None: of
    two samples of very different size the larger would hide the other."""
    other = x[_partners(x)]
    if fill is not None or not len(x):
        return other
    mean, deviation = _mean_deviation(x)
    other_mean, other_deviation = _mean_deviation(other)
    ratio = deviation / torch.where(other_deviation > 0, other_deviation, 1.0)
    return _as_type(mean + (other.double() - other_mean) * ratio, x)


def _mean_deviation(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of every channel of a sample."""
    # -> (batch, channels, 1, ...) each
    mean = _mean(x)
    return mean, _mean((x.double() - mean).square()).sqrt()


def _mean(x: Tensor) -> Tensor:
    return x.double().mean(tuple(range(2, x.ndim)), keepdim=True)


def blended(x: Tensor, share: Tensor, other: Tensor | None = None) -> Tensor:
    """Of every sample all but a ``share``, and that of ``other`` ones, by default of its partner."""
    # x (batch, ...), share (batch,)
    values = x.to(torch.promote_types(x.dtype, torch.float32))
    part = _to(share, x).float().view(-1, *[1] * (x.ndim - 1))
    return _as_type(values + part * ((values[_partners(x)] if other is None else other) - values), x)


def _check_positions(name: str, option: str, value: int) -> None:
    if not 0 <= value <= _LARGEST:
        wanted = f"at most {_LARGEST}" if value > 0 else "at least 0"
        raise ConfigError(f"augmentation '{name}': {option} is {value}, but must be {wanted}")


def _check_strength(name: str, strength: float) -> None:
    if not 0.0 <= strength <= 1.0:
        raise ConfigError(f"augmentation '{name}': strength is {strength}, but must lie between 0 and 1")


def _positions(name: str, number: int, share: float, space: Sequence[int]) -> Tensor:
    """How many positions of each axis: the given number, or the given share of the axis."""
    # -> (axes,), on the CPU
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"augmentation '{name}': share is {share}, but must lie between 0 and 1")
    return torch.tensor([round(share * size) if share else number for size in space])


def _noise(x: Tensor, draw: Tensor) -> Tensor:
    """Nearly normal numbers of mean 0 and deviation 1, one for every element, the same on every device.

    A sample's draw and an element's place are hashed to 64 bits. The sum of their four quarters is nearly normal and,
    unlike logarithms and cosines, exact on every device. Numbers drawn on the CPU would have to be moved.
    """
    seeds = _to(_below(draw[:, :1], _LARGEST), x)  # (batch, 1)
    state = seeds * 0x9E3779B97F4A7C1 + torch.arange(x[0].numel(), device=x.device) * 0x5851F42D4C957F2D
    for factor in (0x2545F4914F6CDD1D, 0x369DEA0F31A53F85, 1):
        state = (state ^ ((state >> 32) & 0xFFFFFFFF)) * factor  # masked: the shift repeats the sign
    total = torch.stack([(state >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]).sum(0)
    return ((total - 2 * 0xFFFF).float() * (3**0.5 / 2**16)).view(x.shape)


def _as_type(values: Tensor, x: Tensor) -> Tensor:
    """``values`` in the type of ``x``, rounded and kept in its range where that is whole."""
    if x.is_floating_point():
        return values.to(x.dtype)
    limits = torch.iinfo(x.dtype)
    return values.round().clamp(limits.min, limits.max).to(x.dtype)


def _below(draw: Tensor, limit: Tensor | int) -> Tensor:
    """Whole numbers, uniform in 0 ... limit - 1."""
    return (draw * limit).floor().long()


def _to(values: Tensor, x: Tensor) -> Tensor:
    return values.to(x.device, non_blocking=True)


def _filling(fill: Fill, x: Tensor) -> Tensor:
    """``fill`` in the type of ``x``, rounded where that is whole, to broadcast over samples and space."""
    # -> (), (channels, 1, ...), (channels, *space) or (batch, channels, 1, ...)
    if fill is None:
        means = _mean(x)
        return (means if x.is_floating_point() else means.round()).to(x.dtype)
    if not isinstance(fill, Tensor):
        return x.new_full((), fill if x.is_floating_point() else round(fill))
    whole = fill.is_floating_point() and not x.is_floating_point()
    values = _to(fill.round() if whole else fill, x).to(x.dtype)
    return values.view(*values.shape, *[1] * (x.ndim - 1 - values.ndim)) if values.ndim else values
