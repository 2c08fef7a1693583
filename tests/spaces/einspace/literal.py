"""The slow truth: a tree run operation by operation, copy by copy, with the parameters of a built network."""

from collections.abc import Iterator
from itertools import product
from math import prod, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.state_space import STATES
from eclose.ops.xd import XD
from eclose.ops.xd.definition import definition
from eclose.signature import Signature
from eclose.spaces.einspace import Tree
from eclose.spaces.einspace.grammar import Branch, Op, Path, Route, Sequential, children, factor, first_op
from eclose.spaces.einspace.survey import Survey
from eclose.spaces.einspace.terminals.extras import EachCopy
from eclose.spaces.einspace.terminals.state import State, input_state

Flow = tuple[Tensor, tuple[int, ...]]  # a batch, and the grid that im2col stored
PARAMETERISED = ("linear", "norm", "pos-enc", "gru", "ssm", "xd")


class Literal:
    """``run(x)`` gives what the body of ``network`` must give; shapes are compared with those of the survey."""

    def __init__(self, tree: Tree, signature: Signature, network: nn.Module) -> None:
        self.tree, self.state = tree, input_state(signature)
        survey = Survey(tree, self.state)
        self.after: dict[Path, State] = {site.place.path: site.after for site in survey.sites}
        owners = list(owners_in(network))
        paths = list(parameterised(tree))
        assert len(owners) == len(paths)
        self.owner = dict(zip(paths, owners, strict=True))
        self.written = 0  # elements of activations, one sample

    def run(self, x: Tensor) -> Tensor:
        return self._module(self.tree, (x, self.state.grid), (), 0)[0]

    def _module(self, tree: Tree, flow: Flow, path: Path, copy: int) -> Flow:
        match tree:
            case Op():
                flow = self._op(tree, flow, path, copy)
            case Sequential():
                flow = self._module(tree.first, flow, (*path, 0), copy)
                flow = self._module(tree.second, flow, (*path, 1), copy)
            case Route():
                before = self.written
                flow = self._op(tree.before, flow, (*path, 0), copy)
                if first_op(tree.inner).name == "linear":
                    self.written = before
                flow = self._module(tree.inner, flow, (*path, 1), copy)
                flow = self._op(tree.after, flow, (*path, 2), copy)
            case Branch():
                flow = self._branch(tree, flow, path, copy)
        assert flow[0].shape[1:] == self.after[path].shape
        return flow

    def _branch(self, tree: Branch, flow: Flow, path: Path, copy: int) -> Flow:
        x, grid = flow
        ways = factor(tree.split)
        parts = [x] * ways if tree.split.name == "clone" else x.chunk(ways, tree.split.args[0])
        done = []
        for number, part in enumerate(parts):
            branch, inner = (number, copy) if ways == 2 else (0, copy * ways + number)
            assert part.shape[1:] == self.after[(*path, 0)].shape
            done.append(self._module(tree.branches[branch], (part, grid), (*path, 1 + branch), inner))
        tensors, grids = [flow[0] for flow in done], {flow[1] for flow in done}
        match tree.merge.name:
            case "add":
                y = sum(tensors[1:], tensors[0])
            case "concat":
                y = torch.cat(tensors, tree.merge.args[0])
            case "matmul":
                y = tensors[0] @ tensors[1]
            case "scaled-matmul":
                y = tensors[0] @ tensors[1] / sqrt(tensors[0].shape[-1])
        self.written += y[0].numel()
        return y, grids.pop() if len(grids) == 1 else ()

    def _op(self, op: Op, flow: Flow, path: Path, copy: int) -> Flow:
        x, grid = flow
        match op.name:
            case "identity":
                y = x
            case "permute":
                y = x.permute(0, *op.args)
            case "im2col":
                y, grid = im2col(x, *op.args)
            case "col2im":
                y, grid = x.transpose(1, 2).reshape(len(x), x.shape[2], *grid), ()
            case "relu":
                y = torch.where(x > 0, x, 0.01 * x)
            case "softmax":
                y = (x - x.amax(-1, keepdim=True)).exp()
                y = y / y.sum(-1, keepdim=True)
            case _:
                y = self._with_parameters(op, x, self.owner[path], copy, self.after[path].mode)
        assert y.shape[1:] == self.after[path].shape
        if op.name not in ("identity", "permute", "col2im"):
            self.written += y[0].numel()
        if op.name == "gru":
            self.written += 2 * y[0].numel()  # gates and candidates
        if op.name == "xd":
            self.written += sum(3 * 2 * axis.transform**2 for axis in _of_copy(self.owner[path], copy).axes)
        if op.name == "ssm":
            spectrum = torch.fft.rfft(y[0], 2 * y.shape[1], dim=0)
            self.written += 2 * torch.view_as_real(spectrum).numel() + 2 * y[0].numel()
        return y, grid

    @staticmethod
    def _with_parameters(op: Op, x: Tensor, owner: nn.Module, copy: int, mode: str) -> Tensor:
        if op.name == "pos-enc":
            return x + owner.encoding.reshape(-1, *x.shape[1:])[copy]
        if op.name == "linear":
            weight = owner.weight.reshape(-1, op.args[0], x.shape[-1])[copy]
            return torch.einsum("...i,oi->...o", x, weight) + owner.bias.reshape(-1, op.args[0])[copy]
        if op.name == "gru":
            return gru(x, owner, copy)
        if op.name == "xd":
            return relaxed(x, _of_copy(owner, copy))
        if op.name == "ssm":
            return state_space(x, owner, copy)
        if mode == "im":
            axes, shape = [0, *range(2, x.ndim)], (-1, *[1] * (x.ndim - 2))
            weight, bias = (values.reshape(-1, x.shape[1])[copy].reshape(shape) for values in owner.parameters())
        else:
            axes = [2]
            weight, bias = (values.reshape(-1, x.shape[2])[copy] for values in owner.parameters())
        centred = x - x.mean(axes, keepdim=True)
        return centred / (centred.square().mean(axes, keepdim=True) + 1e-5).sqrt() * weight + bias


def owners_in(module: nn.Module) -> Iterator[nn.Module]:
    """Modules with parameters of one operation, in the order of computation."""
    if module._parameters or isinstance(module, XD | EachCopy):
        yield module
    else:
        for child in module.children():
            yield from owners_in(child)


def _of_copy(owner: nn.Module, copy: int) -> XD:
    return owner.layers[copy] if isinstance(owner, EachCopy) else owner


def relaxed(x: Tensor, owner: XD) -> Tensor:
    """Definition 3.2 of the XD paper."""
    parts = [[matrix.movedim(0, -1) for matrix in part] for part in owner.architecture.matrices(owner.axes)]
    return definition(x, owner.weight, None, None, *parts) + owner.bias.reshape(-1, *[1] * (x.ndim - 2))


def gru(x: Tensor, owner: nn.Module, copy: int) -> Tensor:
    """Token by token."""
    features = x.shape[2]
    weight = owner.weight.reshape(-1, 2 * features, features)[copy]
    bias = owner.bias.reshape(-1, 2 * features)[copy]
    h, found = torch.zeros_like(x[:, 0]), []
    for token in x.unbind(1):
        mixed = token @ weight.T + bias
        z = 1 / (1 + (-mixed[:, :features]).exp())
        h = (1 - z) * h + z * mixed[:, features:]
        found.append(h)
    return torch.stack(found, 1)


def state_space(x: Tensor, owner: nn.Module, copy: int) -> Tensor:
    """Token by token, in complex arithmetic."""
    features = x.shape[2]
    step, decay, frequency, skip = (
        values.reshape(-1, *shape)[copy]
        for values, shape in (
            (owner.log_step.exp(), (features, 1)),
            (owner.log_decay.exp(), (features, STATES)),
            (owner.frequency, (features, STATES)),
            (owner.skip, (features,)),
        )
    )
    eigenvalues = torch.complex(-decay, frequency)
    output = torch.complex(*owner.output.reshape(2, -1, features, STATES)[:, copy])
    kept = (step * eigenvalues).exp()
    s, found = torch.zeros(len(x), features, STATES, dtype=kept.dtype), []
    for token in x.unbind(1):
        s = kept * s + (kept - 1) / eigenvalues * token.unsqueeze(2)
        found.append(2 * (output * s).sum(2).real + skip * token)
    return torch.stack(found, 1)


def im2col(x: Tensor, kernel: int, stride: int, padding: int) -> Flow:
    """Window by window."""
    space = x.shape[2:]
    grid = tuple((n + 2 * padding - kernel) // stride + 1 for n in space)
    x = F.pad(x, [padding] * (2 * len(space)))
    columns = []
    for corner in product(*map(range, grid)):
        window = tuple(slice(stride * at, stride * at + kernel) for at in corner)
        columns.append(x[(slice(None), slice(None), *window)].flatten(1))
    assert len(columns) == prod(grid)
    return torch.stack(columns, 1), grid


def parameterised(tree: Tree, path: Path = ()) -> list[Path]:
    """Where parameters are, in the order of computation."""
    if isinstance(tree, Op):
        return [path] if tree.name in PARAMETERISED else []
    return [found for i, part in enumerate(children(tree)) for found in parameterised(part, (*path, i))]
