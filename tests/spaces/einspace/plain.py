"""The seeds as anyone would write them in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, stride, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width)
        if stride > 1 or inputs != width:
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


class FittedResNet(nn.Module):
    """For images of 9 to 64 points an axis."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.stages = nn.Sequential(Block(channels, 32, 1), Block(32, 64, 2), Block(64, 128, 2))
        self.classes = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.stages(x).mean((2, 3)))


class InceptionModule(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.bottleneck = nn.Conv2d(inputs, 16, 1)
        self.convolutions = nn.ModuleList(nn.Conv2d(16, 16, k, padding=k // 2) for k in (7, 3, 1))
        self.pointwise, self.norm = nn.Conv2d(inputs, 16, 1), nn.BatchNorm2d(64)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.bottleneck(x)
        return self.norm(torch.cat([*(layer(narrow) for layer in self.convolutions), self.pointwise(x)], 1))


class Inception(nn.Module):
    """For images of 14 to 64 points an axis."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        first, second, third = (InceptionModule(inputs) for inputs in (channels, 64, 64))
        self.body = nn.Sequential(first, nn.LeakyReLU(), second, nn.LeakyReLU(), third)
        self.shortcut = nn.Sequential(nn.Conv2d(channels, 64, 1), nn.BatchNorm2d(64))
        self.classes = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(F.leaky_relu(self.body(x) + self.shortcut(x)).mean((2, 3)))


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
    def __init__(self, width: int, head: int, inner: int) -> None:
        super().__init__()
        self.head, self.norm1 = head, nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, 4 * head) for _ in range(3))
        self.out, self.norm2 = nn.Linear(4 * head, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        q, k, v = (
            layer(y).unflatten(2, (4, self.head)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / self.head**0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.leaky_relu(self.up(self.norm2(x))))


class MixerLayer(nn.Module):
    def __init__(self, width: int, tokens: int, across: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.spread, self.gather = (
            nn.LayerNorm(width),
            nn.Linear(tokens, across),
            nn.Linear(across, tokens),
        )
        self.norm2, self.down, self.up = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        across = self.gather(F.leaky_relu(self.spread(self.norm1(x).transpose(1, 2)))).transpose(1, 2)
        x = x + across
        return x + self.up(F.leaky_relu(self.down(self.norm2(x))))


class OfPatches(nn.Module):
    """Patches, layers, the mean over tokens."""

    def __init__(self, patches: nn.Conv2d, tokens: int, classes: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.patches, width = patches, patches.out_channels
        self.positions = nn.ParameterList([torch.zeros(tokens, width)])
        self.layers, self.norm, self.classes = nn.Sequential(*layers), nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2) + self.positions[0]
        return self.classes(self.norm(self.layers(y)).mean(1))


def plain(name: str, channels: int, tokens: int, classes: int) -> nn.Module:
    if name == "resnet18":
        return ResNet18(channels, classes)
    if name == "wrn16_4":
        return WRN(channels, classes)
    if name == "resnet":
        return FittedResNet(channels, classes)
    if name == "inception":
        return Inception(channels, classes)
    patches, layers = nn.Conv2d(channels, 512, 4, 4), list[nn.Module]()
    if name == "vit":
        layers += [Layer(512, 64, 512) for _ in range(4)]
    elif name == "mixer":
        layers += [MixerLayer(512, tokens, 4 * tokens, 256) for _ in range(8)]
    else:  # for 17 x 13 points
        patches = nn.Conv2d(channels, 64, 2, 2, 1)
        made = {"small_vit": lambda: Layer(64, 16, 128), "small_mixer": lambda: MixerLayer(64, tokens, tokens, 128)}
        layers += [made[name]() for _ in range(2 if name == "small_vit" else 4)]
    return OfPatches(patches, tokens, classes, layers)
