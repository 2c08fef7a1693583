"""Known networks as derivations, for any input: what a search may start from.

The paper's four (B.1) are the same for every size of input. ResNet-18 and WRN-16-4 have small first kernels, and a
strided convolution in the place of max-pooling. ViT and MLP-Mixer have patches of 4 and width 512; the widths inside
are those that give the paper's parameter counts: heads of 64, feed-forward layers that keep the width, and in the mixer
four times the number of tokens and half the number of features.

The fitted ones have strides, kernels and patches by the size of the input, and are small: a search can train many.
"""

from collections.abc import Callable, Sequence
from itertools import count
from math import prod

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import COL2IM, IDENTITY, SOFTMAX, Branch, Op, Route, Sequential, Tree
from eclose.spaces.einspace.terminals.routing import windows

Sizes = tuple[int, ...]
Window = tuple[int, int, int]  # size, stride, padding

_WIDTH = 512
_PATCH = 4

# Of fitted networks, by the number of axes.
_RESNET_WIDTH = {1: 64, 2: 32, 3: 16}
_RESNET_KERNELS = {1: (7, 5, 3), 2: (3, 3), 3: (3, 3)}
_INCEPTION_WIDTH = {1: 32, 2: 16, 3: 8}
_INCEPTION_KERNEL = {1: 39, 2: 7, 3: 5}
_LONGEST = {1: 512, 2: 64, 3: 32}  # points along an axis that are left to the stages
_SHORTEST = 8  # points along the longest axis, at most: no stage halves them
_NARROW = 64  # width of fitted networks on tokens
TOKENS = 64  # as many patches, at most

NORM, RELU, ENCODING = Op("norm"), Op("relu"), Op("pos-enc")
_TRANSPOSE = Op("permute", (2, 1))
_TWICE = Op("clone", (2,))


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
    embedding, _ = patches(signature, _whole_patches(signature), _WIDTH)
    attend = residual(NORM, Branch(Op("clone", (4,)), (attention_head(64),), Op("concat", (2,))), linear(_WIDTH))
    feed_forward = residual(NORM, linear(_WIDTH), RELU, linear(_WIDTH))
    return sequence([*embedding, *4 * [attend, feed_forward], NORM])


def _whole_patches(signature: Signature) -> Window:
    """Patches of 4; points where those do not fit."""
    return (_PATCH, _PATCH, 0) if min(signature.sizes) >= _PATCH else (1, 1, 0)


def attention_head(width: int) -> Tree:
    """Scaled dot-product attention over tokens."""
    keys = Route(IDENTITY, linear(width), _TRANSPOSE)
    scores = Branch(_TWICE, (linear(width), keys), Op("scaled-matmul"))
    return Branch(_TWICE, (Sequential(scores, SOFTMAX), linear(width)), Op("matmul"))


def mixer(signature: Signature) -> Tree:
    """MLP-Mixer: eight layers that mix tokens, then features."""
    embedding, tokens = patches(signature, _whole_patches(signature), _WIDTH)
    across = sequence([linear(4 * tokens), RELU, linear(tokens)])
    mix_tokens = residual(NORM, Route(_TRANSPOSE, across, _TRANSPOSE))
    mix_features = residual(NORM, linear(_WIDTH // 2), RELU, linear(_WIDTH))
    return sequence([*embedding, *8 * [mix_tokens, mix_features], NORM])


def fitted_resnet(signature: Signature) -> Tree:
    """Residual network of three blocks (on one axis that of Wang et al. 2017), with strides that follow the input."""
    axes, width = signature.axes, _RESNET_WIDTH[signature.axes]
    parts, sizes = _stem(signature, width)
    for number in range(3):
        stride = _halving(signature, sizes) if number else 1
        wider = signature.pooled and (number == 1 or (number == 2 and axes > 1 and stride > 1))
        outputs = 2 * width if wider else width
        same = number > 0 and outputs == width and stride == 1
        shortcut = IDENTITY if same else sequence([conv(outputs, 1, stride), NORM])
        kernels = [min(kernel, 2 * max(sizes) - 1) for kernel in _RESNET_KERNELS[axes]]  # no wider than the input
        strides = [stride, *(len(kernels) - 1) * [1]]
        layers = [part for two in zip(kernels, strides, strict=True) for part in (conv(outputs, *two), NORM, RELU)]
        parts += [residual(*layers[:-1], shortcut=shortcut), RELU]
        width, sizes = outputs, _strided(sizes, stride)
    return sequence(parts)


def fitted_inception(signature: Signature) -> Tree:
    """InceptionTime (Ismail Fawaz et al. 2020) of three modules; pointwise convolutions in the place of max-pooling."""
    width = _INCEPTION_WIDTH[signature.axes]
    parts, sizes = _stem(signature, width)
    longest = min(_INCEPTION_KERNEL[signature.axes], max(sizes) // 2 | 1)
    module = _inception(width, (longest, longest // 2 | 1, longest // 4 | 1))
    modules = [module, NORM, RELU, module, NORM, RELU, module, NORM]
    return sequence([*parts, residual(*modules, shortcut=sequence([conv(4 * width, 1), NORM])), RELU])


def _inception(width: int, kernels: Sequence[int]) -> Tree:
    first, second, third = (conv(width, kernel) for kernel in kernels)
    wide = sequence([conv(width, 1), _side_by_side(_side_by_side(first, second), third)])
    return _side_by_side(wide, conv(width, 1))


def _side_by_side(first: Tree, second: Tree) -> Tree:
    return Branch(_TWICE, (first, second), Op("concat", (1,)))


def fitted_mixer(signature: Signature) -> Tree:
    """MLP-Mixer of four layers, on few patches."""
    embedding, tokens = patches(signature, _few_patches(signature), _NARROW)
    across = sequence([linear(tokens), RELU, linear(tokens)])
    mix_tokens = residual(NORM, Route(_TRANSPOSE, across, _TRANSPOSE))
    mix_features = residual(NORM, linear(2 * _NARROW), RELU, linear(_NARROW))
    return sequence([*embedding, *4 * [mix_tokens, mix_features], NORM])


def fitted_vit(signature: Signature) -> Tree:
    """Vision transformer of two layers of four heads, on few patches."""
    embedding, _ = patches(signature, _few_patches(signature), _NARROW)
    heads = Branch(Op("clone", (4,)), (attention_head(_NARROW // 4),), Op("concat", (2,)))
    feed_forward = residual(NORM, linear(2 * _NARROW), RELU, linear(_NARROW))
    return sequence([*embedding, *2 * [residual(NORM, heads, linear(_NARROW)), feed_forward], NORM])


def _stem(signature: Signature, width: int) -> tuple[list[Tree], Sizes]:
    """What makes long inputs of one answer short enough for the stages, and the sizes that it leaves."""
    parts, sizes = as_image(signature), signature.sizes
    longest = _LONGEST[signature.axes]
    while signature.pooled and max(sizes) > longest:
        stride = 4 if max(sizes) > 2 * longest else 2
        parts += [conv(width, 2 * stride - 1, stride), NORM, RELU]  # wider than the stride: no point is left out
        sizes = _strided(sizes, stride)
    return parts, sizes


def _halving(signature: Signature, sizes: Sizes) -> int:
    return 2 if signature.pooled and max(sizes) > _SHORTEST else 1


def _strided(sizes: Sizes, stride: int) -> Sizes:
    return tuple(-(-size // stride) for size in sizes)


def _few_patches(signature: Signature) -> Window:
    """The smallest patches of which there are few; they cover the whole input."""
    size = next(size for size in count(1) if prod(_strided(signature.sizes, size)) <= TOKENS)
    return size, size, max(-(-(-points % size) // 2) for points in signature.sizes)


FITTED: dict[str, Callable[[Signature], Tree]] = {
    "resnet": fitted_resnet,
    "inception": fitted_inception,
    "small_mixer": fitted_mixer,
    "small_vit": fitted_vit,
}
PAPER: dict[str, Callable[[Signature], Tree]] = {
    "resnet18": resnet18,
    "wrn16_4": wrn16_4,
    "vit": vit,
    "mixer": mixer,
}
SEEDS = {**FITTED, **PAPER}


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
    return Branch(_TWICE, (sequence(parts), shortcut), Op("add"))


def as_image(signature: Signature) -> list[Tree]:
    """What stands before a convolutional network: tokens become a signal."""
    return [Route(IDENTITY, IDENTITY, COL2IM)] if signature.tokens else []


def patches(signature: Signature, window: Window, width: int) -> tuple[list[Tree], int]:
    """An embedding of patches (of tokens as they are), and their number."""
    if signature.tokens:
        return [linear(width), ENCODING], signature.sizes[0]
    grid = windows(window, signature.sizes)
    assert grid, "patches fit"
    return [Route(Op("im2col", window), linear(width), IDENTITY), ENCODING], prod(grid)
