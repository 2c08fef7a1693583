"""Plain PyTorch networks that searches start from or compare with.

Each is a function of a :class:`~eclose.signature.Signature` whose keyword-only parameters are its options.
"""

from eclose.backbones.ccnn import ccnn
from eclose.backbones.defaults import default_backbone, regions, strongest
from eclose.backbones.factory import backbones, check_output, make_backbone
from eclose.backbones.fno import cnn, fno
from eclose.backbones.inception import inception
from eclose.backbones.kim import kim
from eclose.backbones.lenet import lenet, wide_lenet
from eclose.backbones.linear import linear
from eclose.backbones.linear_plus import linear_plus
from eclose.backbones.pyramidnet import pyramidnet
from eclose.backbones.random_filters import random_filters
from eclose.backbones.resnet import resnet
from eclose.backbones.resnet20 import resnet20
from eclose.backbones.spectral import SpectralConv
from eclose.backbones.spectrogram import spectrogram
from eclose.backbones.spherical import spherical
from eclose.backbones.tcn import tcn
from eclose.backbones.tokens import TokenEmbedding
from eclose.backbones.unet import unet
from eclose.backbones.wideresnet import wrn40_4

__all__ = [
    "SpectralConv",
    "TokenEmbedding",
    "backbones",
    "ccnn",
    "check_output",
    "cnn",
    "default_backbone",
    "fno",
    "inception",
    "kim",
    "lenet",
    "linear",
    "linear_plus",
    "make_backbone",
    "pyramidnet",
    "random_filters",
    "regions",
    "resnet",
    "resnet20",
    "spectrogram",
    "spherical",
    "strongest",
    "tcn",
    "unet",
    "wide_lenet",
    "wrn40_4",
]
