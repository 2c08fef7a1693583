"""Dynamic convolution (NOS paper, Figure 1 and A.1.2): every sample makes the kernels that its features meet."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.ops.alike import Reading, stacked
from eclose.ops.attention import reduced
from eclose.ops.conv_layers import layer


class DynamicKernel(nn.Module):
    """One kernel of ``taps`` points along every axis for each of ``outputs`` channels; its points add up to 1.

    The bottleneck ``b`` has fewer channels than ``x``. Each tap looks at all points with an attention of its own:
    ``z[c, t] = sum over p of b[c, p] softmax_p(Q x)[t, p]``. The kernel is ``softmax_t(V z)``.
    """

    def __init__(
        self, inputs: int, outputs: int, taps: int, axes: int, reduction: int = 8, affine: bool = True
    ) -> None:
        super().__init__()
        conv, hidden = layer("Conv", axes), reduced(inputs, reduction)
        self.size = (taps,) * axes
        self.bottleneck = conv(inputs, hidden, 1, bias=False)
        self.norm = layer("BatchNorm", axes)(hidden, affine=affine)
        self.look = conv(inputs, taps**axes, 1, bias=False)
        self.decode = nn.Conv1d(hidden, outputs, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (batch, inputs, *space)
        """``(batch, outputs, *size)``."""
        narrow = self.norm(self.bottleneck(x)).relu().flatten(2)  # (batch, hidden, points)
        looks = self.look(x).flatten(2).softmax(dim=2)  # (batch, taps, points)
        kernels: Tensor = self.decode(narrow @ looks.transpose(1, 2)).softmax(dim=2)
        return kernels.unflatten(2, self.size)

    def readings(self) -> list[Reading]:
        """The narrow features, and what each tap makes of every point (``ops/alike.py``)."""
        return [Reading(self.bottleneck, self.norm), Reading(self.look, None)]

    @staticmethod
    def from_readings(modules: Sequence["DynamicKernel"], outputs: Sequence[Tensor], x: Tensor) -> Tensor:
        """Several modules, each on an input of its own: ``(batch, modules, outputs, *size)``."""
        narrow, looks = (output.flatten(3) for output in outputs)
        latent = narrow @ looks.softmax(dim=3).transpose(2, 3)
        kernels = (stacked([module.decode for module in modules]) @ latent).softmax(dim=3)
        return kernels.unflatten(3, modules[0].size)


def convolved(x: Tensor, kernels: Tensor, dilation: int = 1) -> Tensor:
    """Every channel of every sample with a kernel of its own, zeros around: ``x (batch, channels, *space)``.

    All samples are channels of one sample, so that one grouped convolution does them all. It needs channels first; what
    came with channels last leaves so, or else all that follows would be copied to and fro.
    """
    axes, size = x.dim() - 2, kernels.shape[2:]
    groups = x.shape[0] * x.shape[1]
    padding = [dilation * (taps // 2) for taps in size]
    convolve = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    rows, weight = x.reshape(1, groups, *x.shape[2:]), kernels.reshape(groups, 1, *size)
    y: Tensor = convolve(rows, weight.to(rows.dtype), padding=padding, dilation=dilation, groups=groups)
    last = x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return y.view(*x.shape).contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def centred(kernels: Tensor, taps: int) -> Tensor:
    """The same kernels among zeros, with ``taps`` points along every axis."""
    missing = (taps - kernels.shape[-1]) // 2
    return F.pad(kernels, (missing,) * 2 * (kernels.dim() - 2)) if missing else kernels
