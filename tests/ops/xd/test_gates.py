"""Complex gates: what operations start as, what is the same with real gates, what is refused."""

import pytest
import torch
from torch import nn

from eclose.backbones.spectral import SpectralConv
from eclose.ops.kaleidoscope import pairs
from eclose.ops.xd import XD
from eclose.ops.xd.gates import gated
from tests.ops.xd.cases import agree, conv, gradients, shaken, signal, truth
from tests.ops.xd.complex_gates import CASES, OPERATIONS, compare, input_of


@pytest.mark.parametrize(("name", "order"), CASES)
def test_real_gates_are_complex_ones_without_imaginary_parts(name, order):
    operation = shaken(OPERATIONS[name](order=order))
    arch = operation.architecture
    with torch.no_grad():
        arch.C[..., 1] = 0
    x = input_of(operation)
    y = operation(x)
    by_weight, by_gates = gradients(y, [operation.weight, arch.C])
    arch.C = nn.Parameter(arch.C.detach()[..., 0].clone())
    assert arch.gates == "real"
    agree([operation(x)], [y])
    agree(gradients(operation(x), [operation.weight, arch.C]), [by_weight, by_gates[..., 0]])


def all_starts():
    """Operations and the plain functions that they start as."""
    for axes, size in ((1, 7), (2, (5, 6)), (3, (3, 4, 5))):
        for options in ({}, {"groups": 2, "stride": 2}, {"padding": 1, "padding_mode": "circular"}):
            layer = conv(axes, 2, 4, 2, **options)
            yield XD.from_conv(layer, size, gates="complex"), layer
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer, spectral = nn.ConvTranspose1d(2, 3, 3, stride=2).double(), SpectralConv(2, 3, 2, 2).double()
    yield XD.from_transposed(layer, 5, gates="complex"), layer
    yield XD.from_fno(spectral.weight, (5, 6), gates="complex"), spectral
    yield XD.from_avg_pool(nn.AvgPool2d(2), 3, (6, 5), dtype=torch.float64, gates="complex"), nn.AvgPool2d(2)
    yield XD.from_identity(3, (7,), dtype=torch.float64, gates="complex"), nn.Identity()


@pytest.mark.parametrize(("operation", "layer"), list(all_starts()))
def test_starts(operation, layer):
    x = input_of(operation)
    agree([operation(x)], [layer(x)], 1e-12)
    ones = torch.ones(operation.taps().shape[:2], dtype=torch.float64)
    assert torch.equal(operation.architecture.C, torch.stack([ones, torch.zeros_like(ones)], dim=-1))
    agree(gradients(operation(x), [x]), gradients(layer(x), [x]))
    for parameter in operation.arch_parameters():
        parameter.requires_grad_(False)
    assert operation.architecture.frozen_at_start()
    agree([operation(x)], [layer(x)], 1e-13)
    with torch.no_grad():
        operation.architecture.C[..., 1] = 0.5
        operation.architecture.M[0].entries.mul_(1.5)
    agree([operation(x)], [truth(operation, x)])


def test_a_graph_convolution():
    matrix, layer = torch.zeros(5, 5, dtype=torch.float64), conv(1, 2, 3, 1)
    matrix[[0, 1, 3, 4], [2, 0, 3, 1]] = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    operation = XD.from_graph(layer, matrix, gates="complex")
    x = input_of(operation)
    agree([operation(x)], [layer(x @ matrix.mT)], 1e-12)
    compare(shaken(operation))


def test_imaginary_parts_learn_where_the_map_is_not_real():
    x = signal(2, 3, 7)
    start, moved = OPERATIONS["1d"](), shaken(OPERATIONS["1d"]())
    (at_start,), (away,) = (gradients(one(x), [one.architecture.C]) for one in (start, moved))
    assert at_start[..., 0].abs().min() > 1e-3
    assert at_start[..., 1].abs().max() < 1e-12, "of a convolution, a real map, a phase shows nothing of first order"
    assert away.abs().min() > 1e-3
    spectral = OPERATIONS["1d fourier"]()
    (found,) = gradients(spectral(signal(2, 2, 9)), [spectral.architecture.C])
    assert found.abs().min() > 1e-3


@pytest.mark.parametrize(
    ("depth", "moves"), [((1, 1, 1), False), ((3, 1, 1), False), ((1, 2, 1), True), ((1, 1, 2), True)]
)
def test_real_maps_stay_real_at_depth_one(depth, moves):
    """Plain gradients of K, L and M keep the symmetry between a frequency and its negative that a convolution has."""
    layer = conv(1, 2, 2, 3, padding=1, padding_mode="circular")
    operation = XD.from_conv(layer, 12, gates="complex", depth=depth)
    x, target, start = signal(4, 2, 12), signal(4, 2, 12, seed=8), operation.architecture.M[0].entries.detach().clone()
    optimiser = torch.optim.SGD(operation.parameters(), lr=0.01)
    for _ in range(6):
        optimiser.zero_grad()
        (operation(x) - target).square().mean().backward()
        optimiser.step()
    assert (operation.architecture.M[0].entries - start).norm() > 1e-3
    assert (operation.architecture.C[..., 1].norm().item() > 1e-7) == moves
    assert moves or operation.architecture.C[..., 1].norm() < 1e-15


def test_a_phase_of_k_is_one_of_the_gates():
    """``e^it K`` with C is K with ``e^it C``."""
    one, other = shaken(OPERATIONS["2d"]()), shaken(OPERATIONS["2d"]())
    phase = torch.polar(torch.ones(()).double(), torch.tensor(0.7).double())
    with torch.no_grad():
        one.architecture.C.copy_(pairs.from_complex(pairs.to_complex(one.architecture.C) * phase))
        stages = other.architecture.K[1].entries
        spread = phase ** (1 / len(other.architecture.radices[1]))  # every path goes through one entry of each stage
        stages.copy_(pairs.from_complex(pairs.to_complex(stages) * spread))
    x = signal(2, 2, 5, 6)
    agree([one(x)], [other(x)])


def test_taps_that_are_pairs_stay_as_many():
    operation = OPERATIONS["2d fourier"]()
    weight, gates = operation.taps(), signal(3, 2, 2)
    found = gated(weight, gates, pairs=True)
    values = torch.complex(*weight.chunk(2, dim=-1)) * pairs.to_complex(gates)[..., None, None]
    agree([found], [torch.cat([values.real, values.imag], dim=-1)], 1e-14)
    assert gated(weight, gates, pairs=False).shape[-1] == 2 * weight.shape[-1]


@pytest.mark.parametrize("kind", ["imaginary", "Complex", 1, None, 0.5, ["real"]])
def test_other_gates_are_refused(kind):
    with pytest.raises(ValueError, match=r"gates is .*, but must be 'real' \(or true\), 'complex' or false"):
        XD.from_conv(conv(1, 2, 2, 3), 5, gates=kind)


def test_names_of_real_gates_and_none():
    layer = conv(1, 2, 3, 3)
    assert XD.from_conv(layer, 5, gates=True).architecture.C.shape == (3, 2)
    assert XD.from_conv(layer, 5, gates="real").architecture.C.shape == (3, 2)
    assert XD.from_conv(layer, 5, gates=False).architecture.C is None
    assert "gates=complex" in repr(XD.from_conv(layer, 5, gates="complex"))
    assert "gates" not in repr(XD.from_conv(layer, 5))
