"""Checks that a network of this package makes sense for a task, each with the way out in its message."""

from eclose.errors import ConfigError, Unsuited
from eclose.signature import Signature

_FOR_EVERY_POSITION = "unet, fno, inception, tcn or cnn"
_FOR_EVERY_SAMPLE = "inception, resnet, tcn, fno or cnn"


def need_axes(name: str, signature: Signature) -> None:
    """Refuse anything but one to three space axes."""
    if not 1 <= signature.axes <= 3:
        raise Unsuited(
            f"backbone '{name}' works on 1 to 3 space axes, but an input of this task has {signature.axes}; "
            "reshape x to (N, channels, *space) or give a network of your own as package.module:attribute"
        )
    if signature.tokens and signature.axes != 1:
        raise Unsuited(
            f"backbone '{name}' reads tokens along 1 axis, but an input of this task has {signature.axes}; "
            "reshape x to (N, length)"
        )


def need_pooled(name: str, signature: Signature) -> None:
    """Refuse tasks that want an answer at every position."""
    if not signature.pooled:
        raise ConfigError(
            f"backbone '{name}' gives one answer a sample and cannot do {signature.kind}; choose {_FOR_EVERY_POSITION}"
        )


def need_dense(name: str, signature: Signature) -> None:
    """Refuse tasks that want one answer a sample."""
    if signature.pooled:
        raise ConfigError(
            f"backbone '{name}' gives an answer at every position and cannot do {signature.kind}; "
            f"choose {_FOR_EVERY_SAMPLE}"
        )


def need_size(name: str, signature: Signature, smallest: int) -> None:
    """Refuse inputs with an axis shorter than ``smallest``."""
    if min(signature.sizes) < smallest:
        shape = "x".join(map(str, signature.sizes))
        raise ConfigError(
            f"backbone '{name}' needs at least {smallest} points along every axis, but an input of this task "
            f"is {shape}; choose resnet, which takes any size"
        )


def need_at_least(name: str, smallest: float, **options: float) -> None:
    """Refuse option values below ``smallest``."""
    for option, value in options.items():
        if value < smallest:
            raise ConfigError(f"backbone.{option} is {value}, but '{name}' needs it to be at least {smallest}")


def need_odd(name: str, **options: int) -> None:
    """Refuse even kernel sizes, which have no centre."""
    for option, value in options.items():
        if value % 2 == 0:
            raise ConfigError(f"backbone.{option} is {value}, but '{name}' needs an odd number")


def need_probability(name: str, **options: float) -> None:
    """Refuse option values outside of [0, 1)."""
    for option, value in options.items():
        if not 0 <= value < 1:
            raise ConfigError(f"backbone.{option} is {value}, but '{name}' needs it in [0, 1)")
