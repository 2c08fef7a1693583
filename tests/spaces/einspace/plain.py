"""The seeds as anyone would write them in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, stride, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width)
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride), nn.BatchNorm2d(width))
        else:
            self.shortcut = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.leaky_relu(self.bn1(self.conv1(x)))))
        return F.leaky_relu(y + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.LeakyReLU(), nn.Conv2d(64, 64, 3, 2, 1)
        )
        stages, inputs = [], 64
        for width in (64, 128, 256, 512):
            stages += [Block(inputs, width, 1 if width == 64 else 2), Block(width, width, 1)]
            inputs = width
        self.stages, self.classes = nn.Sequential(*stages), nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.stages(self.stem(x)).mean((2, 3)))


class WideBlock(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1, self.bn2 = nn.Conv2d(inputs, width, 3, stride, 1), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.shortcut = nn.Conv2d(inputs, width, 1, stride) if inputs != width else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.leaky_relu(self.bn1(x))
        y = self.conv2(F.leaky_relu(self.bn2(self.conv1(active))))
        return y + (x if self.shortcut is None else self.shortcut(active))


class WRN(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        blocks, inputs = [], 16
        for width in (64, 128, 256):
            blocks += [WideBlock(inputs, width, 1 if width == 64 else 2), WideBlock(width, width, 1)]
            inputs = width
        self.body = nn.Sequential(nn.Conv2d(channels, 16, 3, 1, 1), *blocks, nn.BatchNorm2d(256), nn.LeakyReLU())
        self.classes = nn.Linear(256, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.body(x).mean((2, 3)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(512)
        self.query, self.key, self.value = (nn.Linear(512, 4 * 64) for _ in range(3))
        self.out, self.norm2 = nn.Linear(4 * 64, 512), nn.LayerNorm(512)
        self.up, self.down = nn.Linear(512, 512), nn.Linear(512, 512)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(2, (4, 64)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(2, 3) / 8, -1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.leaky_relu(self.up(self.norm2(x))))


class MixerLayer(nn.Module):
    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.norm1, self.spread, self.gather = (
            nn.LayerNorm(512),
            nn.Linear(tokens, 4 * tokens),
            nn.Linear(4 * tokens, tokens),
        )
        self.norm2, self.down, self.up = nn.LayerNorm(512), nn.Linear(512, 256), nn.Linear(256, 512)

    def forward(self, x: Tensor) -> Tensor:
        across = self.gather(F.leaky_relu(self.spread(self.norm1(x).transpose(1, 2)))).transpose(1, 2)
        x = x + across
        return x + self.up(F.leaky_relu(self.down(self.norm2(x))))


class OfPatches(nn.Module):
    """Patches, layers, the mean over tokens."""

    def __init__(self, channels: int, tokens: int, classes: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, 512, 4, 4)
        self.positions = nn.ParameterList([torch.zeros(tokens, 512)])
        self.layers, self.norm, self.classes = nn.Sequential(*layers), nn.LayerNorm(512), nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2) + self.positions[0]
        return self.classes(self.norm(self.layers(y)).mean(1))


def plain(name: str, channels: int, tokens: int, classes: int) -> nn.Module:
    if name == "resnet18":
        return ResNet18(channels, classes)
    if name == "wrn16_4":
        return WRN(channels, classes)
    layers = [Layer() for _ in range(4)] if name == "vit" else [MixerLayer(tokens) for _ in range(8)]
    return OfPatches(channels, tokens, classes, layers)
