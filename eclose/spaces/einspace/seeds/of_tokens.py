"""ViT and MLP-Mixer (B.1): patches of 4, width 512.

The widths inside are those that give the paper's parameter counts: heads of 64, feed-forward layers that keep the
width, and in the mixer four times the number of tokens and half the number of features.
"""

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import IDENTITY, SOFTMAX, Branch, Op, Route, Sequential, Tree
from eclose.spaces.einspace.seeds.parts import NORM, RELU, TRANSPOSE, TWICE, linear, patches, residual, sequence

WIDTH = 512
PATCH = 4


def vit(signature: Signature) -> Tree:
    """Vision transformer: four pre-norm layers of four heads."""
    embedding, _ = patches(signature, PATCH, WIDTH)
    attend = residual(NORM, Branch(Op("clone", (4,)), (attention_head(64),), Op("concat", (2,))), linear(WIDTH))
    feed_forward = residual(NORM, linear(WIDTH), RELU, linear(WIDTH))
    return sequence([*embedding, *4 * [attend, feed_forward], NORM])


def attention_head(width: int) -> Tree:
    """Scaled dot-product attention over tokens."""
    keys = Route(IDENTITY, linear(width), TRANSPOSE)
    scores = Branch(TWICE, (linear(width), keys), Op("scaled-matmul"))
    return Branch(TWICE, (Sequential(scores, SOFTMAX), linear(width)), Op("matmul"))


def mixer(signature: Signature) -> Tree:
    """MLP-Mixer: eight layers that mix tokens, then features."""
    embedding, tokens = patches(signature, PATCH, WIDTH)
    across = sequence([linear(4 * tokens), RELU, linear(tokens)])
    mix_tokens = residual(NORM, Route(TRANSPOSE, across, TRANSPOSE))
    mix_features = residual(NORM, linear(WIDTH // 2), RELU, linear(WIDTH))
    return sequence([*embedding, *8 * [mix_tokens, mix_features], NORM])
