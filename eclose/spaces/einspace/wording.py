"""Parts of networks in words, and what a child has that its parent has not.

Words are those of the normal form: a window, a linear layer and an image are a convolution, products around a softmax
are attention.
"""

from typing import NamedTuple

from eclose.spaces.einspace.grammar import COL2IM, Branch, Op, Tree, children, factor
from eclose.spaces.einspace.network.forks import scores
from eclose.spaces.einspace.normal_form import Chain, Fork, chain
from eclose.spaces.einspace.terminals.options import EVERY

Told = tuple[str, str, str]  # words, sizes and kind of a part


class Part(NamedTuple):
    """One step of a network as people see it: an operation, several that run as one, or a fork."""

    words: str
    sizes: str
    kind: str  # that of the operation's record, or "attention"
    links: Chain  # what it is made of

    def __str__(self) -> str:
        return f"{self.words} ({self.sizes})" if self.sizes else self.words

    @property
    def fork(self) -> Fork | None:
        """The branches that are worth looking at one by one."""
        only = self.links[0]
        return only if isinstance(only, Fork) and self.kind != "attention" else None


def parts(links: Chain) -> list[Part]:
    """The steps of a chain."""
    found: list[Part] = []
    position = 0
    while position < len(links):
        taken = 1
        match links[position : position + 3]:
            case (Op("im2col") as windows, Op("linear") as linear, *after):
                taken = 3 if after == [COL2IM] else 2
                told = _convolution(windows, linear)
            case (Fork() as fork, *_):
                told = _fork(fork)
            case (Op() as op, *_):
                record = EVERY[op.name]
                told = record.words, record.detail(op.args), record.kind
        found.append(Part(*told, links[position : position + taken]))
        position += taken
    return found


def change(parent: Tree, child: Tree) -> str:
    """What was replaced by what: ``norm in place of leaky ReLU``, ``softmax added``, ``norm removed``."""
    before, after = (parts(chain(node)) for node in _smallest_difference(parent, child))
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    gone, come = _listed(before[start : len(before) - end]), _listed(after[start : len(after) - end])
    if gone and come:
        return f"{come} in place of {gone if gone != come else 'another'}"
    if gone or come:
        return f"{come} added" if come else f"{gone} removed"
    return "one module replaced"


def _smallest_difference(parent: Tree, child: Tree) -> tuple[Tree, Tree]:
    """The node of each tree below which they are the same."""
    if isinstance(parent, Op) or type(parent) is not type(child):
        return parent, child
    if isinstance(parent, Branch) and isinstance(child, Branch) and len(parent.branches) != len(child.branches):
        return parent.split, child.split  # branches were left out or repeated to fit the other split
    pairs = list(zip(children(parent), children(child), strict=True))
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    return _smallest_difference(*differing[0]) if len(differing) == 1 else (parent, child)


def _common(one: list[Part], other: list[Part]) -> int:
    """How many steps are the same from the begin on."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same


def _listed(steps: list[Part]) -> str:
    if len(steps) > 2:
        return f"{len(steps)} steps"
    return " and ".join(map(str, steps))


def _convolution(windows: Op, linear: Op) -> Told:
    kernel, stride, _ = windows.args
    strides = f"stride {stride}, " if stride > 1 else ""
    return "convolution", f"kernel {kernel}, {strides}width {linear.args[0]}", EVERY["linear"].kind


def _fork(fork: Fork) -> Told:
    attention = scores(fork)
    if attention and not attention.before:
        inner = [link for links in (*attention.fork.branches, fork.branches[1]) for link in links]
        widths = {link.args[0] for link in inner if isinstance(link, Op) and link.name == "linear"}
        if all(isinstance(link, Op) and link.name in ("linear", "permute") for link in inner):
            return "attention", f"width {min(widths)}" if len(widths) == 1 else "", "attention"
    merge, steps = EVERY[fork.merge.name].words, [len(parts(links)) for links in fork.branches]
    if len(fork.branches) == 1:
        return f"{factor(fork.split)} branches", f"{_steps(steps[0])} each, {merge}", "fork"
    if 0 in steps and fork.split.name == "clone":
        return "shortcut", f"past {_steps(max(steps))}, {merge}", "fork"
    return "two branches", f"{steps[0]} and {_steps(steps[1])}, {merge}", "fork"


def _steps(number: int) -> str:
    return f"{number} step{'' if number == 1 else 's'}"
