"""Operations away from their start, and the truth about them, that the tests of XD-operations share."""

import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, vmap

from eclose.ops.xd import XD
from eclose.ops.xd.definition import definition
from eclose.ops.xd.evaluation import ORDERS, evaluate
from eclose.ops.xd.evaluation.inputs import Terms

CONVS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def conv(axes, *args, **options):
    """A convolution in double precision with reproducible weights."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return CONVS[axes](*args, dtype=torch.float64, **options)


def derivatives_are_those_by_differences(order, terms):
    """First and second ones, by everything that an order is given."""
    tensors = [None if tensor is None else tensor.detach().requires_grad_() for tensor in terms.tensors()]

    def function(*given):
        given = iter(given)
        return evaluate(order, Terms.of([None if t is None else next(given) for t in tensors], terms.groups))

    inputs = [tensor for tensor in tensors if tensor is not None]
    assert gradcheck(function, inputs, fast_mode=True)
    assert gradgradcheck(function, inputs, fast_mode=True)


def has_gradients_of_every_sample(operation, x):
    """By function transforms those that autograd gives sample by sample."""
    parameters = dict(operation.named_parameters())

    def loss(parameters, sample):
        return functional_call(operation, parameters, sample).square().sum()

    found = vmap(grad(loss), (None, 0))(parameters, x)
    for place, sample in enumerate(x):
        expected = torch.autograd.grad(loss(parameters, sample), list(parameters.values()))
        agree([found[name][place] for name in parameters], expected)


def shaken(operation, seed=0, scale=0.3):
    """The operation with random noise on all architecture parameters: no longer a convolution."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in operation.arch_parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return operation


def signal(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def truth(operation, x):
    """Definition 3.2 with the matrices of the operation, in complex arithmetic."""
    arch = operation.architecture
    axes = [axis.at(size) for axis, size in zip(operation.axes, x.shape[2:], strict=True)]
    assert all(axis.fits for axis in axes)
    outer, filters, inner = ([matrix.movedim(0, -1) for matrix in part] for part in arch.matrices(axes))
    bias = arch.bias()
    bias = None if bias is None else bias.movedim(0, -1)
    y = definition(x, operation.taps(), bias, arch.C, outer, filters, inner, operation.groups)
    return y if operation.bias is None else y + operation.bias.view(-1, *[1] * len(axes))


def gradients(y, inputs, seed=2):
    return torch.autograd.grad((y * signal(*y.shape, seed=seed)).sum(), inputs)


def agree(got, expected, factor=1e-11):
    for one, other in zip(got, expected, strict=True):
        scale = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one, other, rtol=0, atol=factor * scale)


OPERATIONS = {
    "1d": lambda **o: XD.from_conv(conv(1, 4, 6, 3, padding=1), 7, **o),
    "1d strided": lambda **o: XD.from_conv(conv(1, 2, 3, 4, padding=2, stride=2, dilation=2), 12, **o),
    "1d deep": lambda **o: XD.from_conv(conv(1, 2, 2, 3, padding=1, padding_mode="circular"), 6, depth=(2, 3, 2), **o),
    "1d depthwise": lambda **o: XD.from_conv(conv(1, 4, 4, 3, padding="same", groups=4), 5, **o),
    "1d multiplier": lambda **o: XD.from_conv(conv(1, 2, 6, 3, padding="same", groups=2), 5, **o),
    "2d": lambda **o: XD.from_conv(conv(2, 2, 3, (3, 2), padding=1), (5, 6), **o),
    "2d grouped": lambda **o: XD.from_conv(conv(2, 4, 6, 3, stride=(2, 1), groups=2, bias=False), (6, 5), **o),
    "2d bare": lambda **o: XD.from_conv(conv(2, 2, 2, 3, padding=1), 4, bias=False, gates=False, **o),
    "2d bias only": lambda **o: XD.from_conv(conv(2, 2, 2, 3, padding=1), 4, gates=False, **o),
    "2d gates only": lambda **o: XD.from_conv(conv(2, 2, 2, 3, padding=1), 4, bias=False, **o),
    "2d reflect": lambda **o: XD.from_conv(conv(2, 2, 2, 3, padding=1, padding_mode="reflect"), (4, 5), **o),
    "3d": lambda **o: XD.from_conv(conv(3, 2, 2, (2, 3, 1), padding=1), (3, 4, 2), **o),
}

CASES = [(name, order) for name in OPERATIONS for order in (*ORDERS, "flat") if order != "flat" or name[0] != "1"]
"""With every order that they have."""


def only_what_is_needed_gets_a_gradient(operation, x, expected):
    """Of x and the parameters each alone, against the derivatives of ``expected``, a function of operation and x."""
    everything = dict(operation.named_parameters()) | {"x": x}
    full = dict(zip(everything, gradients(expected(operation, x), everything.values()), strict=True))
    for chosen in everything:
        for name, tensor in everything.items():
            tensor.requires_grad_(name == chosen)
        agree(gradients(operation(x), [everything[chosen]]), [full[chosen]])


def computes_under_autocast_as(layer, operation, x):
    """The output has the precision of autocast, gradients that of the parameters."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = operation(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(x), rtol=0.05, atol=0.05)
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in operation.parameters())
