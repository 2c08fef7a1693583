"""From a chain of operations to modules, recognising what has a faster form.

``im2col`` and ``linear`` are a convolution; a product, a softmax and a product are attention; repeated branches are
one branch over an axis of copies. Parameters are those of the operations as written.
"""

from torch import nn

from eclose.ops.recurrence import GatedScan
from eclose.ops.state_space import StateSpace
from eclose.spaces.einspace.build.layers import PositionalEncoding, convolution, linear, norm
from eclose.spaces.einspace.build.layout import Group, JoinCopies, Layout, Repeat, SumCopies
from eclose.spaces.einspace.build.merging import Attention, Halves, Merge, TwoBranches
from eclose.spaces.einspace.build.relaxed import relaxed_convolution
from eclose.spaces.einspace.build.routing import Col2Im, Im2Col, Permute, Tokens
from eclose.spaces.einspace.build.scores import Scores, scores
from eclose.spaces.einspace.chain import Chain, Fork
from eclose.spaces.einspace.grammar import COL2IM, Op, factor
from eclose.spaces.einspace.options import Option, merge_step, step
from eclose.spaces.einspace.shapes import State


def body(links: Chain, state: State) -> tuple[nn.Module, State]:
    """The network of a chain, and the state of its output."""
    built = Built(state, Layout()).add_all(links)
    return built.module(), built.state


class Built:
    """Modules so far, the state and the layout of the tensor after them."""

    def __init__(self, state: State, layout: Layout) -> None:
        self.modules: list[nn.Module] = []
        self.state, self.layout = state, layout

    def module(self) -> nn.Module:
        """All of them."""
        return self.modules[0] if len(self.modules) == 1 else nn.Sequential(*self.modules)

    def add_all(self, links: Chain) -> "Built":
        """Append the modules of ``links``."""
        position = 0
        while position < len(links):
            match links[position : position + 3]:
                case (Fork() as fork, *_):
                    self._fork(fork)
                case (Op("im2col") as windows, Op("linear") as linear, *after):
                    image = after == [COL2IM]
                    self._convolution(windows, linear, image)
                    position += 2 if image else 1
                case (Op() as op, *_):
                    self._op(op)
            position += 1
        return self

    def separate(self) -> "Built":
        """Give every copy a tensor of its own."""
        if self.layout.shared:
            self._append(Repeat(self.layout.copies, 1), self.state)
        return self

    def _append(self, module: nn.Module, state: State, apart: bool = True) -> None:
        self.modules.append(module)
        self.state = state
        if apart:
            self.layout = Layout(self.layout.copies)

    def _op(self, op: Op) -> None:
        before, after = self.state, _fitting(step(op, self.state))
        if op.name == "linear":
            self._append(linear(before.shape[-1], after.shape[-1], self.layout), after)
        elif op.name == "pos-enc":
            self._append(PositionalEncoding(after.shape, self.layout), after)
        elif op.name == "gru":
            features = before.shape[-1]
            self._append(linear(features, 2 * features, self.layout), after)
            self._append(GatedScan(), after)
        elif op.name == "ssm":
            self._append(StateSpace(before.shape[-1], self.layout.copies, self.layout.shared), after)
        elif op.name == "xd":
            self._append(relaxed_convolution(before.shape, op.args[0], self.layout), after)
        elif op.name == "norm":
            self.separate()
            self._append(norm(before.mode, before.shape, self.layout), after)
        else:
            self._append(_without_parameters(op, before, self.layout.lead), after, apart=False)

    def _convolution(self, windows: Op, linear: Op, image: bool) -> None:
        """The convolution of ``im2col`` and a linear layer; it ends as an image where ``col2im`` follows."""
        channels, *space = self.state.shape
        after = _fitting(step(linear, _fitting(step(windows, self.state))))
        layer = convolution(len(space), channels, linear.args[0], windows.args, self.layout)
        if image:
            self._append(layer, _fitting(step(COL2IM, after)))
        else:
            self._append(layer, after)
            self._append(Tokens(len(space)), after)

    def _fork(self, fork: Fork) -> None:
        found = scores(fork)
        if found:
            self._attention(fork, found)
        elif len(fork.branches) == 2:
            self._two_branches(fork)
        else:
            self._repeated(fork)

    def _branch(self, links: Chain, state: State) -> "Built":
        """A branch of its own on the tensor of the present layout."""
        return Built(state, self.layout).add_all(links)

    def _two_branches(self, fork: Fork) -> None:
        halves = Halves(fork.split, self.layout.lead)
        state = _fitting(step(fork.split, self.state))
        first, second = (self._branch(links, state).separate() for links in fork.branches)
        after = _fitting(merge_step(fork.merge, fork.split, (first.state, second.state)))
        merge = Merge(fork.merge, first.layout.lead)
        self._append(TwoBranches(halves, first.module(), second.module(), merge), after)

    def _attention(self, fork: Fork, found: Scores) -> None:
        state = _fitting(step(fork.split, self.state))
        before = self._branch(found.before, state)
        divided = _fitting(step(found.fork.split, before.state))
        query, key = (before._branch(links, divided) for links in found.fork.branches)
        weights = _fitting(merge_step(found.fork.merge, found.fork.split, (query.state, key.state)))
        key._transpose(found.fork.branches[1])
        value = self._branch(fork.branches[1], state)
        after = _fitting(merge_step(fork.merge, fork.split, (weights, value.state)))
        parts = [part.separate().module() for part in (query, key, value)]
        halves = Halves(fork.split, self.layout.lead), Halves(found.fork.split, before.layout.lead)
        self._append(Attention(*halves, before.module(), parts, found.scaled), after)

    def _transpose(self, links: Chain) -> None:
        """Exchange the last two axes of what ``links`` made; mostly by leaving out that they do so themselves."""
        dims = len(self.state.shape)
        exchange = Op("permute", (*range(1, dims - 1), dims, dims - 1))
        if links[-1:] == (exchange,):
            self.modules.pop()
            self.state = _fitting(step(exchange, self.state))
        else:
            self._op(exchange)

    def _repeated(self, fork: Fork) -> None:
        ways, copies = factor(fork.split), self.layout.copies
        state = _fitting(step(fork.split, self.state))
        if fork.split.name == "clone" and copies == 1:
            inner = Built(state, Layout(ways, shared=True))
        else:
            self.separate()
            inner = Built(state, Layout(copies * ways))
            inner.modules.append(_copies(fork.split, self.state, self.layout.lead))
        inner.add_all(fork.branches[0]).separate()
        after = _fitting(merge_step(fork.merge, fork.split, (inner.state,)))
        merge = SumCopies(ways, copies) if fork.merge.name == "add" else JoinCopies(fork.merge.args[0], ways, copies)
        self._append(nn.Sequential(*inner.modules, merge), after)


def _fitting(option: Option | None) -> State:
    assert option, "only trees that fit are built"
    return option.after


def _copies(split: Op, state: State, lead: int) -> nn.Module:
    ways = factor(split)
    if split.name == "clone":
        return Repeat(ways, lead)
    return Group(split.args[0], state.shape[split.args[0] - 1], ways, lead)


def _without_parameters(op: Op, state: State, lead: int) -> nn.Module:
    match op.name:
        case "permute":
            return Permute(op.args, lead)
        case "im2col":
            return Im2Col(len(state.shape) - 1, op.args, lead)
        case "col2im":
            return Col2Im(state.grid)
        case "relu":
            return nn.LeakyReLU()
        case "softmax":
            return nn.Softmax(-1)
    raise AssertionError(f"no module for {op.name}")
