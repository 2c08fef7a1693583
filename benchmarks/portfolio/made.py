"""Five classification sets made by rules: a radio, spectra, sounds, boards and volumes, with known right answers.

Nothing in eclose was chosen on them. No standard network is made for all five: lines of a spectrum have their places,
sounds have none, a connected board needs its whole.
"""

from collections.abc import Callable, Mapping

import numpy as np

Arrays = dict[str, np.ndarray]
Made = tuple[list[np.ndarray], list[int]]


def _radio(rng: np.random.Generator, samples: int = 4000, points: int = 128) -> Made:
    """In-phase and quadrature parts of eight modulations with noise, phase and frequency unknown."""
    levels = [np.exp(2j * np.pi * np.arange(k) / k) for k in (2, 4, 8)]
    levels += [(np.add.outer((-3, -1, 1, 3), 1j * np.array((-3, -1, 1, 3))).ravel()) / 10**0.5]
    levels += [np.array((-3, -1, 1, 3)) / 5**0.5]
    x, y, every, smooth = [], [], 8, np.hanning(12) / 3
    for _ in range(samples):
        label = int(rng.integers(8))
        noise = np.convolve(rng.normal(size=points + 16), smooth, "same")[:points]
        if label < len(levels):
            symbols = np.repeat(rng.choice(levels[label], points // every + 2), every)
            signal = np.convolve(symbols, np.hanning(9) / 4, "same")[rng.integers(every) :][:points]
        elif label == 5:
            signal = 1 + 0.7 * noise + 0j
        else:
            bits = np.repeat(rng.choice((-1, 1), points // every), every)
            signal = np.exp(1j * np.cumsum(0.6 * noise if label == 6 else bits * np.pi / every / 2))
        turned = signal * np.exp(1j * (rng.uniform(0, 2 * np.pi) + 0.02 * rng.normal() * np.arange(points)))
        turned *= 10 ** (rng.uniform(0, 15) / 20) / np.sqrt(np.mean(np.abs(turned) ** 2))
        turned += (rng.normal(size=points) + 1j * rng.normal(size=points)) / 2**0.5
        x.append(np.stack([turned.real, turned.imag]))
        y.append(label)
    return x, y


def _lines(rng: np.random.Generator, samples: int = 800, points: int = 1024) -> Made:
    """Which of six weak triplets of lines is in a spectrum of 25 others."""
    x, y, places = [], [], np.arange(points)
    triplets = rng.integers(60, points - 60, (6, 3))
    for _ in range(samples):
        label, shift = int(rng.integers(6)), 3 * rng.normal()
        heights = np.concatenate([rng.exponential(size=25), rng.uniform(0.5, 1, 3)])
        centres = np.concatenate([rng.integers(0, points, 25), triplets[label] + shift])
        widths = np.concatenate([rng.uniform(2, 12, 25), np.full(3, 3.0)])
        bells = heights[:, None] * np.exp(-0.5 * ((places - centres[:, None]) / widths[:, None]) ** 2)
        baseline = np.polyval(rng.normal(size=4), places / points - 0.5)
        x.append((bells.sum(0) + baseline + 0.05 * rng.normal(size=points))[None])
        y.append(label)
    return x, y


def _sounds(rng: np.random.Generator, samples: int = 1500, points: int = 2048) -> Made:
    """Pure, rising, falling, vibrating, pulsing and square tones of any pitch in noise."""
    x, y, time = [], [], np.arange(points) / points
    for _ in range(samples):
        label, slow = int(rng.integers(6)), 2 * np.pi * rng.uniform(4, 10) * time
        cycles = rng.uniform(60, 250) * time + rng.uniform()
        cycles += (0, rng.uniform(20, 80) * time**2, -rng.uniform(15, 50) * time**2, 0, 0, 0)[label]
        tone = np.sin(2 * np.pi * cycles + (label == 3) * rng.uniform(3, 8) * np.sin(slow))
        tone = tone * (1 + 0.8 * np.sin(slow)) / 1.3 if label == 4 else tone
        tone = 0.8 * np.sign(tone) if label == 5 else tone
        x.append((tone * rng.uniform(0.5, 2) + rng.uniform(0.3, 1.5) * rng.normal(size=points))[None])
        y.append(label)
    return x, y


def _boards(rng: np.random.Generator, samples: int = 6000, side: int = 9) -> Made:
    """Whether the first player's stones connect the first row with the last."""
    x, y = [], []
    for _ in range(samples):
        stones = rng.random((side, side)) < rng.uniform(0.5, 0.68)
        reached, before = np.zeros_like(stones), -1
        reached[0] = stones[0]
        while (now := int(reached.sum())) != before:
            before, wide = now, np.pad(reached, 1)
            reached = stones & (reached | wide[2:, 1:-1] | wide[:-2, 1:-1] | wide[1:-1, 2:] | wide[1:-1, :-2])
        x.append(np.stack([stones, ~stones]).astype(np.float64))
        y.append(int(reached[-1].any()))
    return x, y


def _volumes(rng: np.random.Generator, samples: int = 1200, side: int = 14) -> Made:
    """A ball, a box, a rod or a ring, of any size and turned in any way, in noise."""
    x, y, grid = [], [], np.mgrid[:side, :side, :side]
    for _ in range(samples):
        label, size = int(rng.integers(4)), rng.uniform(2, 4)
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        a, b, c = np.einsum("ij,jxyz->ixyz", turn, grid - rng.uniform(4, side - 4, 3)[:, None, None, None])
        around = np.hypot(a, b)
        inside = (
            around**2 + c**2 < size**2,
            np.maximum(np.maximum(abs(a), abs(b)), abs(c)) < 0.8 * size,
            (around < 0.6 * size) & (abs(c) < 1.5 * size),
            (around - size) ** 2 + c**2 < 1.4,
        )[label]
        x.append((inside + 0.8 * rng.normal(size=inside.shape))[None])
        y.append(label)
    return x, y


_MADE: Mapping[str, tuple[Callable[[np.random.Generator], Made], int]] = {  # with the number of test samples
    "Radio": (_radio, 1500),
    "Lines": (_lines, 300),
    "Sounds": (_sounds, 500),
    "Boards": (_boards, 2000),
    "Volumes": (_volumes, 500),
}
MADE = tuple(_MADE)


def make_set(name: str) -> Arrays:
    """The arrays of one set, always the same."""
    make, tests = _MADE[name]
    samples, labels = make(np.random.default_rng(MADE.index(name)))
    x, y = np.stack(samples).astype(np.float32), np.array(labels)
    return {"x_train": x[tests:], "y_train": y[tests:], "x_test": x[:tests], "y_test": y[:tests]}
