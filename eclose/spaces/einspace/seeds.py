"""Known networks as derivations, for any input: what a search may start from (B.1).

ResNet-18 and WRN-16-4 have small first kernels, and a strided convolution in the place of max-pooling. ViT and
MLP-Mixer have patches of 4 and width 512; the widths inside are those that give the paper's parameter counts: heads of
64, feed-forward layers that keep the width, and in the mixer four times the number of tokens and half the number of
features.
"""

from collections.abc import Callable, Sequence
from math import prod

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import COL2IM, IDENTITY, SOFTMAX, Branch, Op, Route, Sequential, Tree
from eclose.spaces.einspace.terminals.routing import windows

WIDTH = 512
PATCH = 4

NORM, RELU, ENCODING = Op("norm"), Op("relu"), Op("pos-enc")
TRANSPOSE = Op("permute", (2, 1))
TWICE = Op("clone", (2,))


def resnet18(signature: Signature) -> Tree:
    """ResNet-18: a stem of stride 2, four stages of two blocks."""
    parts = [*as_image(signature), conv(64), NORM, RELU, conv(64, stride=2)]
    for width in (64, 128, 256, 512):
        stride = 1 if width == 64 else 2
        shortcut = IDENTITY if width == 64 else sequence([conv(width, 1, stride), NORM])
        parts += [_block(width, stride, shortcut), RELU, _block(width, 1, IDENTITY), RELU]
    return sequence(parts)


def _block(width: int, stride: int, shortcut: Tree) -> Tree:
    return residual(conv(width, stride=stride), NORM, RELU, conv(width), NORM, shortcut=shortcut)


def wrn16_4(signature: Signature) -> Tree:
    """Wide residual network of 16 layers, four times as wide: pre-activation, three stages of two blocks."""
    parts = [*as_image(signature), conv(16)]
    for width in (64, 128, 256):
        stride = 1 if width == 64 else 2
        wider = residual(conv(width, stride=stride), NORM, RELU, conv(width), shortcut=conv(width, 1, stride))
        parts += [NORM, RELU, wider, residual(NORM, RELU, conv(width), NORM, RELU, conv(width))]
    return sequence([*parts, NORM, RELU])


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


SEEDS: dict[str, Callable[[Signature], Tree]] = {
    "resnet18": resnet18,
    "wrn16_4": wrn16_4,
    "vit": vit,
    "mixer": mixer,
}


def sequence(parts: Sequence[Tree]) -> Tree:
    """Modules one after the other, nested as little as possible."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Sequential(sequence(parts[:middle]), sequence(parts[middle:]))


def linear(width: int) -> Op:
    """A linear layer."""
    return Op("linear", (width,))


def conv(width: int, kernel: int = 3, stride: int = 1) -> Tree:
    """A convolution with an odd kernel that keeps the size, up to its stride."""
    return Route(Op("im2col", (kernel, stride, kernel // 2)), linear(width), COL2IM)


def residual(*parts: Tree, shortcut: Tree = IDENTITY) -> Tree:
    """The sum of a sequence and of what passes by it."""
    return Branch(TWICE, (sequence(parts), shortcut), Op("add"))


def as_image(signature: Signature) -> list[Tree]:
    """What stands before a convolutional network: tokens become a signal."""
    return [Route(IDENTITY, IDENTITY, COL2IM)] if signature.tokens else []


def patches(signature: Signature, size: int, width: int) -> tuple[list[Tree], int]:
    """An embedding of patches (of points where patches do not fit, of tokens as they are), and their number."""
    if signature.tokens:
        return [linear(width), ENCODING], signature.sizes[0]
    window = (size, size, 0) if min(signature.sizes) >= size else (1, 1, 0)
    grid = windows(window, signature.sizes)
    assert grid, "windows of one point fit everywhere"
    return [Route(Op("im2col", window), linear(width), IDENTITY), ENCODING], prod(grid)
