"""How the data of a task was read, in one line: for people, before anything is trained."""

from typing import Any

from eclose.plural import plural
from eclose.tasks.task import Task

_NAMES = 4  # classes whose names are shown


def summary(task: Task) -> str:
    """``JapaneseVowels.npz: classification, 9 classes, 12 channels x 29 positions, 229 / 41 / 370 samples``."""
    parts = [task.signature.kind, _target(task), _input(task), _samples(task)]
    return f"{task.source or task.name}: {', '.join(parts)}"


def account(task: Task) -> dict[str, Any]:
    """The line with what is doubtful about it, and the reading as data."""
    known = {"signature": task.signature.as_dict(), "layout": task.layout.as_dict()}
    return {"text": summary(task), "doubts": list(task.doubts), **known}


def _target(task: Task) -> str:
    signature, classes = task.signature, task.layout.classes
    column = f" in column '{task.layout.label}'" if task.layout.label else ""
    if not signature.labels:
        each = "" if signature.pooled else f" at each {_point(len(signature.sizes))}"
        return f"{plural(signature.outputs, 'value')}{each}{column}"
    return f"{signature.outputs} classes{_named(classes)}{column}"


def _named(classes: tuple[int | str, ...]) -> str:
    """Names of a few classes, the range of numbers that do not begin at 0; numbers from 0 need no word."""
    if not classes or classes == tuple(range(len(classes))):
        return ""
    if isinstance(classes[0], int) and classes == tuple(range(classes[0], classes[0] + len(classes))):
        return f" ({classes[0]} to {classes[-1]})"
    shown = [str(name) for name in classes[:_NAMES]]
    return f" ({', '.join([*shown, *(['...'] if len(classes) > _NAMES else [])])})"


def _input(task: Task) -> str:
    signature = task.signature
    if signature.tokens:
        return f"sequences of {plural(signature.sizes[0], 'token')} out of {signature.vocabulary}"
    if task.layout.channels == "columns":
        return f"a table of {plural(signature.channels, 'column')}"
    sizes = " x ".join(map(str, signature.sizes))
    points = _point(signature.axes) + ("" if signature.sizes == (1,) else "s")
    return f"{plural(signature.channels, 'channel')} x {sizes} {points}"


def _samples(task: Task) -> str:
    counts = [len(split) for split in (task.train, task.val)] + [len(task.test) if task.test else 0]
    return f"{' / '.join(map(str, counts))} samples"


def _point(axes: int) -> str:
    return ("position", "pixel", "voxel")[axes - 1]
