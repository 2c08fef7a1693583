"""Inputs of all kinds, awkward sizes among them."""

import random

from eclose.signature import Signature
from eclose.spaces.einspace import Settings, Tree, sample

IMAGES = Signature("classification", 3, (32, 32), 10)
INPUTS = {
    "images": IMAGES,
    "rectangle": Signature("classification", 1, (9, 14), 3),
    "signals": Signature("regression", 2, (37,), 2),
    "volumes": Signature("classification", 4, (6, 8, 5), 3),
    "points": Signature("regression", 8, (1,), 1),
    "fields": Signature("dense", 2, (12, 7), 3),
    "waves": Signature("dense", 1, (24,), 2),
    "labels": Signature("segmentation", 2, (4, 6, 4), 5),
    "text": Signature("classification", 1, (18,), 6, vocabulary=11),
    "tags": Signature("segmentation", 1, (12,), 4, vocabulary=9),
}
SMALL = Settings(nodes=150, parameters=2e6, flops=1e8, activations=2e5)


def samples(signature: Signature, number: int, settings: Settings = SMALL, seed: int = 0) -> list[Tree]:
    rng = random.Random(seed)
    return [sample(signature, rng, settings) for _ in range(number)]
