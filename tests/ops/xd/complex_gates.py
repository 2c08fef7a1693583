"""Operations with complex gates, and the literal truth about them."""

import functools

import torch
from torch import nn

from eclose.backbones.spectral import SpectralConv
from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd import XD
from eclose.ops.xd.evaluation import orders_of
from tests.ops.xd.cases import agree, conv, gradients, signal


def fourier(modes, sizes, **options):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        weight = nn.init.normal_(SpectralConv(2, 3, modes, len(sizes)).double().weight)
    return XD.from_fno(weight, sizes, gates="complex", **options)


def transposed(**options):
    with torch.random.fork_rng():
        torch.manual_seed(4)
        layer = nn.ConvTranspose2d(2, 4, (3, 2), stride=2, padding=1, groups=2, dtype=torch.float64)
    return XD.from_transposed(layer, (3, 4), gates="complex", **options)


def of(axes, size, *channels_and_kernel, depth=(1, 1, 1), **of_conv):
    def make(**options):
        layer = conv(axes, *channels_and_kernel, **of_conv)
        return XD.from_conv(layer, size, **{"gates": "complex", "depth": depth, **options})

    return make


OPERATIONS = {
    "1d": of(1, 7, 3, 2, 3, padding=1),
    "1d strided": of(1, 12, 2, 4, 4, padding=2, stride=2, dilation=2, groups=2),
    "1d deep": of(1, 6, 2, 2, 3, padding=1, padding_mode="reflect", depth=(2, 3, 2)),
    "1d depthwise": of(1, 5, 4, 4, 3, padding="same", groups=4),
    "1d point": of(1, 1, 2, 3, 1),
    "2d": of(2, (5, 6), 2, 3, (3, 2), padding=1),
    "2d grouped": of(2, (6, 5), 4, 6, 3, stride=(2, 1), groups=2, bias=False),
    "2d circular": of(2, (4, 7), 2, 2, 3, padding=1, padding_mode="circular"),
    "3d": of(3, (3, 4, 2), 2, 2, (2, 3, 1), padding=1),
    "1d fourier": functools.partial(fourier, 3, (9,)),
    "2d fourier": functools.partial(fourier, 2, (4, 5)),
    "2d transposed": transposed,
}
CASES = [(name, order) for name, make in OPERATIONS.items() for order in orders_of(make().axes)]
SOME = [(name, order) for name, order in CASES if name in ("1d", "2d grouped", "2d fourier", "3d")]


def literal(operation, x, mask=None):  # (batch, c_in, *sizes), (outputs, inputs)
    """``y_i = sum_j Real(K diag(C_ij (L w_ij + b)) M x_j)``, one pair of channels after the other."""
    arch = operation.architecture
    outer, filters, inner = (
        functools.reduce(torch.kron, [torch.complex(*matrix) for matrix in part])
        for part in arch.matrices(operation.axes)
    )
    bias = 0 if arch.b is None else torch.complex(*arch.bias()).flatten()
    gates, weight = pairs.to_complex(arch.C), operation.taps().flatten(2).to(torch.complex128)
    outs, inputs = len(weight) // operation.groups, weight.shape[1]
    rows = []
    for i in range(len(weight)):
        row = 0
        for j in range(inputs):
            matrix = (outer * (gates[i, j] * (filters @ weight[i, j] + bias)) @ inner).real
            signals = x[:, i // outs * inputs + j].flatten(1)
            row = row + signals @ (matrix if mask is None else matrix * mask).mT
        rows.append(row)
    y = torch.stack(rows, dim=1).unflatten(2, [axis.out for axis in operation.axes])
    return y if operation.bias is None else y + operation.bias.view(-1, *[1] * len(operation.axes))


def input_of(operation, batch=2):
    return signal(batch, operation.in_channels, *[axis.size for axis in operation.axes]).requires_grad_()


def compare(operation, batch=2, **given):
    x = input_of(operation, batch)
    inputs = [x, *operation.parameters()]
    y, expected = operation(x), literal(operation, x, **given)
    agree([y], [expected])
    agree(gradients(y, inputs), gradients(expected, inputs))
