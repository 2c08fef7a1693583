import torch

from eclose.ops.kaleidoscope import pairs

from .cases import close, noise


def test_arithmetic_is_that_of_complex_numbers():
    x, y = noise(3, 4, 2), noise(5, 1, 4, 2, seed=2)
    a, b = pairs.to_complex(x), pairs.to_complex(y)
    close(pairs.to_complex(pairs.multiply(x, y)), a * b)
    close(pairs.to_complex(pairs.turned(x)), 1j * a)
    close(pairs.to_complex(pairs.conjugate(x)), a.conj().resolve_conj())
    assert torch.equal(pairs.from_complex(a), x)
    assert torch.equal(pairs.to_complex(pairs.from_complex(a.real)), a.real + 0j)


def test_matrix_product():
    x, y = noise(2, 3, 5, 2), noise(2, 5, 4, 2, seed=2)
    close(pairs.to_complex(pairs.matmul(x, y)), pairs.to_complex(x) @ pairs.to_complex(y))
