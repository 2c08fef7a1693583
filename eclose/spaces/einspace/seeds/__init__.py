"""Known networks as derivation trees, for any input: what a search may start from."""

from collections.abc import Callable

from eclose.signature import Signature
from eclose.spaces.einspace.grammar import Tree
from eclose.spaces.einspace.seeds.convolutional import resnet18, wrn16_4
from eclose.spaces.einspace.seeds.of_tokens import mixer, vit

SEEDS: dict[str, Callable[[Signature], Tree]] = {
    "resnet18": resnet18,
    "wrn16_4": wrn16_4,
    "vit": vit,
    "mixer": mixer,
}

__all__ = ["SEEDS", "mixer", "resnet18", "vit", "wrn16_4"]
