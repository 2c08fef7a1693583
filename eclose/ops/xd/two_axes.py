"""The sandwich order on two axes on a GPU, on signals as they lie: no axis is moved beside another.

What lies between the shifts of the two axes is ``(batch, channels, size_1, taps, out_2)``, with the taps of the second
axis before the product over channels and taps, and those of the first after it. Real and imaginary part go one after
the other, in half the memory.
"""

import torch
from torch import Tensor

from eclose.ops.xd.slopes import Slopes, Wanted
from eclose.ops.xd.transforms import contracted


def applied(x: Tensor, mixing: Tensor, shifts: list[Tensor]) -> Tensor:
    """``(batch, c_out, out_1, out_2)``."""
    x, y = x.contiguous(), None
    for first, last in zip(_stacked(shifts[0]), shifts[1], strict=True):
        columns = _columns(_mixed(mixing, _spread(x, last), shifts[0].shape[1]))
        matrix = first.expand(len(columns), -1, -1)
        y = torch.bmm(matrix, columns) if y is None else y.baddbmm_(matrix, columns)
        del columns  # large, and of no more use
    assert y is not None
    return y.unflatten(0, (len(x), -1))


def slopes(x: Tensor, mixing: Tensor, shifts: list[Tensor], cotangent: Tensor, wanted: Wanted) -> Slopes:
    """Derivatives by signal, matrix and shift tensors."""
    x, cotangent = x.contiguous(), cotangent.contiguous()
    by_x: Tensor | None = None
    found: list[Slopes] = []
    for first, last in zip(_stacked(shifts[0]), shifts[1], strict=True):
        by_x, *others = _part_slopes(x, mixing, first, last, cotangent, wanted, by_x)
        found.append(others)
    by_mixing, by_first, by_last = ([one for one in both if one is not None] for both in zip(*found, strict=True))
    return [
        by_x,
        by_mixing[0].add_(by_mixing[1]).to(x.dtype) if by_mixing else None,
        _unstacked(by_first, shifts[0]).to(x.dtype) if by_first else None,
        torch.stack(by_last) if by_last else None,
    ]


def _part_slopes(
    x: Tensor,
    mixing: Tensor,
    first: Tensor,  # (out_1, size_1 * kernel_1)
    last: Tensor,  # (kernel_2, out_2, size_2)
    cotangent: Tensor,
    wanted: Wanted,
    before: Tensor | None,
) -> Slopes:
    """By signal, matrix, ``first`` and ``last``; the one by the signal is added to that of the part ``before``."""
    from eclose.ops.xd.triton_mixing import products

    y, taps = cotangent.flatten(0, 1), first.shape[1] // x.shape[2]
    by_x = by_mixing = by_first = by_last = None
    z = _spread(x, last)
    if wanted.shifts:
        by_first = products(_rows(y), _rows(_columns(_mixed(mixing, z, taps))))[0]
    by_columns = torch.bmm(first.mT.expand(len(y), -1, -1), y)
    by_rows = by_columns.view(len(x), -1, x.shape[2], taps, last.shape[1])
    if wanted.mixing:
        by_mixing = products(_channel_rows(by_rows, mixing), _tap_rows(z, mixing))
    del z
    if wanted.x or wanted.shifts:
        by_z = _unmixed(mixing, by_rows, last.shape[0]).flatten(0, 2).flatten(1)
        del by_columns, by_rows
        if wanted.x:
            by_x = _added(before, by_z, last.flatten(0, 1), x)
        by_last = contracted(by_z.mT, x.flatten(0, 2)).view_as(last) if wanted.shifts else None
    return [by_x, by_mixing, by_first, by_last]


def _added(before: Tensor | None, rows: Tensor, matrix: Tensor, like: Tensor) -> Tensor:
    """The product, and what was before."""
    if before is None:
        return (rows @ matrix).view_as(like)
    before.view(len(rows), -1).addmm_(rows, matrix)
    return before


def _spread(x: Tensor, shift: Tensor) -> Tensor:  # (batch, c_in, size_1, size_2), (kernel_2, out_2, size_2)
    """``(batch, c_in, size_1, kernel_2, out_2)``."""
    return (x.flatten(0, 2) @ shift.flatten(0, 1).mT).view(*x.shape[:3], *shift.shape[:2])


def _mixed(mixing: Tensor, z: Tensor, taps: int) -> Tensor:  # (groups, c_out * kernel_1, kernel_2 * c_in)
    """``(batch, c_out, size_1, kernel_1, out_2)``."""
    from eclose.ops.xd.triton_mixing import mixed

    out = z.new_empty(len(z), mixing.shape[:2].numel() // taps, z.shape[2], taps, z.shape[4])
    mixed(mixing, _tap_rows(z, mixing), _channel_rows(out, mixing))
    return out


def _unmixed(mixing: Tensor, z: Tensor, taps: int) -> Tensor:
    """``(batch, c_in, size_1, kernel_2, out_2)``: the adjoint."""
    from eclose.ops.xd.triton_mixing import mixed

    out = z.new_empty(len(z), len(mixing) * mixing.shape[2] // taps, z.shape[2], taps, z.shape[4])
    mixed(mixing.mT, _channel_rows(z, mixing), _tap_rows(out, mixing))
    return out


def _channel_rows(z: Tensor, mixing: Tensor) -> Tensor:  # (batch, channels, lines, taps, columns)
    """``(batch, groups, channels, taps, lines, columns)``, a view."""
    return z.unflatten(1, (len(mixing), -1)).transpose(3, 4)


def _tap_rows(z: Tensor, mixing: Tensor) -> Tensor:
    """``(batch, groups, taps, channels, lines, columns)``, a view."""
    return _channel_rows(z, mixing).transpose(2, 3)


def _rows(z: Tensor) -> Tensor:  # (batch, rows, columns)
    """``(batch, 1, 1, rows, 1, columns)``, a view."""
    return z[:, None, None, :, None]


def _columns(z: Tensor) -> Tensor:  # (batch, channels, lines, taps, columns)
    """``(batch * channels, lines * taps, columns)``."""
    return z.flatten(0, 1).flatten(1, 2)


def _stacked(shift: Tensor) -> Tensor:  # (2, kernel, out, size)
    """``(2, out, size * kernel)``: the products with both parts of a signal add up to the real part."""
    found = shift.permute(0, 2, 3, 1).contiguous()
    found[1].neg_()
    return found.flatten(2)


def _unstacked(slopes: list[Tensor], shift: Tensor) -> Tensor:  # (out, size * kernel) of both parts
    """The derivative by ``shift``."""
    real, imaginary = slopes
    found = torch.stack([real, -imaginary]).view(2, *shift.shape[2:], shift.shape[1])
    return found.permute(0, 3, 1, 2)
