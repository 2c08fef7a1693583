"""Data parallel training under torchrun: every process takes its share of each batch, gradients are summed.

Gradients are summed once a step as one flat vector, after backward. Unlike a wrapper that hooks into
backward, this does not mind parameters that took no part in a step, sampled paths or frozen parts.
"""

import atexit
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from eclose.ops.first_channels import Norm, first
from eclose.train.memory_layout import laid_out_as


@dataclass(frozen=True)
class World:
    """The processes of one training."""

    rank: int = 0
    size: int = 1

    def share(self, count: int) -> slice:
        """This process's part of ``count`` samples."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def total(self, value: Tensor) -> Tensor:
        """Sum over the processes."""
        if self.size > 1:
            dist.all_reduce(value)
        return value

    def agree(self, flag: int) -> int:
        """What the first process says; all must ask at the same place."""
        if self.size == 1:
            return flag
        message = torch.tensor([flag])
        dist.broadcast(message, 0)
        return int(message)

    def tell(self, value: Any) -> Any:
        """The first process's value, at every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, 0)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


def join_world() -> World:
    """The world that torchrun announced in the environment; one process without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(dist.destroy_process_group)
    return World(dist.get_rank(), dist.get_world_size())


def end_process(status: int) -> NoReturn:
    """Ends one of several processes at once: threads of their group may outlive the interpreter, which aborts it."""
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def sum_gradients(parameters: Iterable[nn.Parameter], world: World) -> None:
    """Replace every gradient by its sum over the processes.

    A parameter that no process used keeps the gradient None, so that its optimiser state does not move.
    """
    if world.size == 1:
        return
    parameters = [p for p in parameters if p.requires_grad]
    if not parameters:
        return
    used = torch.tensor([float(p.grad is not None) for p in parameters], device=parameters[0].device)
    parts = [(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in parameters]
    flat = world.total(torch.cat([*parts, used]))
    used = flat[-len(parameters) :]
    offset = 0
    for parameter, count in zip(parameters, used.tolist(), strict=True):
        size = parameter.numel()
        if count:
            parameter.grad = laid_out_as(flat[offset : offset + size].view(parameter.shape), parameter)
        offset += size


class _Sum(torch.autograd.Function):
    """Sum over the processes; the gradient of every process's loss reaches every summand."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient


class SharedBatchNorm(_BatchNorm):
    """Batch normalisation with the statistics of the whole batch, on any device.

    torch's own SyncBatchNorm runs on GPUs only.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """``(batch, channels, *space)``."""
        if not self.training and self.running_mean is not None:
            return super().forward(input)
        y, mean, variance = _standardised(input, self.eps)
        self._update(mean, variance)
        return (y if self.weight is None else _scaled(y, self.weight, self.bias)).to(input.dtype)

    def _update(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        momentum = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)


class SharedNorm(Norm):
    """The norm of networks that become narrower, with the statistics of the whole batch; predictions are its own."""

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, *space)``."""
        if not self.training:
            return super().forward(x)
        n = x.shape[1]
        y, mean, variance = _standardised(x, self.eps)
        for own, value in ((self.mean, mean), (self.var, variance), (self.seen, torch.ones_like(mean))):
            first(own, n).lerp_(value, self.momentum)
            own[n:].zero_()
        return _scaled(y, first(self.weight, n), first(self.bias, n)).to(x.dtype)


def _standardised(x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` by the statistics of the whole batch, in float32 at least; their mean and their variance, unbiased."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    sums = _Sum.apply(torch.cat([x.sum(axes), x.new_tensor([x.numel() / x.shape[1]])]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = x - _by_channel(mean, x)
    variance = _Sum.apply(centred.square().sum(axes)) / count
    y = centred * _by_channel((variance + eps).rsqrt(), x)
    return y, mean.detach(), variance.detach() * (count / (count - 1).clamp_min(1))


def _scaled(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addcmul(_by_channel(bias, x), x, _by_channel(weight, x))


def _by_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *(1 for _ in range(x.ndim - 2)))


def share_batch_norm(model: nn.Module, world: World) -> nn.Module:
    """Let every batch normalisation use the whole batch; parameters and names stay the same."""
    if world.size == 1:
        return model
    if isinstance(model, _BatchNorm) and not isinstance(model, SharedBatchNorm):
        shared = SharedBatchNorm(model.num_features, model.eps, model.momentum, model.affine, model.track_running_stats)
        return _with_state(shared, model)
    if type(model) is Norm:
        return _with_state(SharedNorm(len(model.weight)), model)
    for name, child in model.named_children():
        setattr(model, name, share_batch_norm(child, world))
    return model


def _with_state(shared: nn.Module, model: nn.Module) -> nn.Module:
    """``shared`` with all that ``model`` has, its parameters themselves."""
    shared.__dict__.update(model.__dict__)
    return shared
