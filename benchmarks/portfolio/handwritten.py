"""What a user writes in an afternoon: two plain networks and a plain loop. Nothing here is eclose's."""

import math
import time

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


NETWORKS = {"resnet": resnet, "inception": inception}


def train_handwritten(name: str, arrays: dict[str, np.ndarray], seconds: float, seed: int, device: str) -> float:
    """Test accuracy of a network that was trained for so many seconds on all labelled samples."""
    torch.manual_seed(seed)
    x, y, x_test, y_test = _tensors(arrays, device)
    model = NETWORKS[name](x.ndim - 2, x.shape[1], int(y.max()) + 1).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True):
        _train(model, optimiser, x, y, seconds)
        model.eval()
        with torch.no_grad():
            right = [model(a).argmax(1) == b for a, b in zip(x_test.split(256), y_test.split(256), strict=True)]
    return float(torch.cat(right).double().mean())


def _tensors(arrays: dict[str, np.ndarray], device: str) -> list[Tensor]:
    """All labelled samples and the test samples, standardised by channel."""
    labelled = [part for part in ("train", "val") if f"x_{part}" in arrays]
    x = np.concatenate([arrays[f"x_{part}"] for part in labelled]).astype(np.float32)
    y = np.concatenate([arrays[f"y_{part}"] for part in labelled]).astype(np.int64)
    over = (0, *range(2, x.ndim))
    mean, deviation = x.mean(over, keepdims=True), x.std(over, keepdims=True) + 1e-6
    x_test = (arrays["x_test"].astype(np.float32) - mean) / deviation
    parts = ((x - mean) / deviation, y, x_test, arrays["y_test"].astype(np.int64))
    return [torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in parts]


def _train(model: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, seconds: float) -> None:
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
            loss = functional.cross_entropy(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            steps += 1
            if x.device.type == "cuda" and steps % 16 == 0:
                torch.cuda.synchronize()  # else the clock would fall behind what was launched
