"""Where a teacher and what was found under it look, as pictures."""

from torch import Tensor, nn

from eclose.errors import ConfigError
from eclose.plural import plural
from eclose.spaces.explanation import Line, Map, Picture, Plot, Section, rounded
from eclose.train.teacher import Lesson, Teacher, resized

_SAMPLES = 2
_POINTS = {1: 128, 2: 24}  # along an axis of a picture


def attention_section(teacher: Teacher, model: nn.Module, x: Tensor) -> Section | None:
    """The attention of both at every stage that they share, for the first of some samples; None: they share none."""
    try:
        lesson = Lesson(teacher, model)
    except ConfigError:
        return None
    stages = lesson.maps(x)
    apart = f"{lesson.distance(x):.3g}"
    told = (
        "Attention is the sum of the squared features over the channels, at every point, in maps of length one.",
        f"Half the distance between the two, summed over the stages, is {apart} on {plural(len(x), 'sample')} "
        "that neither has learned from (0: they look at the same, 0.71 a stage: at nothing in common).",
    )
    pictures = tuple(_picture(ours, theirs) for ours, theirs in stages)
    return Section("Attention of the teacher and of the network", told, pictures=pictures)


def _picture(ours: Tensor, theirs: Tensor) -> Picture:  # (batch, *space) each
    """Of one stage; a volume is averaged over its first axis."""
    sizes = tuple(ours.shape[1:])
    title = f"features of {' x '.join(map(str, sizes))} points"
    if len(sizes) == 3:
        ours, theirs = ours.mean(1), theirs.mean(1)
    drawn = tuple(min(size, _POINTS[ours.dim() - 1]) for size in ours.shape[1:])
    pairs = [resized(maps[:_SAMPLES], drawn).cpu() for maps in (theirs, ours)]
    if len(drawn) == 1:
        signals = enumerate(zip(pairs[0], pairs[1], strict=True))
        return Picture(title, plots=tuple(_plot(number, *both, size=sizes[0]) for number, both in signals))
    maps = tuple(
        Map(f"{who}, sample {number + 1}", tuple(rounded(row.tolist()) for row in sample))
        for number, both in enumerate(zip(*pairs, strict=True))
        for who, sample in zip(("teacher", "network"), both, strict=True)
    )
    return Picture(title, maps=maps, columns=2)


def _plot(number: int, theirs: Tensor, ours: Tensor, size: int) -> Plot:
    lines = [Line(who, rounded(line.tolist())) for who, line in (("teacher", theirs), ("network", ours))]
    return Plot(f"sample {number + 1}", tuple(lines), 0, size - 1)
