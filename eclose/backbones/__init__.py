"""Plain PyTorch networks that searches start from or compare with.

Each is a function of a :class:`~eclose.signature.Signature` whose keyword-only parameters are its options.
"""

from eclose.backbones.factory import backbones, check_output, default_backbone, make_backbone, strongest
from eclose.backbones.fno import cnn, fno
from eclose.backbones.lenet import lenet
from eclose.backbones.resnet import resnet
from eclose.backbones.resnet20 import resnet20
from eclose.backbones.spectral import SpectralConv
from eclose.backbones.tokens import TokenEmbedding
from eclose.backbones.unet import unet
from eclose.backbones.wideresnet import wrn40_4

__all__ = [
    "SpectralConv",
    "TokenEmbedding",
    "backbones",
    "check_output",
    "cnn",
    "default_backbone",
    "fno",
    "lenet",
    "make_backbone",
    "resnet",
    "resnet20",
    "strongest",
    "unet",
    "wrn40_4",
]
