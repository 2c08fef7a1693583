"""The continuous CNN (Romero et al. 2022): one network for signals, images and volumes of any size.

An encoder, residual blocks (``ccnn_block.py``) whose kernels one generator makes (``ops/continuous.py``), a decoder.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eclose.backbones.ccnn_block import Block, BlockShape, pointwise, residuals
from eclose.backbones.factory import backbones
from eclose.backbones.layers import GlobalAverage
from eclose.backbones.needs import need_at_least, need_probability
from eclose.errors import ConfigError
from eclose.ops.continuous import TRUNKS
from eclose.ops.first_channels import Norm
from eclose.ops.resolution import Sizes
from eclose.registry import nearest
from eclose.signature import Signature

_FULL_TURN = 4.0  # half-lengths of the domain in points, divided by the usual omega


class CCNN(nn.Module):
    """Encoder, blocks, decoder."""

    def __init__(
        self,
        signature: Signature,
        width: int,
        shapes: Sequence[BlockShape],
        *,
        generator: str = "fourier",
        hidden: int = 128,
        omega: float = 0.0,
        dropout: float = 0.0,
        causal: bool = False,
        batch_statistics: bool = False,
        pair: bool = False,
    ) -> None:
        super().__init__()
        axes = signature.axes
        trained = (signature.sizes[0] // 2,) if pair else signature.sizes
        self.pair, self.any_sizes = pair, not pair
        self.encoder = nn.Linear(signature.channels, width)
        self.norm = Norm(width, batch_statistics)
        self.trunk = TRUNKS[generator](axes, hidden, omega)
        self.blocks = nn.ModuleList(
            Block(
                shape,
                trained,
                self.trunk,
                hidden,
                dropout=dropout,
                causal=causal,
                batch_statistics=batch_statistics,
            )
            for shape in shapes
        )
        self.pooled = signature.pooled
        self.pool = GlobalAverage() if signature.pooled else nn.Identity()
        self.decoder = _pair_head(width, signature.outputs) if pair else nn.Linear(width, signature.outputs)

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, *space)
        """``(batch, outputs)``, or ``(batch, outputs, *space)`` for an answer at every point."""
        if not self.pair:
            return self._decoded(self._features(x))
        half = x.shape[2] // 2
        one, other = (self.pool(self._features(part)) for part in (x[:, :, :half], x[:, :, half : 2 * half]))
        y: Tensor = self.decoder(torch.cat([one, other, one * other, one - other], dim=1))
        return y

    def _features(self, x: Tensor) -> Tensor:
        return self.residuals(F.gelu(self.norm(_everywhere(self.encoder, x))))

    def residuals(self, x: Tensor) -> Tensor:  # (batch, width, *space)
        """All blocks, one after the other; where the mean over all points is read, there may be fewer in the end."""
        blocks = [block for block in self.blocks if isinstance(block, Block)]
        grids = [block.grid(x.shape[2:]) for block in blocks]
        generated = blocks[0].generated(self.trunk, grids)
        return residuals(
            x, grids, lambda number, x: blocks[number](x, self.trunk, generated, grids[number]), pooled=self.pooled
        )

    def _decoded(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.pool(x)
        y: Tensor = self.decoder(pooled) if pooled.ndim == 2 else _everywhere(self.decoder, x)
        return y


def _everywhere(layer: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(layer, nn.Linear)
    return pointwise(x, layer.weight, layer.bias)


def _pair_head(width: int, outputs: int) -> nn.Module:
    """From the features of two signals, their product and their difference, to an answer (DNArch, D.1)."""
    return nn.Sequential(nn.Linear(4 * width, width), nn.GELU(), nn.Linear(width, outputs))


def usual_omega(sizes: Sizes) -> float:
    """Kernels of any shape along the longest axis."""
    return max(1.0, max(sizes) / 2 / _FULL_TURN)


def sizes(signature: Signature, *, omega: float, **others: Any) -> dict[str, Any]:
    """The options, with what 0 stands for."""
    return {"omega": omega or usual_omega(signature.sizes), **others}


def check_options(signature: Signature, **options: Any) -> None:
    """Refuse options that make no network, or none for such data."""
    need_at_least("ccnn", 0, **{name: options[name] for name in ("kernel", "omega")})
    need_at_least("ccnn", 1, **{name: options[name] for name in ("width", "blocks", "hidden")})
    need_probability("ccnn", dropout=options["dropout"])
    if options["generator"] not in TRUNKS:
        raise ConfigError(f"backbone.generator is '{options['generator']}'; {nearest(options['generator'], TRUNKS)}")
    if (options["causal"] or options["pair"]) and signature.axes != 1:
        option = "causal" if options["causal"] else "pair"
        raise ConfigError(
            f"backbone.{option} is for signals along 1 axis, but an input of this task has {signature.axes}"
        )
    if options["pair"] and (not signature.pooled or signature.sizes[0] % 2):
        raise ConfigError("backbone.pair compares two signals of equal length and gives one answer: leave it out")


@backbones.register("ccnn", effective=sizes)
def ccnn(
    signature: Signature,
    *,
    width: int = 32,
    blocks: int = 4,
    kernel: float = 0.0,
    generator: str = "fourier",
    hidden: int = 128,
    omega: float = 0.0,
    dropout: float = 0.0,
    causal: bool = False,
    batch_statistics: bool = False,
    pair: bool = False,
) -> nn.Module:
    """Continuous CNN: global kernels from a small network, on signals, images and volumes of any size.

    ``kernel`` is the width of a Gaussian around all kernels; with 0 they are as long as the axes. ``omega`` of 0
    follows from the sizes. ``pair``: the input is two signals, one behind the other, that are compared.
    """
    options: dict[str, Any] = {"generator": generator, "hidden": hidden, "omega": omega or usual_omega(signature.sizes)}
    options |= {"dropout": dropout, "causal": causal, "batch_statistics": batch_statistics, "pair": pair}
    check_options(signature, width=width, blocks=blocks, kernel=kernel, **options)
    masked = signature.axes if kernel else 0
    shape = BlockShape((width, width, width), (kernel,) * masked, (0.0,) * masked)
    return CCNN(signature, width, [shape] * blocks, **options)
