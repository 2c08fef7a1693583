"""Operations whose architecture has become a known one, and the brute truth about what any operation does."""

import torch

from eclose.ops.kaleidoscope import dft, diagonal_left, digit_reversal, fno, permutation
from eclose.ops.xd import XD
from tests.ops.xd.cases import conv


def write(operation, part, axis, matrix):
    """Put a matrix in the place of K, L or M of an axis; the depth is there already."""
    with torch.no_grad():
        getattr(operation.architecture, part)[axis].entries.copy_(matrix.entries)
    return operation


def routed(size, moves):
    """A permutation that sends positions to given ones, the others anywhere: ``{from: to}``."""
    index = [-1] * size
    for source, target in moves.items():
        index[target] = source
    others = iter(sorted(set(range(size)) - set(moves)))
    return permutation(torch.tensor([i if i >= 0 else next(others) for i in index]), dtype=torch.float64)


def transform(size):
    return dft(size, dtype=torch.float64)


def made(sizes, kernel, depth, mode="circular", **options):
    layer = conv(len(sizes), 1, 1, kernel, padding="same", padding_mode=mode, bias=False)
    # Transforms that fit: only they hold every operation on a periodic signal.
    return XD.from_conv(layer, sizes, depth=depth, **{"largest": 17, **options})


def dilated(sizes, kernel, dilations, lefts, mode="circular", **options):
    """L sends tap t of every axis to the place where a convolution with another dilation and padding has it."""
    operation = made(sizes, kernel, (1, 3, 1), mode, **options)
    for place, axis in enumerate(operation.axes):
        targets = [(lefts[place] - dilations[place] * tap) % axis.transform for tap in range(axis.kernel)]
        moves = dict(zip(axis.columns().tolist(), targets, strict=True))
        write(operation, "L", place, transform(axis.transform) @ routed(axis.transform, moves))
    return operation


def band(sizes, modes, mode="circular", **options):
    """L of the Fourier neural operator on every axis (claim A.6)."""
    operation = made(sizes, 2 * modes, (1, 6, 1), mode, **options)
    for place, axis in enumerate(operation.axes):
        gathered = routed(axis.transform, {column: tap for tap, column in enumerate(axis.columns().tolist())})
        write(operation, "L", place, fno(axis.transform, modes, dtype=torch.float64) @ gathered)
    return operation


def low_passed(operation, modes):
    """L without its high frequencies, on every axis."""
    for place, axis in enumerate(operation.axes):
        matrix = operation.architecture.L[place].matrix
        frequencies = torch.fft.fftfreq(axis.transform, 1 / axis.transform)[digit_reversal(matrix.radices)]
        kept = (frequencies.abs() < modes - 0.5).to(matrix.entries)
        write(operation, "L", place, diagonal_left(torch.stack([kept, 0 * kept], dim=-1), matrix))
    return operation


def scrambled(sizes, kernel, mode="circular", seed=3, **options):
    """M sees permuted inputs (claim A.4), and the orders of all axes."""
    operation = made(sizes, kernel, (1, 1, 3), mode, **options)
    generator, orders = torch.Generator().manual_seed(seed), []
    for place, axis in enumerate(operation.axes):
        orders.append(torch.randperm(axis.size, generator=generator))
        index = torch.cat([orders[-1], torch.arange(axis.size, axis.transform)])
        matrix = transform(axis.transform) @ permutation(index, dtype=torch.float64)
        write(operation, "M", place, matrix)
    return operation, orders


@torch.no_grad()
def tabulated(operation):
    """All taps ``(taps, outputs, inputs)`` and the free part ``(outputs, inputs)``, by running it on unit signals."""
    sizes = [axis.size for axis in operation.axes]
    weight, gates = operation.weight.clone(), operation.architecture.C
    if gates is not None:
        before = gates.clone()
        gates.fill_(1)
    units = torch.eye(torch.Size(sizes).numel(), dtype=weight.dtype).view(-1, 1, *sizes)

    def outputs(values):
        operation.weight.copy_(values.view_as(weight))
        return operation(units).flatten(1).mT

    free = outputs(torch.zeros_like(weight))
    taps = torch.stack([outputs(unit) - free for unit in torch.eye(weight.numel(), dtype=weight.dtype)])
    operation.weight.copy_(weight)
    if gates is not None:
        gates.copy_(before)
    return taps, free


def residual(operation, taps=None, free=None, ours=None):
    """The relative residual, by its definition, of another operation with the best scale for each of its parts."""
    ours = ours or tabulated(operation)
    rms = operation.weight.square().mean().sqrt()
    rest, whole = [], []
    for part, other, scale in zip(ours, (taps, free), (rms, 1), strict=True):
        rate = 0 if other is None else (part * other).sum() / other.square().sum()
        rest.append(scale * (part - (0 if other is None else rate * other)).norm())
        whole.append(scale * part.norm())
    return (torch.stack(rest).norm() / torch.stack(whole).norm()).item()
