"""Spherical MNIST (Cohen et al. 2018, "Spherical CNNs", section 5.2): digits on a sphere, by latitude and longitude.

The procedure is that of the authors' script: the plane of an image touches the sphere at its south pole, and rays
from the north pole carry it over. ``docs/guide/data.md`` has every step.
"""

import hashlib
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eclose.errors import TaskError
from eclose.tasks.own_data.files import Array
from eclose.tasks.published.images import IMAGE_CLASSES, mnist_images
from eclose.tasks.source import Context, Pairs, Progress, Source, check_seed, hold_out, kept, named, tasks

_POLE = 2.001  # height of the point that rays begin at: just above the sphere, so that none is parallel to the plane
_NORTH = 0.5  # points further north see nothing; of these only the pole itself, in a straight ray, would see the image
_HALF = 1.5  # an image covers the square [-1.5, 1.5]^2 of the plane; the equator is a circle of radius 2
_CHUNK = 1000  # images projected together
_MOST_POINTS = 512
_PROCEDURE = 1  # raise it when the output changes: old cache files are then ignored


@tasks.register("spherical-mnist")
def spherical_mnist(context: Context, *, points: int = 60, val: int = 5000) -> Source:
    """Spherical MNIST: digits projected onto a sphere, as `points` latitudes x `points` longitudes. From MNIST."""
    return _source(context, points, val, None)


@tasks.register("spherical-mnist-rotated")
def spherical_mnist_rotated(context: Context, *, points: int = 60, val: int = 5000, seed: int = 0) -> Source:
    """Spherical MNIST, every digit turned on the sphere by a random rotation of its own. From MNIST."""
    check_seed("spherical-mnist-rotated", seed)
    return _source(context, points, val, seed)


def _source(context: Context, points: int, val: int, seed: int | None) -> Source:
    if not 2 <= points <= _MOST_POINTS:
        raise TaskError(f"task.points is {points}, but must lie between 2 and {_MOST_POINTS}")
    flat = mnist_images(context)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(images).data for images, _ in flat.values())).hexdigest()
    known = {"procedure": _PROCEDURE, "points": points, "seed": seed, "images": digest}
    round_ = kept(f"spherical-mnist-{points}", known, lambda: _projected(flat, points, seed, context.progress))
    pairs: Pairs = {part: (round_[f"x_{part}"], digits) for part, (_, digits) in flat.items()}
    return Source(named(hold_out(pairs, val)), IMAGE_CLASSES)


def _projected(flat: Pairs, points: int, seed: int | None, progress: Progress) -> dict[str, Array]:
    projected: dict[str, Array] = {}
    for number, (part, (images, _)) in enumerate(flat.items()):
        turns = None if seed is None else rotations(len(images), np.random.default_rng((seed, number)))
        projected[f"x_{part}"] = project(images, points, turns, progress)
    return projected


def rotations(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """``(count, 3, 3)``, uniform over all rotations of the sphere: unit quaternions of uniform direction."""
    normals = rng.standard_normal((count, 4))
    a, b, c, d = (normals / np.linalg.norm(normals, axis=1, keepdims=True)).T
    rows = (
        (a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)),
        (2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)),
        (2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=1)


def sphere(points: int) -> NDArray[np.float64]:
    """``(points, points, 3)``: the grid of Driscoll and Healy on the unit sphere, latitudes from the north pole."""
    steps = np.arange(points) / points
    latitude, longitude = np.meshgrid(math.pi * steps, 2 * math.pi * steps, indexing="ij")
    ring = np.sin(latitude)
    return np.stack([ring * np.cos(longitude), ring * np.sin(longitude), np.cos(latitude)], axis=-1)


def project(
    images: Array,  # (n, rows, columns) of bytes
    points: int,
    turns: NDArray[np.float64] | None,  # (n, 3, 3)
    progress: Progress,
) -> Array:
    """``(n, points, points)``: the images on the sphere, each with values from 0 to 255."""
    grid = torch.from_numpy(sphere(points)).float()
    projected = np.empty((len(images), points, points), np.uint8)
    for start in range(0, len(images), _CHUNK):
        progress(start, len(images))
        some = torch.tensor(images[start : start + _CHUNK], dtype=torch.float32)[:, None]
        turned = grid[None] if turns is None else _turned(grid, torch.tensor(turns[start : start + _CHUNK]))
        places = _places(turned, images.shape[1:]).expand(len(some), -1, -1, -1)
        seen = torch.nn.functional.grid_sample(some, places, align_corners=True)[:, 0]  # 0 beside the image
        projected[start : start + _CHUNK] = _full_range(seen * (turned[..., 2] < _NORTH)).numpy()
    return projected


def _turned(grid: Tensor, turns: Tensor) -> Tensor:
    points = len(grid)
    return (grid.reshape(-1, 3) @ turns.mT.float()).reshape(-1, points, points, 3)  # (n, points, points, 3)


def _places(directions: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Where the rays from the pole through the sphere meet the plane, in columns and rows: -1 the first, 1 the last."""
    height = directions[..., 2:] + 1  # above the plane
    plane = directions[..., :2] * (_POLE / (_POLE - height))  # (n, points, points, 2)
    rows_columns = (plane + _HALF) * (torch.tensor(sizes) / (2 * _HALF))
    return (rows_columns * (2 / (torch.tensor(sizes) - 1).clamp(min=1)) - 1).flip(-1)


def _full_range(images: Tensor) -> Tensor:
    low, high = images.amin((1, 2), keepdim=True), images.amax((1, 2), keepdim=True)
    return ((images - low) * (255 / (high - low).clamp(min=1e-6))).to(torch.uint8)
