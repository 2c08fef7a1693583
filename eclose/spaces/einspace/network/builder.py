"""From a derivation to a plain, fast network: tokens embedded, the body that the tree describes, a head for the task.

What has a faster form is recognised: ``im2col`` and ``linear`` are a convolution; a product, a softmax and a product
are attention; repeated branches are one branch over an axis of copies. Parameters are those of the operations as
written.
"""

from collections import OrderedDict

from torch import nn

from eclose.backbones.tokens import EMBEDDING_WIDTH
from eclose.signature import Signature
from eclose.spaces.einspace.grammar import COL2IM, Op, Tree, factor
from eclose.spaces.einspace.network.forks import Attention, Scores, TwoBranches, scores
from eclose.spaces.einspace.network.heads import head
from eclose.spaces.einspace.normal_form import Chain, Fork, chain
from eclose.spaces.einspace.survey import Survey
from eclose.spaces.einspace.terminals.computations import convolution
from eclose.spaces.einspace.terminals.copies import Layout, Repeat
from eclose.spaces.einspace.terminals.merges import MERGES
from eclose.spaces.einspace.terminals.options import TERMINALS, Option, merge_step, step
from eclose.spaces.einspace.terminals.record import Branches
from eclose.spaces.einspace.terminals.routing import Tokens
from eclose.spaces.einspace.terminals.splits import SPLITS
from eclose.spaces.einspace.terminals.state import State, input_state


def build(tree: Tree, signature: Signature) -> nn.Module:
    """The network of ``tree`` for ``signature``, newly initialised."""
    state = input_state(signature)
    Survey(tree, state)  # refuses a tree that does not fit before anything is allocated
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if signature.tokens:
        parts["embedding"] = nn.Embedding(signature.vocabulary, EMBEDDING_WIDTH)
    body = Built(state, Layout()).add_all(chain(tree))
    parts["body"] = body.module()
    parts["head"] = head(body.state, signature)
    return nn.Sequential(parts)


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

    def _append(self, module: nn.Module, state: State) -> None:
        """A module after which every copy has a tensor of its own."""
        self.modules.append(module)
        self.state, self.layout = state, Layout(self.layout.copies)

    def _op(self, op: Op) -> None:
        terminal = TERMINALS[op.name]
        if terminal.wants_own:
            self.separate()
        self.modules += terminal.build(op.args, self.state, self.layout)
        self.state = _fitting(step(op, self.state))
        if not terminal.keeps_sharing:
            self.layout = Layout(self.layout.copies)

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
        halves = _halves(fork.split, self.layout)
        state = _fitting(step(fork.split, self.state))
        first, second = (self._branch(links, state).separate() for links in fork.branches)
        after = _fitting(merge_step(fork.merge, fork.split, (first.state, second.state)))
        shapes = Branches(first.state.shape, second.state.shape, 2)
        (merge,) = MERGES[fork.merge.name].build(fork.merge.args, shapes, first.layout.lead)
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
        halves = _halves(fork.split, self.layout), _halves(found.fork.split, before.layout)
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
        split, merge = SPLITS[fork.split.name], MERGES[fork.merge.name]
        ways, copies = factor(fork.split), self.layout.copies
        state = _fitting(step(fork.split, self.state))
        if split.whole and copies == 1:
            inner = Built(state, Layout(ways, shared=True))
        else:
            self.separate()
            inner = Built(state, Layout(copies * ways))
            inner.modules += split.build(fork.split.args, self.state, self.layout.lead)
        inner.add_all(fork.branches[0]).separate()
        after = _fitting(merge_step(fork.merge, fork.split, (inner.state,)))
        assert merge.of_copies, "only two branches are multiplied"
        self._append(nn.Sequential(*inner.modules, merge.of_copies(fork.merge.args, ways, copies)), after)


def _halves(split: Op, layout: Layout) -> nn.Module:
    return SPLITS[split.name].halves(split.args, layout.lead)


def _fitting(option: Option | None) -> State:
    assert option, "only trees that fit are built"
    return option.after
