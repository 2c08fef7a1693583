"""Operations that start as a layer of the Fourier neural operator: torch's FFT is the truth."""

import pytest
import torch
from torch import nn

from eclose.backbones.spectral import SpectralConv
from eclose.ops.xd import XD
from tests.ops.xd.cases import agree, gradients, shaken, signal, truth


def layer(modes, axes, c_in=2, c_out=3):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = SpectralConv(c_in, c_out, modes, axes).double()
        nn.init.normal_(made.weight)
    return made


# Modes beside sizes: even, odd and prime ones (23 has no small factor), one point, grids too coarse for the modes.
GRIDS = [
    (3, (8,)),
    (3, (9,)),
    (5, (23,)),
    (2, (1,)),
    (8, (5,)),
    (8, (4,)),
    (3, (4,)),
    (2, (8, 6)),
    (3, (7, 5)),
    (7, (6, 9)),
    (1, (1, 2)),
    (2, (4, 3, 5)),
    (2, (2, 1, 1)),
    (1, (6, 4, 19)),
]


@pytest.mark.parametrize(("modes", "sizes"), GRIDS)
def test_values_and_gradients(modes, sizes):
    fourier = layer(modes, len(sizes))
    x = signal(2, 2, *sizes).requires_grad_()
    inputs = [x, fourier.weight]
    for options in [{}, {"depth": (2, 3, 2)}, {"fewest": True}, {"bias": False, "gates": False}]:
        operation = XD.from_fno(fourier.weight, sizes, **options)
        assert operation.weight is fourier.weight
        agree([operation(x)], [fourier(x)], 1e-12)
        agree(gradients(operation(x), inputs), gradients(fourier(x), inputs))


@pytest.mark.parametrize("order", ["frequency", "sandwich", "im2col"])
@pytest.mark.parametrize(("modes", "sizes"), [(3, (9,)), (2, (8, 5)), (2, (3, 4, 5))])
def test_away_from_the_start(order, modes, sizes):
    operation = shaken(XD.from_fno(layer(modes, len(sizes)).weight, sizes, order=order))
    x = signal(2, 2, *sizes).requires_grad_()
    agree([operation(x)], [truth(operation, x)])
    inputs = [x, *operation.parameters()]
    agree(gradients(operation(x), inputs), gradients(truth(operation, x), inputs))


def test_frozen_is_still_the_layer():
    fourier = layer(3, 2)
    operation = XD.from_fno(fourier.weight, (8, 7))
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    x = signal(2, 2, 8, 7)
    assert torch.equal(operation(x), fourier(x)), "by FFT"
    with torch.no_grad():
        operation.architecture.L[0].entries.add_(0.1)
    agree([operation(x)], [truth(operation, x)])


def test_mistakes():
    weight = layer(2, 1).weight
    with pytest.raises(ValueError, match="transforms of the input's size, and 6 is no power of two: leave out paper"):
        XD.from_fno(weight, 6, paper=True)
    agree([XD.from_fno(weight, 8, paper=True)(signal(1, 2, 8))], [layer(2, 1)(signal(1, 2, 8))])
    with pytest.raises(ValueError, match=r"\(c_in, c_out, \*kept, 2\), not \(2, 3, 4\)"):
        XD.from_fno(nn.Parameter(torch.zeros(2, 3, 4)), 8)
    with pytest.raises(ValueError, match="an input of size 6 has other frequencies than those of size 8"):
        XD.from_fno(weight, 8)(signal(1, 2, 6))
