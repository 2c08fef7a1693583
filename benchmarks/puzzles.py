"""Samples per second of the generators of ListOps and Pathfinder, at the sizes of the Long Range Arena."""

import statistics
import time

import numpy as np
import torch

from benchmarks.runner import Entry
from eclose.tasks.puzzles import listops, pathfinder

EXPRESSIONS = listops.Rules(depth=10, arguments=10, shortest=501, longest=1999)
IMAGES = pathfinder.Rules(size=32, dashes=14, distractors=4)
OPERATORS = {"[MIN": min, "[MAX": max, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}


def check(device: torch.device) -> str:
    """Values by a stack, connectivity by one contour's own pixels."""
    for tokens, value in zip(*listops.expressions(100, EXPRESSIONS, seed=7), strict=True):
        stack: list[tuple[str, list[int]]] = [("", [])]
        for token in tokens[tokens > 0]:
            word = listops.TOKENS[token]
            if word == "]":
                name, values = stack.pop()
                stack[-1][1].append(OPERATORS[name](values))
            elif word.isdigit():
                stack[-1][1].append(int(word))
            else:
                stack.append((word, []))
        assert stack == [("", [value])], "a stack finds another value"
    drawing = pathfinder.plan(IMAGES, np.random.default_rng(7))
    rows, dots = np.arange(len(drawing.joined))[:, None], np.floor(drawing.dots).astype(int)
    both = [mask[rows, dots[..., 0], dots[..., 1]].all(1) for mask in drawing.closed()]
    np.testing.assert_array_equal(np.any(both, axis=0), drawing.joined > 0)
    return "a stack finds the values of 100 expressions; both dots lie on one contour where they are joined"


def measure(device: torch.device) -> list[str]:
    """Once each, after a short run; one thread, since numpy uses no more here."""
    makers = {
        "ListOps, 501 to 1999 tokens": (lambda count: listops.expressions(count, EXPRESSIONS, seed=0), 20000, 1000),
        "Pathfinder, 32 x 32, 14 dashes": (lambda count: pathfinder.draw(count, IMAGES, seed=0), 5000, 200),
    }
    lines = ["| puzzle | samples | seconds | samples a second | goal |", "|---|---|---|---|---|"]
    for name, (make, count, goal) in makers.items():
        make(100)
        begun = time.perf_counter()
        make(count)
        seconds = time.perf_counter() - begun
        lines.append(f"| {name} | {count} | {seconds:.1f} | {count / seconds:.0f} | {goal} |")
    return lines


ENTRY = Entry("puzzles", "Generating ListOps and Pathfinder", check, measure)
