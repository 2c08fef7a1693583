import math

import numpy as np

from eclose.tasks.published import spherical
from eclose.tasks.published.spherical import project, rotations, sphere
from tests.tasks.published.pieces import load, mnist_folder, refused


def silent(done, total):
    pass


def noise(count, size=12):
    images = np.zeros((count, size, size), np.uint8)  # dark at the border, as digits are
    images[:, 2:-2, 2:-2] = np.random.default_rng(1).integers(0, 256, (count, size - 4, size - 4))
    return images


def transcribed(image, direction):
    """One point of the sphere, as the authors' script has it (sphere on the plane z = 0, rays from z = 2.001)."""
    x, y, z = direction
    z = z + 1
    t = -z / (z - 2.001)
    row, column = ((q + 1.5) / 3 * len(image) for q in (t * x + x, t * y + y))
    total = 0.0
    for i in (math.floor(row), math.floor(row) + 1):
        for j in (math.floor(column), math.floor(column) + 1):
            if 0 <= i < len(image) and 0 <= j < len(image):
                total += (1 - abs(row - i)) * (1 - abs(column - j)) * float(image[i, j])
    return total


def test_images_are_those_of_the_published_procedure():
    images, turns = noise(3), rotations(3, np.random.default_rng(2))
    grid = sphere(10)
    for turned in (turns, None):
        got = project(images, 10, turned, silent).astype(int)
        for number, image in enumerate(images):
            matrix = np.eye(3) if turned is None else turned[number]
            values = np.array([[transcribed(image, matrix @ point) for point in row] for row in grid])
            if turned is None:
                values[0] = 0  # the north pole: the script shows the middle of the image there
            expected = 255 * (values - values.min()) / (values.max() - values.min())
            assert np.abs(got[number] - np.floor(expected)).max() <= 1
            assert got[number].max() >= 254


def test_the_grid_has_its_poles_and_its_equator():
    grid = sphere(8)
    np.testing.assert_allclose(np.linalg.norm(grid, axis=-1), 1)
    np.testing.assert_allclose(grid[0], [[0, 0, 1]] * 8)
    np.testing.assert_allclose(grid[4, :, 2], 0, atol=1e-15)


def test_a_turn_about_the_axis_of_the_sphere_moves_longitudes():
    images, angle = noise(2), 2 * math.pi * 3 / 12
    turn = [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]]
    turned = project(images, 12, np.array([turn, turn]), silent)
    moved = np.roll(project(images, 12, None, silent), -3, axis=2)
    assert np.abs(turned.astype(int) - moved).max() <= 1


def test_rotations_are_rotations_in_all_directions():
    turns = rotations(4000, np.random.default_rng(0))
    np.testing.assert_allclose(turns @ turns.transpose(0, 2, 1), np.tile(np.eye(3), (4000, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(turns), 1)
    assert np.abs(turns.mean(0)).max() < 0.03  # every axis goes anywhere
    angles = np.arccos(np.clip((np.trace(turns, axis1=1, axis2=2) - 1) / 2, -1, 1))
    assert abs(angles.mean() - (math.pi / 2 + 2 / math.pi)) < 0.03  # that of uniform rotations


def test_every_digit_has_a_rotation_of_its_own_by_the_seed(tmp_path):
    mnist_folder(tmp_path, train=30, test=12, space=(12, 12))
    given = np.load(tmp_path / "mnist" / "mnist.npz")
    np.savez(tmp_path / "mnist" / "mnist.npz", **{**given, "x_train": np.repeat(noise(1), 30, axis=0)})
    flat, first, again, other = (
        load(name, tmp_path, points=10, val=5, **seed).train.all()[0].numpy()
        for name, seed in (
            ("spherical-mnist", {}),
            ("spherical-mnist-rotated", {"seed": 1}),
            ("spherical-mnist-rotated", {"seed": 1}),
            ("spherical-mnist-rotated", {"seed": 2}),
        )
    )
    assert len({image.tobytes() for image in flat}) == 1
    assert len({image.tobytes() for image in first}) == 25
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_they_are_made_once_and_anew_from_other_images(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(spherical, "project", lambda *given: calls.append(1) or project(*given))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    mnist_folder(tmp_path / "a", train=30, test=12, space=(11, 11))
    mnist_folder(tmp_path / "b", train=31, test=12, space=(11, 11))
    for folder, made in (("a", 2), ("a", 2), ("b", 4)):
        load("spherical-mnist", tmp_path / folder, points=5, val=5)
        assert len(calls) == made


def test_settings_out_of_range_are_refused(tmp_path):
    mnist_folder(tmp_path)
    assert refused("spherical-mnist", tmp_path, points=1) == "task.points is 1, but must lie between 2 and 512"
    assert "seed must lie between 0 and 2**63 - 1, got -1" in refused("spherical-mnist-rotated", tmp_path, seed=-1)
    assert "task.val is 400, but must lie between 0 and 399" in refused("spherical-mnist", tmp_path, val=400)
