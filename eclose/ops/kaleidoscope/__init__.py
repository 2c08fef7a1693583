"""Kaleidoscope matrices: products of butterfly blocks, which hold all fast linear transforms (Dao et al. 2020)."""

from eclose.ops.kaleidoscope.benes import permutation
from eclose.ops.kaleidoscope.diagonal import diagonal_left, diagonal_right
from eclose.ops.kaleidoscope.elementary import deepened, from_stages, identity, stacked, unitary, zero
from eclose.ops.kaleidoscope.fourier import dft, natural_dft
from eclose.ops.kaleidoscope.materialise import dense
from eclose.ops.kaleidoscope.matrix import KMatrix, apply_kronecker
from eclose.ops.kaleidoscope.modules import Kaleidoscope, KaleidoscopeLayer
from eclose.ops.kaleidoscope.named import dilation, fno, reversal, separation
from eclose.ops.kaleidoscope.sizes import digit_reversal, next_smooth, stages
from eclose.ops.kaleidoscope.sparsity import sparse, sparse_from_dense

__all__ = [
    "KMatrix",
    "Kaleidoscope",
    "KaleidoscopeLayer",
    "apply_kronecker",
    "deepened",
    "dense",
    "dft",
    "diagonal_left",
    "diagonal_right",
    "digit_reversal",
    "dilation",
    "fno",
    "from_stages",
    "identity",
    "natural_dft",
    "next_smooth",
    "permutation",
    "reversal",
    "separation",
    "sparse",
    "sparse_from_dense",
    "stacked",
    "stages",
    "unitary",
    "zero",
]
