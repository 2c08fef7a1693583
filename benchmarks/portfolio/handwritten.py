"""What a user writes in an afternoon: plain networks for labels and for fields, a plain loop. Nothing is eclose's."""

import itertools
import math
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
POOL = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
BATCH, RATE = 64, 1e-3


class Residual(nn.Module):
    """Three convolutions of 7, 5 and 3 points beside a shortcut."""

    def __init__(self, axes: int, inputs: int, outputs: int) -> None:
        super().__init__()
        conv, norm = CONV[axes - 1], NORM[axes - 1]
        layers: list[nn.Module] = []
        for before, kernel in ((inputs, 7), (outputs, 5), (outputs, 3)):
            layers += [conv(before, outputs, kernel, padding=kernel // 2), norm(outputs), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential(conv(inputs, outputs, 1), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class Inception(nn.Module):
    """Three kernels and a pooling side by side."""

    def __init__(self, axes: int, inputs: int, kernels: tuple[int, ...], width: int = 32) -> None:
        super().__init__()
        conv = CONV[axes - 1]
        self.narrow = conv(inputs, width, 1, bias=False)
        self.wide = nn.ModuleList(conv(width, width, k, padding=k // 2, bias=False) for k in kernels)
        self.pool = nn.Sequential(POOL[axes - 1](3, 1, 1), conv(inputs, width, 1, bias=False))
        self.norm = NORM[axes - 1](4 * width)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.narrow(x)
        return functional.relu(self.norm(torch.cat([*(wide(narrow) for wide in self.wide), self.pool(x)], 1)))


class Pooled(nn.Module):
    """Layers, the mean over space, a linear layer."""

    def __init__(self, layers: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.layers, self.last = layers, nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.layers(x).flatten(2).mean(2))
        return result


def resnet(axes: int, channels: int, classes: int) -> nn.Module:
    """64, 128, 128 channels with kernels 7, 5, 3."""
    blocks = (Residual(axes, channels, 64), Residual(axes, 64, 128), Residual(axes, 128, 128))
    return Pooled(nn.Sequential(*blocks), 128, classes)


def inception(axes: int, channels: int, classes: int) -> nn.Module:
    """Six blocks with kernels of 39, 19 and 9 points; 7, 5, 3 on images, 5, 3, 1 on volumes."""
    kernels = ((39, 19, 9), (7, 5, 3), (5, 3, 1))[axes - 1]
    blocks = (Inception(axes, 128 if number else channels, kernels) for number in range(6))
    return Pooled(nn.Sequential(*blocks), 128, classes)


class Spectral(nn.Module):
    """Weights for the lowest frequencies beside a pointwise layer (FNO)."""

    def __init__(self, axes: int, width: int, modes: int) -> None:
        super().__init__()
        corners = 2 ** (axes - 1)  # frequencies of either sign on all axes but the last
        self.modes, self.point = modes, CONV[axes - 1](width, width, 1)
        self.weight = nn.Parameter(torch.randn(corners, width, width, *[modes] * axes, 2) / width**2)

    def forward(self, x: Tensor) -> Tensor:
        space = tuple(x.shape[2:])
        over = tuple(range(2, x.ndim))
        spectrum = torch.fft.rfftn(x, dim=over)
        result = torch.zeros_like(spectrum)
        sides = itertools.product(*[(True, False)] * (len(space) - 1))
        for weight, low in zip(torch.view_as_complex(self.weight), sides, strict=True):
            halves = [min(self.modes, (n + 1) // 2) for n in space[:-1]]
            ends = [slice(0, m) if first else slice(-m, None) for first, m in zip(low, halves, strict=True)]
            last = min(self.modes, spectrum.shape[-1])
            corner = (..., *ends, slice(0, last))
            kept = weight[(..., *(slice(0, m) for m in (*halves, last)))]
            result[corner] = torch.einsum("bi...,io...->bo...", spectrum[corner], kept)
        return torch.fft.irfftn(result, s=space, dim=over) + self.point(x)


class FNO(nn.Module):
    """Four spectral layers on the input and its coordinates."""

    def __init__(self, axes: int, inputs: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        conv, modes = CONV[axes - 1], (16, 12, 8)[axes - 1]
        self.lift = conv(inputs + axes, width, 1)
        self.layers = nn.ModuleList(Spectral(axes, width, modes) for _ in range(4))
        self.last = nn.Sequential(conv(width, 128, 1), nn.GELU(), conv(128, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        grids = torch.meshgrid(*(torch.linspace(0, 1, n, device=x.device) for n in x.shape[2:]), indexing="ij")
        x = self.lift(torch.cat([x, torch.stack(grids).expand(len(x), *(-1,) * (x.ndim - 1))], 1))
        for number, layer in enumerate(self.layers):
            x = layer(x) if number == len(self.layers) - 1 else functional.gelu(layer(x))
        result: Tensor = self.last(x)
        return result


class UNet(nn.Module):
    """Three levels of two convolutions each, their outputs handed across."""

    def __init__(self, axes: int, inputs: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        self.down = nn.ModuleList([_twice(axes, inputs, width), _twice(axes, width, 2 * width)])
        self.bottom = _twice(axes, 2 * width, 4 * width)
        self.up = nn.ModuleList([_twice(axes, 6 * width, 2 * width), _twice(axes, 3 * width, width)])
        self.pool, self.last = POOL[axes - 1](2), CONV[axes - 1](width, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        across = []
        for layer in self.down:
            x = layer(x)
            across.append(x)
            x = self.pool(x)
        x = self.bottom(x)
        for layer, other in zip(self.up, reversed(across), strict=True):
            x = layer(torch.cat([functional.interpolate(x, other.shape[2:]), other], 1))
        result: Tensor = self.last(x)
        return result


def _twice(axes: int, inputs: int, outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before in (inputs, outputs):
        layers += [CONV[axes - 1](before, outputs, 3, padding=1), NORM[axes - 1](outputs), nn.ReLU()]
    return nn.Sequential(*layers)


CLASSIFYING: dict[str, Callable[[int, int, int], nn.Module]] = {"resnet": resnet, "inception": inception}
DENSE: dict[str, Callable[[int, int, int], nn.Module]] = {"fno": FNO, "unet": UNet}


def networks_for(arrays: dict[str, np.ndarray]) -> dict[str, Callable[[int, int, int], nn.Module]]:
    """The networks for labels, or for fields."""
    return CLASSIFYING if arrays["y_train"].ndim == 1 else DENSE


def train_handwritten(name: str, arrays: dict[str, np.ndarray], seconds: float, seed: int, device: str) -> float:
    """Test accuracy, or relative error of fields, after so many seconds of training on all labelled samples."""
    torch.manual_seed(seed)
    x, y, x_test, y_test = _tensors(arrays, device)
    labels = y.ndim == 1
    outputs = int(y.max()) + 1 if labels else y.shape[1]
    model = networks_for(arrays)[name](x.ndim - 2, x.shape[1], outputs).to(device)
    mean, deviation = (0.0, 1.0) if labels else (float(y.mean()), float(y.std()))
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x), y) if labels else _error(model(x) * deviation + mean, y).mean()

    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True):
        _train(loss, optimiser, x, y, seconds)
        model.eval()
        with torch.no_grad():
            answers = torch.cat([model(part) for part in x_test.split(256)])
    if labels:
        return float((answers.argmax(1) == y_test).double().mean())
    return float(_error(answers * deviation + mean, y_test).double().mean())


def _error(answer: Tensor, y: Tensor) -> Tensor:
    """By sample, relative to the field."""
    return (answer - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)


def _tensors(arrays: dict[str, np.ndarray], device: str) -> list[Tensor]:
    """All labelled samples and the test samples, x standardised by channel."""
    labelled = [part for part in ("train", "val") if f"x_{part}" in arrays]
    kind = np.int64 if arrays["y_train"].ndim == 1 else np.float32
    x = np.concatenate([arrays[f"x_{part}"] for part in labelled]).astype(np.float32)
    y = np.concatenate([arrays[f"y_{part}"] for part in labelled]).astype(kind)
    over = (0, *range(2, x.ndim))
    mean, deviation = x.mean(over, keepdims=True), x.std(over, keepdims=True) + 1e-6
    x_test = (arrays["x_test"].astype(np.float32) - mean) / deviation
    parts = ((x - mean) / deviation, y, x_test, arrays["y_test"].astype(kind))
    return [torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in parts]


def _train(
    loss: Callable[[Tensor, Tensor], Tensor], optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, seconds: float
) -> None:
    """Cosine to zero over the seconds."""
    begun, steps = time.perf_counter(), 0
    while True:
        for rows in torch.randperm(len(x), device=x.device).split(BATCH):
            share = (time.perf_counter() - begun) / seconds
            if share >= 1:
                return
            if len(rows) < 2:
                continue
            optimiser.param_groups[0]["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * share))
            optimiser.zero_grad()
            loss(x[rows], y[rows]).backward()
            optimiser.step()
            steps += 1
            if x.device.type == "cuda" and steps % 16 == 0:
                torch.cuda.synchronize()  # else the clock would fall behind what was launched
