import numpy as np
import pytest

from eclose.config import TaskSection
from eclose.errors import TaskError
from eclose.signature import Signature
from eclose.tasks import load_task
from eclose.tasks.puzzles.pathfinder import Rules, draw, plan

RULES = Rules(size=32, dashes=14, distractors=4)


@pytest.fixture(scope="module")
def drawing():
    return plan(RULES, np.random.default_rng(0))


def flood(mask, start):
    """All pixels that are reached from ``start`` over lit neighbours, of corners too."""
    reached, left = {start}, [start]
    while left:
        i, j = left.pop()
        for pixel in ((i + down, j + right) for down in (-1, 0, 1) for right in (-1, 0, 1)):
            inside = 0 <= pixel[0] < len(mask) and 0 <= pixel[1] < len(mask)
            if inside and mask[pixel] and pixel not in reached:
                reached.add(pixel)
                left.append(pixel)
    return reached


def pixels(mask):
    return {(int(i), int(j)) for i, j in np.argwhere(mask)}


def test_a_flood_from_one_dot_reaches_the_other_if_and_only_if_they_are_joined(drawing):
    whole = np.any(drawing.closed(), axis=0)
    assert len(whole) > 100
    for mask, dots, joined in zip(whole, np.floor(drawing.dots).astype(int), drawing.joined, strict=True):
        one, other = map(tuple, dots.tolist())
        assert mask[one]
        assert mask[other]
        assert (other in flood(mask, one)) == bool(joined)
    assert 0.4 < drawing.joined.mean() < 0.6


def test_contours_are_in_one_piece_and_apart_from_all_others(drawing):
    closed = drawing.closed()
    for row in range(40):
        whole = np.any([contour[row] for contour in closed], axis=0)
        for contour in closed:
            if lit := pixels(contour[row]):
                assert flood(whole, min(lit)) == lit
        assert closed[0][row].any()
        assert closed[1][row].any()


def test_only_dashes_and_dots_are_to_be_seen(drawing):
    images = drawing.render(32) > 0
    closed = drawing.closed()
    whole = np.any(closed, axis=0)
    for image, mask, dots in zip(images, whole, np.floor(drawing.dots).astype(int), strict=True):
        rest = image.copy()
        for i, j in dots:
            assert image[i - 1 : i + 2, j - 1 : j + 2].all()
            rest[i - 1 : i + 2, j - 1 : j + 2] = False
        assert not (rest & ~mask).any()
    for contour in closed[:2]:
        shares = (contour & images).sum((1, 2)) / contour.sum((1, 2))
        assert shares.max() < 0.95  # every contour has gaps
        assert shares.min() > 0.4


def test_dashes_are_as_many_as_asked_for(drawing):
    assert drawing.contours[0].shape[1] == 14
    assert drawing.contours[2].shape[1] == 4
    assert len(drawing.contours) == 6
    for contour in drawing.contours:
        there = contour[~np.isnan(contour[:, 0, 0, 0])]
        corners = there[:, :, 0]  # where dashes begin
        lengths = np.linalg.norm(np.diff(corners, axis=1), axis=-1)
        np.testing.assert_allclose(lengths, 3.0)


def test_larger_images_show_the_same(drawing):
    small, large = drawing.render(32) > 0, drawing.render(64) > 0
    near = np.zeros((len(small), 34, 34), bool)
    for down in range(3):
        for right in range(3):
            near[:, down : down + 32, right : right + 32] |= small
    near = near[:, 1:-1, 1:-1].repeat(2, axis=1).repeat(2, axis=2)
    assert not (large & ~near).any()
    assert 2.5 < large.sum() / small.sum() < 6


def test_a_seed_decides_and_more_images_begin_with_the_same():
    rules = Rules(size=32, dashes=6, distractors=1)
    x, y = draw(20, rules, seed=1)
    more, labels = draw(30, rules, seed=1)
    np.testing.assert_array_equal(more[:20], x)
    np.testing.assert_array_equal(labels[:20], y)
    assert (draw(20, rules, seed=2)[0] != x).any()
    assert len({image.tobytes() for image in more}) == 30


def load(**options):
    options = {"train": 10, "val": 5, "test": 5, "dashes": 6, **options}
    return load_task(TaskSection(name="pathfinder", options=options), lambda done, total: None)


def test_pixel_after_pixel_or_as_an_image():
    flat, images = load(), load(flat=False)
    assert flat.signature == Signature("classification", 1, (1024,), 2)
    assert images.signature == Signature("classification", 1, (32, 32), 2)
    assert (flat.train.all()[0].reshape(10, 1, 32, 32) == images.train.all()[0]).all()


REFUSED = {
    "size is 48, but must be a multiple of 32 up to 256": {"size": 48},
    "dashes is 2, but must lie between 3 and 20": {"dashes": 2},
    "distractors is -1, but must lie between 0 and 20": {"distractors": -1},
    "seed must lie between 0 and 2**63 - 1, got -1": {"seed": -1},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_is_refused(reason):
    with pytest.raises(TaskError) as error:
        load(**REFUSED[reason])
    assert str(error.value) == f"task pathfinder: {reason}"


def test_contours_without_room_are_refused(monkeypatch):
    monkeypatch.setattr("eclose.tasks.puzzles.pathfinder._PATIENCE", 2)
    monkeypatch.setattr("eclose.tasks.puzzles.pathfinder._MARGIN", 12)  # hardly any place is left
    with pytest.raises(TaskError) as error:
        draw(1, RULES, seed=0)
    assert str(error.value) == "task pathfinder: there is no room for two contours of 14 dashes: ask for fewer"
