"""Appendix A of Roberts et al. (2021): known operations as XD-operations, their matrices built and compared with torch.

``K = F^-1 P^T`` and ``M = P F`` keep frequencies in digit-reversed order; so does L, and so must b. Depths are
numbers of blocks. Everything is also tried on sizes that are not powers of two.
"""

import pytest
import torch
import torch.nn.functional as F

from eclose.ops.kaleidoscope import (
    deepened,
    dft,
    diagonal_left,
    diagonal_right,
    digit_reversal,
    dilation,
    fno,
    identity,
    pairs,
    permutation,
    reversal,
    separation,
    sparse_from_dense,
    stages,
    zero,
)

from .cases import close, dense, noise, seeded

DOUBLE = {"dtype": torch.float64}
SIZES = [8, 16, 12, 15]


def xd(k, ell, m, w, x, b=None, gates=None):  # w (out, in, taps), x (in, points), b (n,), gates (out, in)
    """Equation 5: ``y_o = sum_i C_oi Real(K diag(L w_oi + b) M x_i)``, w and x padded with zeros at their ends."""
    k, ell, m = dense(k), dense(ell), dense(m)
    w, x = (F.pad(v, (0, len(k) - v.shape[-1])) + 0j for v in (w, x))
    gates = torch.ones(w.shape[:2], dtype=torch.float64) if gates is None else gates
    spectrum = w @ ell.T + (0 if b is None else b)
    return (gates.unsqueeze(-1) * ((spectrum * (x @ m.T)) @ k.T).real).sum(1)


def inverse(size):
    return dft(size, inverse=True, increasing=True, **DOUBLE)


def forward(size):
    return dft(size, **DOUBLE)


def mask(size, stride):
    """Ones at multiples of the stride."""
    return (torch.arange(size) % stride == 0).double()


def real(z):
    return pairs.from_complex(z)


def convolution(x, w, d=1, stride=1, groups=1):
    """torch's own, on a circle, with the outputs that a stride leaves out set to zero."""
    around = F.pad(x.unsqueeze(0), (d * (w.shape[-1] - 1), 0), mode="circular")
    y = torch.zeros(w.shape[0], x.shape[-1], dtype=x.dtype)
    y[:, ::stride] = F.conv1d(around, w.flip(-1), dilation=d, stride=stride, groups=groups)[0]
    return y


def depths(*matrices):
    return tuple(matrix.depth for matrix in matrices)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a1_convolution(size, groups):
    x, c = noise(4, size), 4
    member = torch.arange(c) * groups // c
    gates = (member.unsqueeze(1) == member).double()
    for taps in (1, 3, 4):
        w = noise(c, c, taps, seed=2)
        grouped = torch.stack([w[o, gates[o] > 0] for o in range(c)])
        for d in range(1, (size - 1) // max(taps - 1, 1) + 1):
            m = forward(size)
            ell = m @ dilation(size, taps, d, **DOUBLE)
            for stride in (1, 2, 3, 5):
                k = diagonal_left(real(mask(size, stride)), inverse(size))
                assert depths(k, ell, m) == (1, 3, 1)
                close(xd(k, ell, m, w, x, gates=gates), convolution(x, grouped, d, stride, groups))


@pytest.mark.parametrize("size", SIZES)
def test_remark_a1_without_dilation_one_block_each(size):
    k, ell, m = inverse(size), forward(size), forward(size)
    w, x = noise(3, 2, 5, seed=2), noise(2, size)
    assert depths(k, ell, m) == (1, 1, 1)
    close(xd(k, ell, m, w, x), convolution(x, w))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fourier", [True, False])
def test_a2_skip_and_zero(size, fourier):
    one = identity(size, **DOUBLE)
    k, m = (inverse(size), forward(size)) if fourier else (one, one)
    ell = zero(size, **DOUBLE)
    assert depths(k, ell, m) == (1, 1, 1)
    x, w, gates = noise(3, size), noise(3, 3, 3, seed=2), torch.eye(3, dtype=torch.float64)
    close(xd(k, ell, m, w, x, torch.ones(size), gates), x)
    assert torch.equal(xd(k, ell, m, w, x, torch.zeros(size), gates), torch.zeros_like(x))


@pytest.mark.parametrize("size", SIZES)
def test_a3_average_pooling(size):
    """The bias is the transform of the filter; the printed proof leaves the transform out."""
    x, w, gates = noise(3, size), noise(3, 3, 3, seed=2), torch.eye(3, dtype=torch.float64)
    m, ell = forward(size), zero(size, **DOUBLE)
    for taps in (1, 2, 3):
        for d in range(1, (size - 1) // max(taps - 1, 1) + 1):
            kernel = torch.zeros(size, dtype=torch.complex128)
            kernel[: d * taps : d][:taps] = 1 / taps
            for stride in (1, 2, 3):
                k = diagonal_left(real(mask(size, stride)), inverse(size))
                assert depths(k, ell, m) == (1, 1, 1)
                y = xd(k, ell, m, w, x, dense(m) @ kernel, gates)
                mean = torch.full((3, 1, taps), 1 / taps, dtype=torch.float64)
                close(y, convolution(x, mean, d, stride, groups=3))
                if d == 1:
                    around = F.pad(x.unsqueeze(0), (taps - 1, 0), mode="circular")
                    close(y[:, ::stride], F.avg_pool1d(around, taps, stride)[0])


@pytest.mark.parametrize("size", SIZES)
def test_a4_composition_with_a_fixed_matrix(size):
    """Depths add: of M for a matrix before, of K for one behind (the printed claim forgets the latter)."""
    index = torch.randperm(size, generator=seeded())
    fixed = permutation(index, **DOUBLE)
    k, ell, m = inverse(size), forward(size), forward(size)
    w, x = noise(2, 2, 3, seed=2), noise(2, size)
    before, behind = m @ fixed, fixed @ k
    assert depths(k, ell, before) == (1, 1, 3)
    close(xd(k, ell, before, w, x), convolution(x[:, index], w))
    assert depths(behind, ell, m) == (3, 1, 1)
    close(xd(behind, ell, m, w, x), convolution(x, w)[:, index])


def graph_convolution(graph, w, x):
    return torch.einsum("pu,iu,oi->op", graph, x, w[..., 0])


@pytest.mark.parametrize("size", SIZES)
def test_a5_graph_convolution_on_a_ring(size):
    """Self-loops added, degrees absorbed; a ring is a circulant of two blocks."""
    adjacency = torch.eye(size, dtype=torch.float64)
    adjacency = adjacency + adjacency.roll(1, 0) + adjacency.roll(-1, 0)
    scale = real(adjacency.sum(1).rsqrt())
    m = forward(size)
    ring = inverse(size) @ diagonal_left(real(dense(m) @ (adjacency[:, 0] + 0j)), m)
    assert ring.depth == 2
    graph = diagonal_left(scale, diagonal_right(ring, scale))
    w, x = noise(3, 2, 1, seed=2), noise(2, size)
    expected = graph_convolution(adjacency / 3, w, x)
    assert depths(inverse(size), m, m @ graph) == (1, 1, 3)
    close(xd(inverse(size), m, m @ graph, w, x), expected)
    one = identity(size, **DOUBLE)
    assert depths(one, m, graph) == (1, 1, 2)  # L e_0 = 1, so the transforms on both sides can go
    close(xd(one, m, graph, w, x), expected)


@pytest.mark.parametrize("size", SIZES)
def test_a5_diffusion_on_a_sparse_graph(size):
    """Four edges, not symmetric in degree: six blocks, and an identity where two orders meet."""
    adjacency = torch.zeros(size, size, dtype=torch.float64)
    for one, other in ((0, 1), (0, 5), (2, 5), (3, 7)):
        adjacency[one, other] = adjacency[other, one] = 1
    degree = adjacency.sum(1)
    inverse_degree = torch.where(degree > 0, 1 / degree.clamp(min=1), 0)
    graph = diagonal_left(real(inverse_degree), sparse_from_dense(adjacency, **DOUBLE))
    assert graph.depth == 6
    m = forward(size) @ graph
    assert m.depth == 1 + 6 + 1
    w, x = noise(3, 2, 1, seed=2), noise(2, size)
    expected = graph_convolution(inverse_degree.unsqueeze(1) * adjacency, w, x)
    close(xd(inverse(size), forward(size), m, w, x), expected)
    close(xd(identity(size, **DOUBLE), forward(size), graph, w, x), expected)


@pytest.mark.parametrize("size", [8, 16, 12, 30])
def test_a6_fourier_neural_operator(size):
    x = noise(2, size)
    for modes in range(1, size // 2 + 1):
        k, ell, m = inverse(size), fno(size, modes, **DOUBLE), forward(size)
        assert depths(k, ell, m) == (1, 4, 1)
        w = noise(3, 2, 2 * modes, seed=2)
        weight = F.pad(torch.complex(w[..., :modes], w[..., modes:]), (0, size - modes))
        close(xd(k, ell, m, w, x), torch.fft.ifft(torch.einsum("oif,if->of", weight, torch.fft.fft(x))).real)


@pytest.mark.parametrize("size", SIZES)
def test_remark_a3_all_modes_with_complex_weights(size):
    """L is the digit reversal: two blocks, none where the order of frequencies is left to an index."""
    ell, modes = reversal(size, **DOUBLE), size - 1
    assert depths(inverse(size), ell, forward(size)) == (1, 2, 1)
    x, w = noise(2, size), torch.complex(noise(3, 2, modes), noise(3, 2, modes, seed=2))
    expected = torch.fft.ifft(torch.einsum("oif,if->of", F.pad(w, (0, 1)), torch.fft.fft(x))).real
    close(xd(inverse(size), ell, forward(size), w, x), expected)
    ordered = F.pad(w, (0, 1))[..., digit_reversal(stages(size))]
    close(xd(inverse(size), identity(size, **DOUBLE), forward(size), ordered, x), expected)


@pytest.mark.parametrize("size", [16, 32, 12, 30])
def test_a7_transposed_convolution(size):
    for taps, d in ((1, 1), (2, 1), (3, 1), (2, 2), (2, 3), (3, 2)):
        stride = d * (taps - 1) + 1
        points = size // stride
        m = forward(size) @ separation(size, points, stride, **DOUBLE)
        ell = forward(size) @ dilation(size, taps, d, **DOUBLE)
        assert depths(inverse(size), ell, m) == (1, 3, 3)
        layer = torch.nn.ConvTranspose1d(2, 3, taps, stride=stride, dilation=d, bias=False).double()
        x = noise(2, points)
        expected = F.pad(layer(x), (0, size - points * stride)).detach()
        w = layer.weight.detach().transpose(0, 1)
        close(xd(inverse(size), ell, m, w, x), expected)
        if d == 1:
            close(xd(inverse(size), forward(size), m, w, x), expected)  # depth (1, 1, 3)


@pytest.mark.parametrize("size", SIZES)
def test_remark_a4_depthwise_separable_convolution(size):
    k, ell, m = inverse(size), forward(size), forward(size)
    depthwise, pointwise, x = noise(3, 1, 4), noise(5, 3, 1, seed=2), noise(3, size)
    filters = torch.zeros(3, 3, 4, dtype=torch.float64)
    filters[range(3), range(3)] = depthwise[:, 0]
    inner = xd(k, ell, m, filters, x, gates=torch.eye(3, dtype=torch.float64))
    close(xd(k, ell, m, pointwise, inner), convolution(convolution(x, depthwise, groups=3), pointwise))


def test_more_depth_changes_nothing():
    """The backbone's operation is a start for any depth: identity blocks behind the needed ones."""
    size, w, x = 12, noise(3, 2, 3, seed=2), noise(2, 12)
    k, ell, m = (deepened(matrix, 4) for matrix in (inverse(size), forward(size), forward(size)))
    close(xd(k, ell, m, w, x), convolution(x, w))


def test_a_missing_transform_is_noticed():
    """The bias of A.3 as printed, without F, is not pooling: these comparisons can fail."""
    size, x = 16, noise(1, 16)
    kernel = F.pad(torch.ones(2, dtype=torch.float64) / 2, (0, size - 2))
    y = xd(inverse(size), zero(size, **DOUBLE), forward(size), noise(1, 1, 1), x, kernel)
    assert (y - (x + x.roll(1)) / 2).abs().max() > 0.1
