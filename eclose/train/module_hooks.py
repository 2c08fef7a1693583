"""What a module may say about its own training. The training asks every module once and then does as it was told.

===========================  ============================================================================
verb                         what it means
===========================  ============================================================================
``arch_parameters()``        the parameters that a search moves besides the weights
``undecayed``                names of its parameters that have no weight decay; an attribute of the class
``unslowed``                 likewise, of weights whose units sum up other inputs than their shape says
``averaged``                 names of its buffers that follow the weights, and are averaged where these are
``fit_to(x, y)``             called before a training with samples in the units of the network, to be solved for
``samples_to_fit()``         how many samples ``fit_to`` wants at most
``extra_loss()``             a number that is added to the loss of every sample: a cost, a penalty
``auxiliary_outputs()``      pairs of a weight and an output of the last pass, on which the loss counts too
``before_step(epochs)``      called before every step, after ``epochs`` epochs: drop-path, warm-up
``after_step()``             called after the optimisers have moved the parameters: clamps
``one_pass(modules)``        a class method: a context, for all modules of the class, in which no parameter changes
``only_in_training``         True: it has no part in the answer of a trained network, whose size it does not count in
``measured()``               numbers by name that are written down with every epoch, such as a cost
``any_sizes``                True: once it is trained, it takes finer or coarser inputs; False: whatever its parts say
``static_shapes``            False: tensors change their shapes while it is trained, so no CUDA graph for all steps
``shape_key()``              with such shapes: what tells them, hashable, asked before every step; its graph keeps it
===========================  ============================================================================

No verb needs another; a module has those that it needs. They work in every training: that of a supernet, of a found
network, of a user's own. A CUDA graph replays what ``extra_loss`` and ``after_step`` did on tensors; ``before_step``
runs outside of it, so it must write its numbers into tensors. If shapes change, ``after_step`` runs outside, too.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from eclose.errors import ConfigError

Loss = Callable[[Tensor, Tensor], Tensor]  # prediction, target -> (samples,)


class Verbs:
    """The verbs of a network's modules, collected once."""

    def __init__(self, model: nn.Module) -> None:
        self.fitted: list[Any] = [module for module in model.modules() if callable(getattr(module, "fit_to", None))]
        self.extra_losses = _said(model, "extra_loss")
        self.auxiliary = _said(model, "auxiliary_outputs")
        self.before = _said(model, "before_step")
        self.after = _said(model, "after_step")
        self.measures = _said(model, "measured")
        self.passes = _passes(model)
        changing = [module for module in model.modules() if not getattr(module, "static_shapes", True)]
        self.static_shapes = not changing
        self.shape_keys = [key for module in changing if callable(key := getattr(module, "shape_key", None))]
        self.says_shapes = len(self.shape_keys) == len(changing)

    def extended(self, losses: Tensor, y: Tensor, loss: Loss) -> Tensor:  # (samples,)
        """The losses of samples with those of auxiliary outputs and all that modules add."""
        for outputs in self.auxiliary:
            for weight, output in outputs():
                losses = losses + weight * loss(output, y)
        for extra in self.extra_losses:
            losses = losses + extra()
        return losses

    def before_step(self, epochs: float) -> None:
        """A step begins, after ``epochs`` epochs."""
        for act in self.before:
            act(epochs)

    @torch.no_grad()
    def after_step(self) -> None:
        """The parameters have moved."""
        if not self.static_shapes and capturing():
            return  # what shapes follow from is moved after every replay
        for act in self.after:
            act()

    def shape_key(self) -> Hashable:
        """What tells the shapes of the next step; a CUDA graph holds for one of them."""
        return tuple(key() for key in self.shape_keys)

    def measured(self) -> dict[str, float]:
        """What modules say of themselves after an epoch."""
        return {name: value for ask in self.measures for name, value in ask().items()}

    def one_pass(self) -> contextlib.AbstractContextManager[None]:
        """Around a forward pass and the backward pass that follows it."""
        return _entered(self.passes)


def capturing() -> bool:
    """Whether a CUDA graph is being captured here."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def one_pass(model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """A context in which no parameter of ``model`` changes: what layers make of theirs is made once, for all together.

    Put it around the forward pass of a training step, or around all passes of an evaluation. The backward pass may
    come inside or after it; the step of the optimiser comes after it. Values and gradients are the same as without,
    but where layers alike exist of which some do not run: those have a gradient of zero instead of none.
    """
    if not isinstance(model, nn.Module):
        raise ConfigError(f"one_pass takes a network, an nn.Module, not {type(model).__name__}")
    return _entered(_passes(model))


def takes_any_sizes(network: nn.Module) -> bool:
    """Whether a network, or the part behind its embedding, takes inputs of other sizes than those of its training."""
    return getattr(network, "any_sizes", any(getattr(module, "any_sizes", False) for module in network.children()))


Passes = dict[Callable[..., contextlib.AbstractContextManager[None]], list[nn.Module]]


def _passes(model: nn.Module) -> Passes:
    """Contexts, and the modules of each."""
    shared: Passes = defaultdict(list)
    for module in model.modules():
        if callable(enter := getattr(module, "one_pass", None)):
            shared[enter].append(module)
    return shared


@contextlib.contextmanager
def _entered(passes: Passes) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for enter, modules in passes.items():
            stack.enter_context(enter(modules))
        yield


def _said(model: nn.Module, verb: str) -> Sequence[Callable[..., Any]]:
    return [getattr(module, verb) for module in model.modules() if callable(getattr(module, verb, None))]
