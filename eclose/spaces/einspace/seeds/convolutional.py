"""ResNet-18 and WRN-16-4 (B.1): small first kernels, and a strided convolution in the place of max-pooling."""

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import IDENTITY, Tree
from eclose.spaces.einspace.seeds.parts import NORM, RELU, as_image, conv, residual, sequence


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
