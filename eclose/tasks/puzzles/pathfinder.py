"""Pathfinder (Linsley et al. 2018) as in the Long Range Arena: does one dashed contour join the two dots?

Every image has two long contours and short distractors. The dots are the ends of one long contour, or an end of each.
All images of a block are drawn together. A contour grows dash by dash; it turns a little each time and keeps away from
all others and from itself.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eclose.errors import TaskError
from eclose.tasks.own_data.reading import Reading
from eclose.tasks.source import Context, Progress, Source, check_range, generated_once, tasks

Mask = NDArray[np.bool_]
Points = NDArray[np.float64]

_GRID = 32  # contours are planned on a grid of this size, whatever the size of the image
_DASH, _PERIOD, _SPACING = 1.5, 3.0, 0.5  # a dash and its gap; sampled closely enough that pixels touch
_ALONG = np.arange(0.0, _PERIOD, _SPACING)
_VISIBLE = int((_ALONG < _DASH).sum())
_TURN = 0.8  # radians, at most, from a dash to the next
_TRIES = 12  # turns that a contour may try at a dash
_STARTS = 10  # times that a contour may begin
_CLEAR = 2  # empty pixels between two contours
_MARGIN = 1  # empty pixels at the border: a dot fits there
_BLOCK = 512  # images drawn together
_VERSION = 1  # raise it when images change: old cache files are then ignored
_PATIENCE = 30  # blocks without an image


@tasks.register("pathfinder")
def pathfinder(
    context: Context,
    *,
    size: int = 32,
    dashes: int = 14,
    distractors: int = 4,
    flat: bool = True,
    train: int = 160000,
    val: int = 20000,
    test: int = 20000,
    seed: int = 0,
) -> Source:
    """Pathfinder: does a dashed contour join two dots? Pixel after pixel, or an image without `flat`; generated."""
    rules = Rules(size, dashes, distractors)
    rules.check()
    arrays = generated_once(
        "pathfinder",
        f"pathfinder-{size}",
        {"version": _VERSION, **vars(rules)},
        lambda count: draw(count, rules, seed, context.progress),
        *(seed, train, val, test),
    )
    if flat:
        arrays = {name: a.reshape(len(a), -1) if name.startswith("x") else a for name, a in arrays.items()}
    return Source(arrays, Reading(kind="classification", axes=1 if flat else 2))


@dataclass(frozen=True)
class Rules:
    """The size of images and what is on them."""

    size: int  # pixels a side
    dashes: int  # of a long contour; a distractor has a third
    distractors: int  # at most: one that finds no room is left out

    def check(self) -> None:
        """Refuse rules that no image keeps."""
        if self.size not in range(_GRID, 257, _GRID):
            raise TaskError(f"task pathfinder: size is {self.size}, but must be a multiple of 32 up to 256")
        check_range("pathfinder", 3, 20, dashes=self.dashes)
        check_range("pathfinder", 0, 20, distractors=self.distractors)


def draw(
    count: int, rules: Rules, seed: int, progress: Progress = lambda done, total: None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """``count`` images ``(count, size, size)`` and whether their dots are joined, the same for a seed."""
    x, y = np.empty((count, rules.size, rules.size), np.uint8), np.empty(count, np.int64)
    done = block = waited = 0
    while done < count:
        progress(done, count)
        drawing = plan(rules, np.random.default_rng((seed, block)))
        new = min(len(drawing.joined), count - done)
        x[done : done + new] = drawing.render(rules.size)[:new]
        y[done : done + new] = drawing.joined[:new]
        done, block, waited = done + new, block + 1, 0 if new else waited + 1
        if waited == _PATIENCE:
            raise TaskError(
                f"task pathfinder: there is no room for two contours of {rules.dashes} dashes: ask for fewer"
            )
    progress(count, count)
    return x, y


@dataclass(frozen=True)
class Drawing:
    """Images before they are rendered: points in units of the grid, NaN for contours that found no room."""

    contours: list[Points]  # (images, dashes, points of a dash and its gap, 2) each; the first two are long
    dots: Points  # (images, 2, 2)
    joined: NDArray[np.int64]  # (images,)

    def render(self, size: int) -> NDArray[np.uint8]:
        """Dashes and dots in white."""
        scale = size // _GRID
        image = np.zeros((len(self.joined), size, size), np.uint8)
        for contour in self.contours:
            _stamp(image, contour[:, :, :_VISIBLE], scale, 0)
        _stamp(image, self.dots, scale, scale)
        return image

    def closed(self) -> list[Mask]:
        """Every contour by itself on the grid, without its gaps: ``(images, 32, 32)`` each."""
        masks = []
        for contour in self.contours:
            mask = np.zeros((len(self.joined), _GRID, _GRID), np.uint8)
            _stamp(mask, contour[:, :-1], 1, 0)
            _stamp(mask, contour[:, -1, :_VISIBLE], 1, 0)
            masks.append(mask > 0)
        return masks


def _stamp(image: NDArray[np.uint8], points: Points, scale: int, border: int) -> None:
    """White squares of one grid pixel, and a border around it, at points ``(images, ..., 2)``."""
    rows = np.broadcast_to(np.arange(len(points)).reshape(-1, *[1] * (points.ndim - 2)), points.shape[:-1])
    there = ~np.isnan(points[..., 0])
    corners = np.floor(points[there] * scale).astype(np.int64)
    for down in range(-border, scale + border):
        for right in range(-border, scale + border):
            image[rows[there], corners[:, 0] + down, corners[:, 1] + right] = 255


def plan(rules: Rules, rng: np.random.Generator) -> Drawing:
    """The images of a block in which both long contours found room."""
    blocked = np.ones((_BLOCK, _GRID, _GRID), np.bool_)
    blocked[:, _MARGIN + 1 : -_MARGIN - 1, _MARGIN + 1 : -_MARGIN - 1] = False
    contours: list[Points] = []
    for number in range(2 + rules.distractors):
        contour = _place(blocked, rules.dashes if number < 2 else max(2, rules.dashes // 3), rng)
        if number < 2:
            kept = ~_missing(contour)
            blocked, contours, contour = blocked[kept], [other[kept] for other in contours], contour[kept]
        mask = np.zeros(blocked.shape, np.uint8)
        _stamp(mask, contour, 1, 0)
        blocked |= _dilated(mask > 0, _CLEAR)
        contours.append(contour)
    joined = rng.integers(2, size=len(blocked))
    first, second = (_ends(contour, rng) for contour in contours[:2])
    dots = np.stack([first[:, 0], np.where(joined[:, None] > 0, first[:, 1], second[:, 0])], axis=1)
    return Drawing(contours, dots, joined)


def _place(blocked: Mask, dashes: int, rng: np.random.Generator) -> Points:
    """A contour in every image; one that gets stuck begins anew, a few times."""
    contour = _grow(blocked, dashes, rng)
    for _ in range(_STARTS - 1):
        stuck = np.flatnonzero(_missing(contour))
        contour[stuck] = _grow(blocked[stuck], dashes, rng)
    return contour


def _missing(contour: Points) -> Mask:
    return np.isnan(contour[:, 0, 0, 0])


def _ends(contour: Points, rng: np.random.Generator) -> Points:
    """Both ends ``(images, 2, 2)`` in random order."""
    ends = np.stack([contour[:, 0, 0], contour[:, -1, _VISIBLE - 1]], axis=1)
    swapped = rng.integers(2, size=len(ends)) > 0
    ends[swapped] = ends[swapped, ::-1]
    return ends


def _grow(blocked: Mask, dashes: int, rng: np.random.Generator) -> Points:
    """One contour in every image, away from what is blocked and from itself; NaN where it got stuck."""
    alive = np.arange(len(blocked))  # images whose contour goes on
    place = rng.uniform(_MARGIN + 1, _GRID - _MARGIN - 1, (len(alive), 2))
    heading = np.zeros(len(alive))
    contour = np.full((len(alive), dashes, len(_ALONG), 2), np.nan)
    trail = np.full(blocked.shape, dashes, np.int8)  # when a pixel, or one beside it, was drawn on
    for dash in range(dashes):
        headings = heading[:, None] + rng.uniform(-1, 1, (len(alive), _TRIES)) * (_TURN if dash else math.pi)
        points = _ahead(place, headings)  # (images, tries, points of two dashes, 2)
        at = np.clip(points.astype(np.int64), 0, _GRID - 1)
        pixel = alive[:, None, None], at[..., 0], at[..., 1]
        free = ~(blocked[pixel] | (trail[pixel] < dash - 2))  # the last dashes may still be close
        room = np.asarray(free[..., : len(_ALONG)].all(2))
        chosen = (room.astype(np.int8) + (room & free.all(2))).argmax(1)  # the first try with room for two, or for one
        going = np.flatnonzero(room[np.arange(len(room)), chosen])
        alive, chosen = alive[going], chosen[going]
        contour[alive, dash] = points[going, chosen, : len(_ALONG)]
        place, heading = points[going, chosen, len(_ALONG)], headings[going, chosen]
        _mark(trail, alive, at[going, chosen, : len(_ALONG)], dash)
    stuck = np.ones(len(blocked), np.bool_)
    stuck[alive] = False
    contour[stuck] = np.nan
    return contour


def _ahead(place: Points, headings: Points) -> Points:
    """Points of this dash and the next, if the next one goes straight on."""
    directions = np.stack([np.sin(headings), np.cos(headings)], axis=-1)
    return place[:, None, None] + directions[:, :, None] * np.concatenate([_ALONG, _ALONG + _PERIOD])[:, None]


def _mark(trail: NDArray[np.int8], images: NDArray[np.int64], at: NDArray[np.int64], dash: int) -> None:
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):  # never beyond the border: the margin is blocked
            trail[images[:, None], at[..., 0] + down, at[..., 1] + right] = dash


def _dilated(mask: Mask, by: int) -> Mask:
    """With all pixels within ``by`` rows and columns."""
    for axis in (1, 2):
        padded = np.pad(mask, [(0, 0), *((by, by) if axis == each else (0, 0) for each in (1, 2))])
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * by + 1, axis)
        mask = np.logical_or.reduce(windows, axis=-1)
    return mask
