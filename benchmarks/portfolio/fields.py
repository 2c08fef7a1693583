"""Three sets from fields to fields, made by rules, that a linear map of the whole input comes near.

What is the same for all samples, as the angles of a scan, the margins of a lens or the conductivity of a rod, a
network has to find out.
"""

from collections.abc import Callable, Mapping

import numpy as np

Arrays = dict[str, np.ndarray]
Pair = tuple[np.ndarray, np.ndarray]


def _tomography(rng: np.random.Generator, samples: int, side: int = 24) -> Pair:
    """Images of ellipses from their shadows at as many unordered angles as the image has rows."""
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    images = np.zeros((samples, side, side))
    for image in images:
        for _ in range(rng.integers(2, 6)):
            (a, b), turn = rng.uniform(2, 8, 2), rng.uniform(0, np.pi)
            u, v = rows - rng.uniform(-8, 8), columns - rng.uniform(-8, 8)
            along, across = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
            image[(along / a) ** 2 + (across / b) ** 2 < 1] += rng.uniform(0.2, 1)
    shadows = np.zeros_like(images)
    for at, angle in enumerate(rng.permutation(side) * np.pi / side):
        place = (rows * np.cos(angle) + columns * np.sin(angle)).ravel() * 0.7 + (side - 1) / 2
        near = np.maximum(0, 1 - abs(place[:, None] - np.arange(side)))  # (pixels, detectors)
        shadows[:, at] = images.reshape(samples, -1) @ near
    return shadows + 0.3 * rng.normal(size=shadows.shape), images


def _deblurring(rng: np.random.Generator, samples: int, points: int = 96) -> Pair:
    """Steps from what a lens makes of them that blurs its margins more than its middle."""
    jumps = np.where(rng.random((samples, points)) < 0.06, rng.normal(size=(samples, points)), 0)
    signals = rng.normal(size=(samples, 1)) + jumps.cumsum(1)
    apart = np.arange(points)[:, None] - np.arange(points)
    widths = 1.5 + 4 * abs(np.linspace(-1, 1, points))[:, None]
    blur = np.exp(-0.5 * (apart / widths) ** 2)
    blurred = signals @ (blur / blur.sum(1, keepdims=True)).T
    return blurred + 0.02 * rng.normal(size=blurred.shape), signals


def _smooth(rng: np.random.Generator, samples: int, points: int, waves: int = 12) -> np.ndarray:
    """Random sums of sines that vanish at both ends."""
    sines = np.sin(np.pi * np.outer(np.arange(1, waves + 1), np.linspace(0, 1, points)))
    return (rng.normal(size=(samples, waves)) / np.sqrt(np.arange(1, waves + 1))) @ sines


def _cooling(rng: np.random.Generator, samples: int, points: int = 96, steps: int = 400) -> Pair:
    """Heat in a rod of uneven conductivity, at first and later; it loses a tenth of its cube in that time."""
    first = _smooth(rng, samples, points)
    conductivity, heat = np.exp(_smooth(rng, 1, points - 1, 8)[0]), first
    conductivity *= 0.4 / conductivity.max()
    for _ in range(steps):
        flow = np.pad(conductivity * np.diff(heat), ((0, 0), (1, 1)))
        heat = heat + np.diff(flow) - 0.1 / steps * heat**3
    return first, heat


_FIELDS: Mapping[str, Callable[[np.random.Generator, int], Pair]] = {
    "Tomography": _tomography,
    "Deblurring": _deblurring,
    "Cooling": _cooling,
}
FIELDS = tuple(_FIELDS)


def make_fields(name: str, train: int = 1500, test: int = 500) -> Arrays:
    """The arrays of one set, always the same, with an axis for their channel."""
    x, y = (part.astype(np.float32)[:, None] for part in _FIELDS[name](np.random.default_rng(0), train + test))
    return {"x_train": x[:train], "y_train": y[:train], "x_test": x[train:], "y_test": y[train:]}
